"""Replay a case through the real pipeline by event time: Kafka, streaming job, Delta."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import TOPIC_CONFIG, ensure_topic
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.spark import local_session
from replay.case_checks import Check, Json, check_output
from replay.cases import Case, RestartStep, ScanStep, Step


@contextmanager
def stream_engine(spark: SparkSession | None = None) -> Iterator[Callable[[Case], Json]]:
    """Provide one Kafka and one Spark session for all cases replayed within the `with`; `spark` is not stopped."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    base_ms = int(midnight.timestamp() * 1000)
    with ExitStack() as open_things:
        work = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="namesrv-replay-")))
        kafka = open_things.enter_context(LocalKafka(work / "kafka"))
        if spark is None:
            spark = local_session("replay", log=work / "spark.log")
            open_things.callback(spark.stop)
        yield lambda case: _replayed(case, spark, kafka.bootstrap_servers, work / case.name, base_ms)


def _replayed(case: Case, spark: SparkSession, bootstrap_servers: str, folder: Path, base_ms: int) -> Json:
    """Return the case's replay output as a reader of the published snapshots sees it.

    `folder` gets the case's tables and checkpoint. `base_ms`: the epoch time of the case's time 0.
    """
    with _Pipeline(case, spark, bootstrap_servers, folder, base_ms) as pipeline:
        if case.replay == "log":
            return {"checks": pipeline.replay_log()}
        return {"checks": pipeline.replay_in_turn()}


CREATE_TIME_TOPIC = {
    **TOPIC_CONFIG,
    "message.timestamp.type": "CreateTime",  # a replay sets the time of each record
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
    "retention.ms": "-1",
}


class _Pipeline:
    """The topic, the tables and the running job of one case."""

    def __init__(self, case: Case, spark: SparkSession, bootstrap_servers: str, folder: Path, base_ms: int) -> None:
        own = {
            "kafka.bootstrap.servers": bootstrap_servers,
            "kafka.topic": f"replay-{case.name}",
            "delta.root": str(folder / "registry"),
            "checkpoint.location": str(folder / "checkpoint"),
            "triggerMillis": 0,
        }
        settings = case.settings()
        self._settings = NamesrvSettings.model_validate({**settings.model_dump(by_alias=True), **own})
        self._case = case
        self._spark = spark.newSession()  # queries of one session cannot have the same name
        self._spark.conf.set("spark.sql.shuffle.partitions", "1")
        self._base_ms = base_ms
        self._checks = {check.after: check for check in case.expect.checks}
        self._job: BackgroundJob | None = None

    def __enter__(self) -> _Pipeline:
        kafka = kafka_client_arguments(self._settings)
        ensure_topic(kafka, self._settings.kafka_topic, CREATE_TIME_TOPIC)
        self._producer = HeartbeatProducer(kafka, self._settings.kafka_topic)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> None:
        self._producer.close()
        self._stop(error)

    def replay_in_turn(self) -> list[Json]:
        """Publish each step before the next is delivered, with a tick of its time before it; return the output."""
        checks = []
        for number, step in enumerate(self._case.steps):
            self._producer.tick(event_time_ms=self._base_ms + step.t)
            if isinstance(step, RestartStep):
                self._publish_all()
                self._stop()
            self._send(step)
            self._publish_all()
            if check := self._checks.get(number):
                checks.append(self._output(check))
        return checks

    def replay_log(self) -> list[Json]:
        """Deliver the steps as the log and return the checks' output at the end.

        All steps up to a cut are published before the log goes on.
        """
        for number, step in enumerate(self._case.steps):
            self._send(step)
            if number in self._case.cuts:
                self._publish_all()
        self._publish_all()
        return [self._output(check) for check in self._checks.values()]

    def _send(self, step: Step) -> None:
        if isinstance(step, ScanStep):
            self._producer.tick(event_time_ms=self._base_ms + step.t)
        for request in step.requests():
            self._producer.send(request, event_time_ms=self._base_ms + step.t)

    def _publish_all(self) -> None:
        self._producer.require_all()
        if self._job is None:
            self._job = BackgroundJob(self._spark, self._settings, is_replay=True).__enter__()
        self._job.process_all()

    def _stop(self, error: BaseException | None = None) -> None:
        if self._job is not None:
            self._job.__exit__(None, error, None)
            self._job = None

    def _output(self, check: Check) -> Json:
        tables = Registry(self._settings.delta_root).newest().routes
        asked_at_ms = max(step.t for step in self._case.steps[: check.after + 1])
        return check_output(check, tables, self._settings, self._base_ms, asked_at_ms)
