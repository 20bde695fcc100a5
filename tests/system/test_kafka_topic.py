"""The heartbeat topic on a real Kafka: made, checked, written through an outage."""

import signal
import socket
import subprocess

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from namesrv_stream.cli.entry import main
from namesrv_stream.config import as_options
from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.kafka.producer import HeartbeatProducer, Ticker
from namesrv_stream.kafka.topic import end_offsets, ensure_topic
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    PutKvConfig,
    RegisterBroker,
    Scan,
    TopicConfig,
    UnregisterBroker,
)
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.process import listens
from tests.build import registration
from tests.clock import now_ms
from tests.interruption import interruptible
from tests.log_records import requests
from tests.system.heartbeats import PATIENT
from tests.system.topics import make_topic
from tests.waiting import eventually, until

pytestmark = pytest.mark.system
LIMIT_S = 60


@pytest.fixture
def kafka(node):
    return {"bootstrap.servers": node.bootstrap_servers}


@pytest.fixture
def topic(kafka, request):
    name = request.node.name.replace("[", "-").replace("]", "")
    assert ensure_topic(PATIENT | kafka, name).warnings == []
    return name


class Misaddressed(LocalKafka):
    """A Kafka that answers, and announces another address of its node."""

    announced = ""

    def _server_properties(self):
        return super()._server_properties() + f"advertised.listeners=PLAINTEXT://{self.announced}\n"

    def _answers(self):
        return listens(self._port)


def test_a_kafka_that_announces_an_address_nobody_reaches_is_told_as_that(tmp_path, nobody):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:  # what is sent there is dropped
        drops = f"127.0.0.1:{full.getsockname()[1]}"
        taken = [socket.socket() for _ in range(3)]
        for each in taken:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        for announced in ("no-such-host.invalid:9092", nobody, drops):
            server = Misaddressed(tmp_path / announced)
            server.announced = announced
            with server:
                given = {"kafka.bootstrap.servers": server.bootstrap_servers, "delta.root": tmp_path / "r"}
                for line in ("status", "doctor --role gateway", "updateKvConfig -s NS -k k -v v", "fleet --duration 1"):
                    told = CliRunner().invoke(main, [*as_options(given), *line.split()])
                    assert told.exit_code == 1, (line, told.output)
                    assert announced in told.output, told.output
                    assert "advertised.listeners" in told.output, told.output
                    assert "ok" not in told.output.split(), line
        for each in taken:
            each.close()


class WithoutController(LocalKafka):
    """A Kafka that misses its only node for 5 of 10 s: it then names no controller."""

    def _server_properties(self):
        return super()._server_properties() + "broker.heartbeat.interval.ms=10000\nbroker.session.timeout.ms=5000\n"


def test_a_client_opened_while_there_is_no_controller_goes_on_when_there_is_one(tmp_path):
    with WithoutController(tmp_path) as server:
        kafka = {"bootstrap.servers": server.bootstrap_servers, "socket.timeout.ms": 5_500}

        def has_lost_its_node():
            try:
                AdminClient(kafka).list_topics(timeout=LIMIT_S)
            except KafkaException as error:
                return "Partial response" in str(error)

        until(has_lost_its_node)
        assert end_offsets(kafka, "none") == {}


def heartbeat(number):
    return BrokerHeartbeat(broker_addr=f"10.0.0.{number}:10911")


def test_topic_is_made_once_with_one_partition_and_append_time(kafka):
    assert ensure_topic(kafka, "made").warnings == []
    assert ensure_topic(kafka, "made").warnings == []
    assert end_offsets(kafka, "made") == {0: 0}


def test_topic_of_others_is_left_as_it_is_and_each_fault_named(kafka):
    configs = {"message.timestamp.type": "CreateTime", "max.message.bytes": "1000000", "retention.ms": "60000"}
    make_topic(kafka, "of_others", 3, configs | {"cleanup.policy": "compact,delete"})
    warnings = ensure_topic(kafka, "of_others").warnings
    named = ("CreateTime", "3 partitions", "max.message.bytes", "compaction", "retention.ms")
    assert len(warnings) == len(named)
    assert all(word in warning for word, warning in zip(named, warnings, strict=True))
    assert set(end_offsets(kafka, "of_others")) == {0, 1, 2}


def test_registration_of_the_largest_size_is_accepted_and_a_larger_one_refused(kafka, topic):
    def of_size(topics):
        return registration(topics={f"{number:0100d}": TopicConfig(1, 1, 6) for number in range(topics)})

    with HeartbeatProducer(kafka, topic) as producer:
        producer.send(of_size(100_000)).result(LIMIT_S)  # 16 MiB
        with pytest.raises(KafkaRefusedError, match=r"\d{8} bytes"):
            producer.send(of_size(120_000)).result(LIMIT_S)
    assert end_offsets(kafka, topic) == {0: 1}


def test_ticks_commands_and_all_brokers_records_have_one_order_by_the_time_of_their_append(kafka, topic):
    said = [Scan(), PutKvConfig(namespace="n", key="k", value="v"), *(heartbeat(number) for number in range(1, 40))]
    before_ms = now_ms()
    with HeartbeatProducer(kafka, topic) as producer:
        sent = [producer.tick(), *(producer.send(each, event_time_ms=1) for each in said[1:])]
        places = [each.result(LIMIT_S) for each in sent]
    assert [(place.partition, place.offset) for place in places] == [(0, offset) for offset in range(len(said))]
    assert min(place.event_time for place in places) >= before_ms
    assert requests(kafka, topic) == said


def test_missing_topic_is_not_made_by_the_producer(kafka):
    with pytest.raises(KafkaRefusedError, match="no topic missing"):
        HeartbeatProducer(kafka, "missing")
    assert end_offsets(kafka, "missing") == {}


def test_outage_loses_no_accepted_record_and_repeats_none(kafka, node, topic):
    sent = []
    with HeartbeatProducer(kafka, topic) as producer:
        sent += [(heartbeat(n), producer.send(heartbeat(n))) for n in range(1, 100)]
        sent[0][1].result(LIMIT_S)
        node.kill()
        sent += [(heartbeat(n), producer.send(heartbeat(n))) for n in range(100, 200)]
        node.start()
        sent += [(heartbeat(n), producer.send(heartbeat(n))) for n in range(200, 250)]
        places = {future.result(LIMIT_S).offset: request for request, future in sent}
    assert len(places) == len(sent)
    assert dict(enumerate(requests(kafka, topic))) == places


def test_ticks_do_not_pile_up_while_kafka_is_away_and_go_on_afterwards(kafka, node, topic):
    with HeartbeatProducer(kafka, topic) as producer, Ticker(producer, tick_ms=20) as ticker:
        until(lambda: end_offsets(kafka, topic)[0] >= 3)
        with node.paused():
            sent_before, held_back_before = ticker.sent, ticker.held_back
            until(lambda: ticker.held_back >= held_back_before + 20)
            assert ticker.sent <= sent_before + 1
        after = ticker.sent
        until(lambda: end_offsets(kafka, topic)[0] >= after + 5)
    assert set(requests(kafka, topic)) == {Scan()}


def test_producer_goes_on_after_an_outage_that_it_gave_up_on(kafka, node, topic):
    with HeartbeatProducer(kafka, topic, delivery_timeout_ms=500) as producer:

        @eventually
        def is_accepted(number):
            producer.send(heartbeat(number)).result(LIMIT_S)

        is_accepted(0)
        with node.paused():
            for number in range(1, 4):  # one after the other expires, with the producer connected before
                given_up = producer.send(heartbeat(number))
                assert isinstance(given_up.exception(LIMIT_S), KafkaUnreachableError)

        is_accepted(4)


def test_fleet_command_ends_in_order_when_interrupted(kafka, node, topic):
    options = ["--bootstrap-server", node.bootstrap_servers, "--kafka-topic", topic, "--brokers=4", "--start-over=0"]
    with subprocess.Popen(interruptible("fleet", *options)) as fleet:

        @eventually
        def all_have_registered_and_a_tick_came():
            said = [type(each) for each in requests(kafka, topic)]
            assert (said.count(RegisterBroker), Scan in said) == (4, True)

        all_have_registered_and_a_tick_came()
        fleet.send_signal(signal.SIGINT)
        assert fleet.wait(LIMIT_S) == 0
    assert [type(each) for each in requests(kafka, topic)].count(UnregisterBroker) == 4
