"""A backlog of large records passes under spark-submit with the driver memory of conf/spark-defaults.conf."""

import os
import random
import sys

import psutil
import pytest
from kafka import KafkaProducer

from namesrv_stream.answers.job_status import newest_row
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.kafka.record_reader import LOG_PARTITION
from namesrv_stream.kafka.topic import TOPIC_CONFIG, end_offsets, ensure_topic
from namesrv_stream.records import encode_record, record_key
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.published import rows_of
from tests.system.clusters import environment, running, spark_submit
from tests.system.heartbeats import registration
from tests.waiting import until

MIB = 1024 * 1024
REGISTRATIONS, MALFORMED = 1_000, 20_000
BROKERS = 10
TOPICS = 5_000
LIMIT_S = 1_500

LARGEST_JVM_MIB, LARGEST_PYTHON_MIB = 2_048, 2_048
"""Limit of resident memory, the JVM's with its heap of 1 GB; a batch held in memory would be 1 GB and more on top."""


def registrations():
    """Ten brokers that change one of 5,000 topics each time: a megabyte a record."""
    for number in range(REGISTRATIONS):
        broker, counter = number % BROKERS, number // BROKERS
        request = registration(
            broker,
            counter=counter,
            heartbeat_timeout_millis=3_600_000,
            topics={f"{topic:04}-{'t' * 120}": TopicConfig(8, 8 + (topic == counter), 6) for topic in range(TOPICS)},
        )
        yield record_key(request), encode_record(request)


def malformed():
    """64 KiB each that no codec makes small."""
    kinds = [random.Random(number).randbytes(64 * 1024) for number in range(16)]
    for number in range(MALFORMED):
        yield b"", kinds[number % len(kinds)]


def send(settings, records):
    """Send them as they are, with so few waiting that this process stays small."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka_bootstrap_servers, max_request_size=17 * MIB, acks="all")
    for number, (key, value) in enumerate(records):
        sent = producer.send(settings.kafka_topic, value, key, partition=LOG_PARTITION)
        if number % 100 == 0:
            sent.get(120)
    producer.flush()
    producer.close()


def peak_mib(process):
    """Return the peak of the process's resident memory since its start."""
    with open(f"/proc/{process.pid}/status") as status:  # noqa: PTH123  # no file of ours
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def has_published(job, log, registry, end):
    """Return whether all records before `end` are in the tables, which the job makes when it first runs."""
    if job.exit_code is not None:
        pytest.fail(f"the job ended with {job.exit_code}: {log.read_text()[-3000:]}")
    row = newest_row(registry)
    return row is not None and row.offsets.get(LOG_PARTITION, 0) >= end


@pytest.mark.full
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize(
    ("records", "count"), [(registrations, REGISTRATIONS), (malformed, MALFORMED)], ids=["registrations", "malformed"]
)
def test_a_backlog_of_large_records_passes_with_the_default_memory(kafka, topic, tmp_path, monkeypatch, records, count):
    monkeypatch.chdir(CHECKOUT)
    root = str(tmp_path / "registry")
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.topic": topic, "delta.root": root}
    settings = NamesrvSettings.model_validate(options)
    kafka_options, log = kafka_client_arguments(settings), tmp_path / "job.log"
    ensure_topic(kafka_options, topic, TOPIC_CONFIG | {"compression.type": "uncompressed"})
    send(settings, records())
    assert end_offsets(kafka_options, topic) == {LOG_PARTITION: count}
    environ = environment(sys.executable) | {"JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", "")}
    with running(spark_submit("--master", "local[2]", settings=options), log, environ) as job:
        until(lambda: has_published(job, log, Root(root), count), LIMIT_S)
        jvm = psutil.Process(job.pid)
        living = [child for child in jvm.children() if child.status() != psutil.STATUS_ZOMBIE]
        peaks = peak_mib(jvm), max(map(peak_mib, living))  # the driver's Python is larger than the workers' daemon
    print(f"peak of resident memory: JVM {peaks[0]} MiB, Python {peaks[1]} MiB")  # noqa: T201  # for who measures
    view = Registry(root).newest()
    if records is registrations:
        assert len(view.routes.queues) == TOPICS
        assert len(view.routes.live) == BROKERS
    else:
        assert sorted(row.offset for row in rows_of(root, "rejected")) == list(range(count))
    assert peaks[0] < LARGEST_JVM_MIB
    assert peaks[1] < LARGEST_PYTHON_MIB
