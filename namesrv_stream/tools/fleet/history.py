"""Publish a long history through the real pipeline by event time: Kafka, streaming job, Delta."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import TOPIC_CONFIG, ensure_topic
from namesrv_stream.reporting.progress_lines import Progress
from namesrv_stream.rules.record_types import Request
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.spark import local_session

CREATE_TIME_TOPIC = {
    **TOPIC_CONFIG,
    "message.timestamp.type": "CreateTime",  # a replay sets the time of each record
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "retention.ms": "-1",
}
_SENT_BEFORE_WAITING = 20_000


def publish_history(
    records: Iterable[tuple[int, Request]],
    root: Path,
    records_a_batch: int,
    report: Callable[[str], None],
    shown: Progress,
) -> None:
    """Publish (event time in ms, request) pairs, in order of time, as a registry at `root`.

    Each micro-batch takes `records_a_batch` records and is one epoch. A gap of time in the records counts as silence
    (D9 is off). `report` is called with each finished step, `shown` gets the present activity. Raises NamesrvError if
    `root` is not empty: records of the past must not follow those of another log.
    """
    if root.exists() and any(root.iterdir()):
        raise NamesrvError(f"{root} is not empty. Name a new folder, or remove this one.")
    with ExitStack() as open_things:
        work = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="namesrv-history-")))
        node = open_things.enter_context(LocalKafka(work / "kafka"))
        settings = _settings(node.bootstrap_servers, root, work, records_a_batch)
        sent = _send(records, settings, shown)
        report(f"{sent:,} records in Kafka, {-(-sent // records_a_batch):,} micro-batches to go")
        shown.activity = "starting Spark"
        spark = local_session("history", {"spark.sql.shuffle.partitions": "1"}, log=work / "spark.log")
        open_things.callback(spark.stop)
        with BackgroundJob(spark, settings, is_replay=True) as job:
            shown.activity = lambda: f"{job.next_offset:,} of {sent:,} records in the tables"
            job.process_all()


def _settings(bootstrap_servers: str, root: Path, work: Path, records_a_batch: int) -> NamesrvSettings:
    return NamesrvSettings.model_validate(
        {
            "kafka.bootstrap.servers": bootstrap_servers,
            "delta.root": str(root.absolute()),
            "checkpoint.location": str(work / "checkpoint"),
            "triggerMillis": 0,
            "maxOffsetsPerTrigger": records_a_batch,
            "tickGapMillis": 0,
        }
    )


def _send(records: Iterable[tuple[int, Request]], settings: NamesrvSettings, shown: Progress) -> int:
    kafka = kafka_client_arguments(settings)
    ensure_topic(kafka, settings.kafka_topic, CREATE_TIME_TOPIC)
    sent = 0
    with HeartbeatProducer(kafka, settings.kafka_topic) as producer:
        for sent, (at_ms, request) in enumerate(records, start=1):
            producer.send(request, event_time_ms=at_ms)
            if sent % _SENT_BEFORE_WAITING == 0:
                producer.require_all()
                shown.activity = f"{sent:,} records in Kafka, and more to come"
        producer.require_all()
    return sent
