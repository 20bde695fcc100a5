import os
import socket

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import kafka_server as local_kafka
from namesrv_stream.tools.local.kafka_server import LocalKafka

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
        with pytest.raises(NamesrvError, match=f"port {port} of 127.0.0.1 is in use"):
            LocalKafka(tmp_path / "kafka", port=port).start()
    assert not (tmp_path / "kafka").exists()


@pytest.fixture
def no_archive(tmp_path, monkeypatch):
    """No node has left an archive of classes yet; the file that the first one leaves."""
    folder = tmp_path / "my jars"
    folder.mkdir()
    monkeypatch.setattr(local_kafka, "ARCHIVE", folder / "classes.jsa")
    return folder / "classes.jsa"


@pytest.mark.system
def test_a_node_that_ends_in_order_leaves_the_classes_with_which_the_next_one_starts(
    no_archive, tmp_path, topic, monkeypatch
):
    node = LocalKafka(tmp_path / "kafka")
    with node:
        make_topic(node, topic)
        send(node, topic, b"before")
    assert [file.name for file in no_archive.parent.iterdir()] == [no_archive.name]

    classes = tmp_path / "classes.txt"
    logged = f"{os.environ['JDK_JAVA_OPTIONS']} -Xlog:class+load:file={classes}"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", logged)
    with node:
        assert values_of(node, topic, 1) == [b"before"]
    assert "kafka.server.BrokerServer source: shared objects file (top)" in classes.read_text()
