import json
import signal

from tests.interruption import running


def test_watch_prints_each_change_once_until_interrupted(registry):
    def names():
        return [group["brokerName"] for group in json.loads(watching.stdout.readline())["brokerDatas"]]

    registry.register("10.0.0.1:10911", "c1", "broker-a")
    with running("--root", registry.root, "topicRoute", "-t", "TopicA", "--json", "--watch", "0.1") as watching:
        assert names() == ["broker-a"]
        registry.register("10.0.0.9:10911", "c1", "broker-z", topics=("Another",))  # leaves the route as it is
        registry.register("10.0.0.2:10911", "c1", "broker-b")
        assert names() == ["broker-a", "broker-b"]
        watching.send_signal(signal.SIGINT)
        rest, errors = watching.communicate(timeout=30)
        assert (watching.returncode, rest, errors) == (0, "", "")


def test_a_watched_status_is_printed_for_a_new_snapshot_and_not_because_time_passes(registry):
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    with running("--root", registry.root, "status", "--no-kafka", "--json", "--watch", "0.1") as watching:
        first = json.loads(watching.stdout.readline())["epoch"]
        registry.register("10.0.0.2:10911", "c1", "broker-b")
        assert json.loads(watching.stdout.readline())["epoch"] == first + 1
        watching.send_signal(signal.SIGINT)
        assert watching.communicate(timeout=30) == ("", "")
