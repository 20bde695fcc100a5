"""The command line and the console give the same answer to the same question."""

import json

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from tests.waiting import eventually


def printed(root, line):
    return json.loads(CliRunner().invoke(main, ["--root", root, *line.split()]).stdout)


@pytest.mark.parametrize(
    ("line", "path", "part"),
    [
        ("brokerList --json", "/v1/brokers", "brokers"),
        ("brokerList --json --as-of 2", "/v1/brokers?epoch=2", "brokers"),
        ("history --json --versions", "/v1/events", "events"),
        ("why broker-a --json", "/v1/why/broker-a", "sentences"),
        ("why TopicA --topic --json", "/v1/why/TopicA?topic=true", "sentences"),
        ("topicRoute -t Shared --json", "/v1/topics/Shared", "route"),
        ("rejected --json", "/v1/churn", "rejected"),
        ("snapshots --json --as-of 3", "/v1/snapshots?limit=1", "snapshots"),
    ],
)
def test_what_one_prints_the_other_serves(still, still_root, line, path, part):
    assert printed(still_root, line) == still.get(path).json[part]


def asked_kafka(console):
    """The status once the console has asked Kafka, which it does again and again."""

    @eventually
    def status():
        found = console.get("/v1/status").json
        assert found["kafka"].startswith("Kafka at "), found
        return found

    return status()


def test_the_state_of_the_job_is_printed_as_it_is_served(still, still_root):
    of_moments = {"ageMillis", "lagMillis", "kafka"}  # they were asked at two moments, of two Kafkas that are away
    shown, served = printed(still_root, "status --json"), asked_kafka(still)
    assert shown["kafka"].startswith("Kafka at ")
    assert shown.keys() == served.keys()
    assert {name: shown[name] for name in shown if name not in of_moments} == {
        name: served[name] for name in served if name not in of_moments
    }


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("topicRoute -t TopicX", "/v1/topics/TopicX"),
        ("why nobody", "/v1/why/nobody"),
        ("history -b x", "/v1/events?broker=x"),
    ],
)
def test_a_name_that_is_not_there_is_refused_in_the_same_words(still, still_root, line, path):
    said = CliRunner().invoke(main, ["--root", still_root, *line.split()]).stderr
    assert said.splitlines()[-1] == f"namesrv-stream: {still.get(path).json['detail']}"
