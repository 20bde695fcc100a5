import json
import signal

from tests.interruption import running


def test_watch_prints_each_change_once_until_interrupted(registry):
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    with running("--root", registry.root, *["topicRoute", "-t", "TopicA", "--json", "--watch", "0.1"]) as watching:
        check(watching, registry)


def check(watching, registry):
    assert [group["brokerName"] for group in json.loads(watching.stdout.readline())["brokerDatas"]] == ["broker-a"]
    registry.register("10.0.0.9:10911", "c1", "broker-z", topics=("Another",))  # leaves the route as it is
    registry.register("10.0.0.2:10911", "c1", "broker-b")
    changed = json.loads(watching.stdout.readline())
    assert [group["brokerName"] for group in changed["brokerDatas"]] == ["broker-a", "broker-b"]
    watching.send_signal(signal.SIGINT)
    rest, errors = watching.communicate(timeout=30)
    assert (watching.returncode, rest, errors) == (0, "", "")
