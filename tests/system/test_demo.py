"""`namesrv-stream demo`, broken off in the middle of its story."""

import signal

import pytest

from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.interruption import running

pytestmark = [pytest.mark.system, pytest.mark.full]
LIMIT_S = 120


@pytest.fixture
def demo(tmp_path):
    with running("demo", "--data", str(tmp_path / "data")) as process:
        yield process


def test_ctrl_c_ends_the_demo_in_order_and_leaves_its_tables(demo, tmp_path):
    lines = iter(demo.stdout.readline, "")
    assert any("falls silent" in line for line in lines), demo.stderr.read()
    demo.send_signal(signal.SIGINT)
    _, said = demo.communicate(timeout=LIMIT_S)
    assert demo.returncode == 130, said
    root = str(tmp_path / "data" / "registry")
    assert said == f"namesrv-stream: interrupted: all of it is stopped. What there is of the tables is in {root}.\n"
    assert RouteReader(root).follow().routes.live
