"""Benchmarks are run by hand. Here those without Kafka run on a small registry, so that no new column breaks them."""

import subprocess
import sys

import pytest

from benchmarks.history import BROKERS, end_year
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RustWriter


def test_a_made_history_has_the_columns_of_the_table(tmp_path):
    publisher = Publisher.claim(RustWriter(Root(str(tmp_path / "registry"))), "bench", 1_700_000_000_000)
    end_year(publisher)
    reader = Registry(Root(str(tmp_path / "registry")))
    assert len(reader.follow().routes.live) == BROKERS


@pytest.mark.full
@pytest.mark.parametrize(
    "program",
    [
        "bodies",
        "driver --brokers 2 --topics 10",
        "guard --only cli",
        "long_log --entries 20",
        "requests --repeats 1",
        "scale --brokers 2 --topics 10 --changes 1",
        "watch --watchers 2 --changes 1",
    ],
)
def test_a_benchmark_runs(program):
    name, *options = program.split()
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "load average" in done.stdout
