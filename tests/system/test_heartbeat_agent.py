"""jobs/heartbeat_agent.py, the example of a program that writes to the heartbeat topic by kafka-python alone."""

import json
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from namesrv_stream.records import record_schema

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "records.md").read_text()
AGENT = CHECKOUT / "jobs" / "heartbeat_agent.py"
BROKER = {"clusterName": "c1", "brokerName": "broker-1", "brokerId": 0, "brokerAddr": "10.0.0.1:10911"}
QUEUES = {"readQueueNums": 8, "writeQueueNums": 8, "perm": 6}
VALID = Draft202012Validator(record_schema())
pytestmark = pytest.mark.system


@contextmanager
def agent(kafka, topic, file):
    command = [sys.executable, AGENT, "--from-file", file, "--kafka", kafka, "--topic", topic]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def write(file, *brokers):
    """A file is replaced whole, so that the agent reads no half of it."""
    (file.parent / "new").write_text(json.dumps(brokers))
    (file.parent / "new").rename(file)


def logged(process, text):
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return
    raise AssertionError(lines)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "brokers.json"


def test_the_documented_command_registers_its_broker(heartbeats, tmp_path):
    [documented] = re.findall(r"<!-- tested: with a Kafka and folder of the test -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
    command = documented.replace("data/", f"{tmp_path}/").replace(
        "127.0.0.1:9092", heartbeats.kafka["bootstrap.servers"]
    )
    command = command.rstrip().replace(".venv/bin/python", f"exec {sys.executable}") + f" --topic {heartbeats.topic}"
    with subprocess.Popen(["bash", "-euc", command], cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as process:
        logged(process, "sent REGISTER_BROKER 10.0.0.9:10911")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


UNREADABLE = {
    '[{"clusterName": "c1", "bro': "Unterminated string",
    "7": "expected a JSON list",
    json.dumps([BROKER, BROKER]): "appears twice",
    json.dumps([BROKER | {"brokerAddr": "10.0.0.1:70000"}]): "70000",
    json.dumps([{**BROKER, "brokerId": "0"}]): "the number brokerId",
    json.dumps(["broker-1"]): '"broker-1"',
}


def test_the_agent_writes_what_the_schema_allows_and_follows_its_file_whose_faults_it_names(heartbeats, file):
    with agent(heartbeats.kafka["bootstrap.servers"], heartbeats.topic, file) as process:
        logged(process, "No such file")
        for text, problem in UNREADABLE.items():
            file.write_text(text)
            logged(process, problem)
        write(file, BROKER, BROKER | {"brokerId": 1, "brokerAddr": "10.0.0.2:10911"})
        logged(process, "sent REGISTER_BROKER")
        file.write_text("[")
        logged(process, "Correct it")
        write(file, BROKER | {"topicConfigTable": {"orders": QUEUES}})
        logged(process, "sent UNREGISTER_BROKER 10.0.0.2:10911, REGISTER_BROKER 10.0.0.1:10911")
        process.send_signal(signal.SIGTERM)
        logged(process, "sent UNREGISTER_BROKER 10.0.0.1:10911")
        assert process.wait() == 0
    types = ["REGISTER_BROKER", "REGISTER_BROKER", "UNREGISTER_BROKER", "REGISTER_BROKER", "UNREGISTER_BROKER"]
    values = [json.loads(value) for value in heartbeats.values()]
    assert [value["type"] for value in values] == types
    assert [list(VALID.iter_errors(value)) for value in values] == [[]] * 5
    versions = [value["dataVersion"]["counter"] for value in values if value["type"] == "REGISTER_BROKER"]
    assert len(set(versions)) == 3


def test_a_change_that_was_made_while_kafka_was_away_is_sent_afterwards(node, heartbeats, file):
    write(file, BROKER)
    with agent(heartbeats.kafka["bootstrap.servers"], heartbeats.topic, file) as process:
        logged(process, "sent REGISTER_BROKER")
        node.kill()
        write(file, BROKER | {"zoneName": "z1"})
        logged(process, "the agent sends them again")
        node.start()
        logged(process, "sent REGISTER_BROKER")
    assert json.loads(heartbeats.values()[-1])["zoneName"] == "z1"
