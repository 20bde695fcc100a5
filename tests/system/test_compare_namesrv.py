"""compare beside RocketMQ's own NameServer: the same brokers registered at both, then something that differs."""

import json

import pytest

from benchmarks.peers import Peer
from league.broker import Broker
from namesrv_stream.rules.record_types import TopicConfig, WipeWritePerm
from namesrv_stream.tools.local.rocketmq_servers import name_server
from namesrv_stream.wire.codes import Version
from tests.cli.conftest import claimed, now_ms, registry, run  # noqa: F401  # fixtures of the command line's tests

pytestmark = pytest.mark.system

TOPICS = ("TopicA", "Orders")


@pytest.fixture
def theirs(tmp_path):
    with name_server(tmp_path / "namesrv") as server:
        yield server
        server.kill()  # an orderly stop takes it three seconds


def register(registry, theirs, name, address):  # noqa: F811
    """Register a broker at both, and return its connection to the NameServer."""
    line = Peer(int(theirs.address.rpartition(":")[2]))
    broker = Broker(name, 0, address, "c1", line, Version.V5_4_0)
    assert broker.register({topic: TopicConfig(8, 8, 6) for topic in TOPICS}).code == 0
    registry.register(address, "c1", name, topics=TOPICS, enable_acting_master=False)
    return line


def test_a_name_server_with_the_same_brokers_agrees_and_one_with_others_does_not(run, registry, theirs):  # noqa: F811
    brokers = {"broker-a": "10.0.0.1:10911", "broker-b": "10.0.0.2:10911"}
    lines = [register(registry, theirs, name, address) for name, address in brokers.items()]
    agreed = run(f"compare -n {theirs.address}")
    assert agreed.exit_code == 0, agreed.output
    assert agreed.stderr == ""
    registry.command(WipeWritePerm(broker_name="broker-b"))
    differs = run(f"compare -n {theirs.address} --json")
    assert differs.exit_code == 1
    found = {(each["question"], each["place"]) for each in json.loads(differs.stdout)["differences"]}
    assert found == {(f"route of {topic}", "queueDatas.broker-b.perm") for topic in TOPICS}
    for line in lines:
        line.close()
