import socket

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from namesrv_stream.local.kafka import LocalKafka
from namesrv_stream.local.ports import PortInUseError

MIB = 1 << 20
LIMIT_MS = 30_000


def make_topic(node, name, **settings):
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
    admin.create_topics([NewTopic(name, 1, 1, topic_configs=settings)])
    admin.close()


def send(node, topic, value):
    producer = KafkaProducer(bootstrap_servers=node.bootstrap_servers, max_request_size=18 * MIB, acks="all")
    producer.send(topic, value).get(LIMIT_MS / 1000)
    producer.close()


def values_of(node, topic, count):
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=node.bootstrap_servers,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=18 * MIB,
        consumer_timeout_ms=LIMIT_MS,
    )
    values = [next(consumer).value for _ in range(count)]
    consumer.close()
    return values


def test_kafka_takes_a_record_of_nearly_17_mib(kafka, topic):
    make_topic(kafka, topic, **{"max.message.bytes": str(17 * MIB)})
    value = bytes(17 * MIB - 200)  # the rest is the batch's header
    send(kafka, topic, value)
    assert values_of(kafka, topic, 1) == [value]


@pytest.mark.full
@pytest.mark.system
def test_kafka_that_crashed_comes_back_at_the_same_address_with_its_records(tmp_path, topic):
    with LocalKafka(tmp_path) as node:
        address = node.bootstrap_servers
        make_topic(node, topic)
        send(node, topic, b"before")
        crashed = psutil.Process(node.pid)
        node.kill()
        assert not crashed.is_running()
        node.start()
        assert node.bootstrap_servers == address
        send(node, topic, b"after")
        assert values_of(node, topic, 2) == [b"before", b"after"]


@pytest.mark.system
def test_a_port_in_use_is_named_before_anything_is_started(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"port {port} of 127.0.0.1 is in use"):
            LocalKafka(tmp_path / "kafka", port=port).start()
    assert not (tmp_path / "kafka").exists()
