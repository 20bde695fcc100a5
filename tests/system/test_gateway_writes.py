"""Writing requests on a real Kafka: what is answered 0 is in the log, also through an outage and other gateways."""

import json
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from namesrv_stream.gateway import sending
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.records import MAX_RECORD_BYTES
from namesrv_stream.rules.record_types import BrokerHeartbeat, ChannelClosed, PutKvConfig, RegisterBroker
from tests.build import register_request
from tests.gateway.peer import Peer
from tests.system.gateway_stack import eventually, until
from tests.system.sites import Site
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.system

ADDRESS = "10.0.0.1:10911"


@pytest.fixture
def site(node, topic, tmp_path):
    with Site(node, topic, tmp_path) as made:
        yield made


def register(peer, counter=1, topics=("A", "B"), **changed):
    said = register_request(counter=counter, topics=topics, **changed)
    return peer.ask(said.code, said.body, **said.ext_fields)


def test_a_kv_entry_that_kafka_refuses_keeps_no_other_back_and_is_named(site, caplog):
    site.registry.register(ADDRESS, "c", "a")
    table = {"n": {"a": "1", "large": "x" * (MAX_RECORD_BYTES + 1), "z": "2"}}
    Path(site.settings.kv_config_path).write_text(json.dumps({"configTable": table}))
    with BackgroundGateway(site.settings):
        site.await_records(PutKvConfig, PutKvConfig)
    assert [(each.key, each.value) for each in site.records(PutKvConfig)] == [("a", "1"), ("z", "2")]
    assert "KV entry n/large of kvConfigPath rejected" in caplog.text


def test_a_broker_at_two_gateways_is_two_channels_of_one_lease(site):
    ports = [site.start_gateway().gateway.port for _ in range(2)]
    with Peer(ports[0]) as first:
        with Peer(ports[1]) as second:
            register(first)
            register(second)
        said = site.await_records(RegisterBroker, RegisterBroker, ChannelClosed)
        assert said[1].channel_id == said[2].channel_id != said[0].channel_id
        register(first)
        assert isinstance(site.records()[-1], BrokerHeartbeat), "the first gateway has nothing new to say"


def test_nothing_that_was_answered_0_is_lost_in_an_outage_and_the_rest_is_answered_busy(site, node, monkeypatch):
    port = site.start_gateway().gateway.port
    with Peer(port) as peer:
        answers = {}

        def put(number):
            answers[number] = peer.ask(100, namespace="n", key=f"k{number}", value="v").code

        with monkeypatch.context() as patient:
            patient.setattr(sending, "ANSWER_LIMIT_S", LIMIT_S)
            for number in range(20):
                put(number)
        node.kill()
        for number in range(20, 23):
            put(number)
        assert peer.ask(105, topic="Nowhere").code == 17, "lookups go on"
        node.start()

        @eventually
        def back():
            put(max(answers) + 1)
            assert answers[max(answers)] == 0

        back()
        assert [answers[number] for number in range(20)] == [0] * 20
        assert [answers[number] for number in range(20, 23)] == [2, 2, 2]
        in_log = {each.key for each in site.records(PutKvConfig)}
        assert in_log >= {f"k{number}" for number, code in answers.items() if code == 0}


def test_d13_a_gateway_without_kafka_sends_its_brokers_away_and_ends_no_lease(site, node):
    gateway = site.start_gateway(kafka_away_millis=1_000).gateway

    def is_away():
        return gateway.metrics.registry.get_sample_value("namesrv_kafka_away")

    with Peer(gateway.port) as broker, Peer(gateway.port) as client:
        assert register(broker).code == 0
        with node.paused():
            assert broker.is_closed_by_server()
            assert is_away()
            assert client.ask(105, topic="Nowhere").code == 17, "lookups go on, over the connection of before"
        until(lambda: not is_away())
    assert site.records(ChannelClosed) == []


def test_a_topic_that_is_deleted_is_reported_and_writes_go_on_when_it_is_back(site):
    with Peer(site.start_gateway().gateway.port) as peer:

        def put():
            return peer.ask(100, namespace="n", key="k", value="v").code

        assert put() == 0
        with KafkaAdminClient(bootstrap_servers=site.kafka["bootstrap.servers"]) as admin:
            admin.delete_topics([site.topic])
        until(lambda: put() == 2)
        waiting = peer.send(100, namespace="n", key="k", value="v")
        assert peer.ask(105, topic="Nowhere").code == 17, "lookups do not wait for the write before them"
        assert (peer.receive().opaque, peer.ask(106).code) == (waiting, 0)
        assert ensure_topic(site.kafka, site.topic).warnings == []
        until(lambda: put() == 0)
        assert site.records(PutKvConfig)
