"""`namesrv-stream up`: everything on this machine, ended by Ctrl-C."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tools.local.ports import listens
from tests.system.heartbeats import until

pytestmark = [pytest.mark.system, pytest.mark.full]  # the demo, in every run, starts the same processes
LIMIT_S = 120
NAMESRV_STREAM = Path(sys.executable).with_name("namesrv-stream")


def test_up_ends_in_order_when_interrupted_and_logs_each_step(up, tmp_path):
    lines = iter(up.stdout.readline, "")
    address = next(line for line in lines if line.startswith("name server")).split()[-1]
    assert listens(int(address.rpartition(":")[2]))
    reader = RouteReader(str(tmp_path / "r"))
    until(lambda: len(reader.follow().routes.live) == 2)
    up.send_signal(signal.SIGINT)
    said, logged = up.communicate(timeout=LIMIT_S)
    assert up.returncode == 0, logged
    assert said.endswith(f"Ended in order. The tables stay in {tmp_path / 'r'}.\n")
    told = [re.sub(r"^\S+ \S+ ", "", line) for line in logged.splitlines()]
    steps = ["starting Kafka", "Kafka answers", "starting Spark", "run ", "name server listens"]
    ends = ["stopping the brokers", "stopping the job", "stopping Kafka"]
    found = [next(i for i, line in enumerate(told) if line.startswith(f"INFO {step}")) for step in steps + ends]
    assert found == sorted(found)
    assert reader.follow().routes.live == {}


def is_logged(up, text):
    """Wait for a line of the log, and return the lines up to it."""
    lines = []
    for line in iter(up.stderr.readline, ""):
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"not logged: {text}: {lines}")


def assert_one_line(lines):
    """Assert that no traceback buries the line that names what has died."""
    assert [line for line in lines if not line.startswith("20")] == []


def children(up, name):
    return [each for each in psutil.Process(up.pid).children(recursive=True) if name in command_of(each)]


def command_of(process):
    try:
        return " ".join(process.cmdline())
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return ""


def test_up_starts_what_has_died_again_says_so_and_ends_whatever_is_dead(up, tmp_path):
    next(line for line in iter(up.stdout.readline, "") if line.startswith("name server"))
    reader = RouteReader(str(tmp_path / "r"))
    [kafka] = children(up, "kafka.Kafka")
    kafka.kill()
    assert_one_line(is_logged(up, "Kafka has died"))
    is_logged(up, "Kafka runs again")
    [spark, *_] = children(up, "org.apache.spark.deploy.SparkSubmit")
    term = reader.follow().snapshot.term
    spark.kill()
    assert_one_line(is_logged(up, "Spark has died"))
    is_logged(up, "Spark runs again")
    until(lambda: reader.follow().snapshot.term > term and reader.follow().snapshot.kind == "PUBLICATION")
    asked = subprocess.run(
        [NAMESRV_STREAM, "--root", tmp_path / "r", "submit"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert asked.returncode == 2
    assert "--take-over" in asked.stderr
    for each in (*children(up, "kafka.Kafka"), *children(up, "org.apache.spark.deploy.SparkSubmit")):
        each.kill()
    up.send_signal(signal.SIGINT)
    up.communicate(timeout=LIMIT_S)
