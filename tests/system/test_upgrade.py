"""Tables, checkpoint and log of release 0.1.0 under this release's job: it starts by itself and keeps everything."""

import logging

from kafka import KafkaProducer
from pyspark.sql import functions as F

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.record_reader import LOG_PARTITION
from namesrv_stream.kafka.topic import describe_topic, ensure_topic
from namesrv_stream.rules.record_types import RegisterBroker
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import BROKER_EVENT
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tables.spark_views import open_snapshot
from tests.upgrade import BROKERS, unpack

NEW = "10.0.0.5:10911"


def append(settings, log):
    """The same records at the same offsets, in this Kafka."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka_bootstrap_servers)
    for record in log:
        sent = producer.send(settings.kafka_topic, record.value, record.key, partition=LOG_PARTITION)
        assert sent.get(60).offset == record.offset
    producer.close()


def history(reader, snapshot):
    return sorted(rows_from_arrow(BROKER_EVENT, reader.table(BROKER_EVENT, snapshot)), key=lambda line: line[:2])


def test_a_registry_of_the_former_release_goes_on_with_its_routes_and_history(kafka, topic, spark, tmp_path, caplog):
    log, root = unpack(tmp_path), str(tmp_path / "registry")
    settings = NamesrvSettings.model_validate({
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.topic": topic,
        "delta.root": root,
        "checkpoint.location": str(tmp_path / "checkpoint"),
        "snapshot.retention": "36500d",
        "triggerMillis": "0",
    })  # fmt: skip
    ensure_topic(kafka_client_arguments(settings), topic)
    append(settings, log)
    topic_id = describe_topic(kafka_client_arguments(settings), topic).topic_id
    of_groups = tmp_path / "checkpoint" / f"state-4-{topic_id}" / "commits" / "0"
    of_groups.parent.mkdir(parents=True)
    of_groups.touch()
    before = RouteReader(root)
    old = before.open()
    with (
        caplog.at_level(logging.WARNING, "namesrv_stream"),
        BackgroundJob(spark.newSession(), settings) as job,
        HeartbeatProducer(kafka_client_arguments(settings), topic) as producer,
    ):
        producer.tick()  # one only: of the time before it 3 s count, so the leases last, however slow the test is
        producer.send(RegisterBroker(cluster_name="cluster-a", broker_name="broker-5", broker_id=0, broker_addr=NEW))
        producer.flush()
        job.process_all()
    [not_used] = [each.message for each in caplog.records if "of a former release" in each.message]
    assert ("commits" in not_used, of_groups.parent.parent.name in not_used) == (True, True)
    assert of_groups.exists(), "a release that is put back finds its own again"
    after = RouteReader(root)
    new = after.open()
    assert sorted(new.routes.live) == sorted([*BROKERS, NEW])
    assert new.routes.queues == old.routes.queues
    assert new.routes.kv == old.routes.kv
    told = history(before, old.snapshot)
    assert history(after, new.snapshot)[: len(told)] == told
    assert {line.broker_addr or line.type for line in history(after, new.snapshot)[len(told) :]} == {NEW, "LOG_GAP"}
    assert new.snapshot.offsets == {LOG_PARTITION: len(log) + 2}
    session = spark.newSession()
    open_snapshot(session, root, epoch=old.snapshot.epoch)
    later = session.table("live").select(F.col("grace_until").isNull(), F.col("channels").isNull())
    assert [tuple(row) for row in later.collect()] == [(True, True)] * len(BROKERS)
