"""`namesrv-stream up`: everything on this machine, ended by Ctrl-C."""

import re
import signal

import psutil
import pytest

from namesrv_stream.tables.registry import Registry
from namesrv_stream.tools.local.process import listens
from tests.system.heartbeats import until

pytestmark = [pytest.mark.system, pytest.mark.full]  # the demo, in every run, starts the same processes
LIMIT_S = 120


def test_up_ends_in_order_when_interrupted_and_logs_each_step(up, tmp_path):
    lines = iter(up.stdout.readline, "")
    address = next(line for line in lines if line.startswith("NameServer address")).split()[-1]
    assert listens(int(address.rpartition(":")[2]))
    reader = Registry(str(tmp_path / "r"))
    until(lambda: len(reader.follow().routes.live) == 2)
    up.send_signal(signal.SIGINT)
    said, logged = up.communicate(timeout=LIMIT_S)
    assert up.returncode == 0, logged
    assert f"Stopped. The tables are kept in {tmp_path / 'r'}.\n" in said
    assert re.search(r"have unregistered. `clusterList --as-of \d+` shows them", said)
    told = [re.sub(r"^\S+ \S+ ", "", line) for line in logged.splitlines()]
    steps = ["Kafka starts", "Kafka is ready", "Spark starts", "run ", "the gateway listens"]
    ends = ["the brokers ", "the job publishes", "Kafka stops"]
    found = [next(i for i, line in enumerate(told) if line.startswith(f"INFO {step}")) for step in steps + ends]
    assert found == sorted(found)
    assert reader.follow().routes.live == {}


def children(up, name):
    return [each for each in psutil.Process(up.pid).children(recursive=True) if name in command_of(each)]


def command_of(process):
    try:
        return " ".join(process.cmdline())
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return ""


@pytest.mark.parametrize(
    ("part", "command", "log"),
    [("Kafka", "kafka.Kafka", "kafka/"), ("Spark", "org.apache.spark.deploy.SparkSubmit", "spark.log")],
)
def test_up_ends_when_a_part_dies_and_shows_its_last_lines_and_its_log(up, tmp_path, part, command, log):
    next(line for line in iter(up.stdout.readline, "") if line.startswith("NameServer address"))
    for each in children(up, command):
        each.kill()
    _, logged = up.communicate(timeout=LIMIT_S)
    assert up.returncode == 1, logged
    [line] = [line for line in logged.splitlines() if f"{part} ended unexpectedly" in line]
    assert f"The last lines of {tmp_path / log}" in line
    assert "Traceback" not in logged
