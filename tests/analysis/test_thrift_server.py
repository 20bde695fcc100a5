"""From an empty Spark Thrift server to rows in a client that speaks JDBC, by the commands of docs/bi.md."""

import re
import subprocess

import pytest

from namesrv_stream.tables.root import Root
from namesrv_stream.tools.local.jars import CHECKOUT, retrieved_jars
from namesrv_stream.tools.local.process import free_ports
from tests.answers.seeded import DAY_MS, HOUR_MS, SeededRegistry
from tests.system.clusters import running, running_shell
from tests.tables.rows import NOW
from tests.waiting import eventually

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1800)]

LIMIT_S = 700
PAGE = (CHECKOUT / "docs" / "bi.md").read_text()
START, MAKE_VIEWS, ASK, FOLLOW = re.findall(r"<!-- tested: Thrift server -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
METRIC = re.search(r"Metrics, Custom SQL: `(.*?)`", PAGE)[1]
PROMPT = re.compile(r"^(\d: jdbc:\S+> |(\. )+> )+")
"""Prompts that beeline writes before an answer."""
MIDNIGHT_MS = NOW // DAY_MS * DAY_MS
A, B = "10.0.0.1:10911", "10.0.0.2:10911"


@pytest.fixture
def here(tmp_path):
    """Return a function that gives the page's commands a free port, and a folder of the test in place of data/."""
    retrieved_jars("spark")
    port = free_ports(1)

    def here(commands):
        return commands.replace("10000", str(port)).replace("data/", f"{tmp_path}/")

    return here


@pytest.fixture
def server(here, tmp_path, monkeypatch):
    """The page's server, on an empty metastore; the output of a command beside it, as lines."""
    monkeypatch.chdir(CHECKOUT)
    log = tmp_path / "server.log"
    start = here(START).replace("spark-submit", "exec spark-submit")

    def run(commands):
        command = ["bash", "-euo", "pipefail", "-c", f". .venv/bin/activate\n{here(commands)}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, f"{done.stderr[-3000:]}\n{log.read_text()[-3000:]}"
        return [PROMPT.sub("", line) for line in done.stdout.splitlines() if line.strip()]

    with running(["bash", "-euo", "pipefail", "-c", start], log, None):
        yield run


@pytest.fixture
def registry(tmp_path):
    registry = SeededRegistry(Root(str(tmp_path / "registry")), NOW)
    registry.register(MIDNIGHT_MS, A, "broker-a", topics=("T",))
    registry.expire(MIDNIGHT_MS + 6 * HOUR_MS, A)
    registry.register(MIDNIGHT_MS + 12 * HOUR_MS, A, "broker-a", topics=("T",))
    registry.publish(at_ms=MIDNIGHT_MS + DAY_MS)
    return registry


def test_a_thrift_server_serves_permanent_views_that_one_command_moves_to_each_new_snapshot(
    server, registry, here, tmp_path
):
    server(MAKE_VIEWS)
    header, *before = server(ASK)
    assert header == "day,cluster_name,percent"
    assert [line.partition(",")[2] for line in before] == ["c1,75.0"]
    follow = f". .venv/bin/activate\n{here(FOLLOW).replace('--watch 60', '--watch 1')}"
    more = "SELECT topic, broker_name FROM routes.topic_placement; DESCRIBE routes.topic; "
    more += f"SELECT cluster_name, {METRIC} FROM routes.cluster_availability GROUP BY ALL"

    def assert_the_views_have_moved():
        after = server(ASK.replace("ORDER BY ALL", f"ORDER BY ALL; {more}"))
        assert {"c1,75.0", "c1,100.0"} <= {line.partition(",")[2] for line in after}
        assert {"T,broker-a", "T,broker-b", "topic,string,name of the topic", f"c1,{100 * 66 / 72}"} <= set(after)

    with running_shell(follow, tmp_path / "follow.log"):
        registry.register(MIDNIGHT_MS + DAY_MS, B, "broker-b", topics=("T",))
        registry.publish(at_ms=MIDNIGHT_MS + 2 * DAY_MS)
        eventually(assert_the_views_have_moved, LIMIT_S)()
