import json
import signal
import subprocess

import pytest

from tests.interruption import interruptible

MASTER = "10.0.0.1:10911"


@pytest.fixture
def watch(registry):
    """Starts a watching command; its standard output is read line by line."""
    running = []

    def watch(line):
        command = interruptible("--root", registry.root, *line.split())
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield watch
    for process in running:
        process.kill()
        process.communicate()


def test_watch_prints_each_change_once_until_interrupted(registry, watch):
    registry.register(MASTER, "c1", "broker-a")
    watching = watch("topicRoute -t TopicA --json --watch 0.1")
    assert [group["brokerName"] for group in json.loads(watching.stdout.readline())["brokerDatas"]] == ["broker-a"]
    registry.register("10.0.0.9:10911", "c1", "broker-z", topics=("Another",))  # leaves the route as it is
    registry.register("10.0.0.2:10911", "c1", "broker-b")
    changed = json.loads(watching.stdout.readline())
    assert [group["brokerName"] for group in changed["brokerDatas"]] == ["broker-a", "broker-b"]
    watching.send_signal(signal.SIGINT)
    rest, errors = watching.communicate(timeout=30)
    assert (watching.returncode, rest, errors) == (0, "", "")


def statements(watching):
    """Read the statements of one snapshot: its epoch, and the last view that is made."""
    first = watching.stdout.readline()
    for line in watching.stdout:
        if line == "FROM rejected;\n":
            return first
    return None


def test_the_statements_of_permanent_views_come_again_with_each_snapshot_until_interrupted(registry, watch):
    registry.register(MASTER, "c1", "broker-a")
    watching = watch("snapshots --sql --schema routes --watch 0.1")
    before = statements(watching)
    registry.register("10.0.0.2:10911", "c1", "broker-b")
    after = statements(watching)
    assert [line.partition(",")[0] for line in (before, after)] == ["-- epoch 2", "-- epoch 3"]
    watching.send_signal(signal.SIGINT)
    rest, errors = watching.communicate(timeout=30)
    assert (watching.returncode, rest, errors) == (0, "", "")
