"""Election of the active job of a registry: the job to which Kafka assigns the heartbeat topic's one partition.

A consumer group on a topic with one partition is a lock with a session timeout. The lock decides which job may start;
terms in the tables keep a former job from writing. The group reads no record. As its offset the active job commits how
far the tables are, with a report of its state: so readers learn of a JVM or a storage that hangs within seconds.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from namesrv_stream.errors import NamesrvError
from namesrv_stream.kafka.librdkafka import KafkaOptions, librdkafka_log, named_kafka_error
from namesrv_stream.kafka.topic import committed_text, group_members

log = logging.getLogger(__name__)

SESSION_TIMEOUT_MS = 6_000
"""Time without a sign of life from a job after which Kafka takes its lock away. Kafka's default lower limit."""

_HEARTBEAT_MS = 500
_POLL_S = 0.2
_JOIN_AGAIN_S = 1.0
_REPORT_EVERY_S = 10.0
_MAX_PROBLEM_CHARS = 1_000
_NOT_ALLOWED = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def group_of(topic: str, root: str) -> str:
    """Return the consumer group of the jobs of one registry.

    `root` is its `Root.hadoop_url`, so that all use one spelling.
    """
    return f"namesrv-stream-{zlib.crc32(f'{topic} {root}'.encode()):08x}"


class Candidate(NamedTuple):
    """A job that takes part in an election."""

    run_id: str
    host: str
    is_active: bool


class JobReport(msgspec.Struct, frozen=True, rename="camel"):
    """Report of the holder of the lock on its work. `problem` is what keeps it from its work, None if nothing does."""

    run_id: str
    role: str
    problem: str | None = None


class JobLock:
    """One job's part in the election. Within a `with`, a thread takes part.

    `held` is set while this job has the lock. A job that already runs may go on when `held` is cleared, because another
    job takes over only by a claim. `report` returns the next offset of the tables and the job's report, which the
    holder commits at each change and every 10 s.
    """

    def __init__(
        self, kafka: KafkaOptions, topic: str, root: str, run_id: str, report: Callable[[], tuple[int, JobReport]]
    ) -> None:
        """Prepare to take part. `root` is the registry's `Root.hadoop_url`."""
        self.held = threading.Event()
        self.is_lost = False
        """True from the time at which Kafka takes the lock, or this job gives it up, until the job has it again."""
        self._kafka, self._topic, self._root, self._run_id = kafka, topic, root, run_id
        self._options = {
            **kafka,
            "client.id": f"{run_id}@{socket.gethostname()}",
            "group.id": group_of(topic, root),
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "partition.assignment.strategy": "cooperative-sticky",  # the holder keeps the lock when others join
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": 5_000,
            "reconnect.backoff.max.ms": 1_000,  # back before Kafka's session of it ends
            "on_commit": self._on_commit,
            "allow.auto.create.topics": False,
        }
        self._logged: int | None = None
        self._report = report
        self._reported: tuple[JobReport, float] | None = None
        self._stopped = threading.Event()
        self._is_candidate = threading.Event()
        self._is_candidate.set()
        self._thread = threading.Thread(target=self._run, name="job-lock", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.give_up()
        self._thread.join()

    def others(self) -> set[str]:
        """Return the run ids of the other jobs that take part in the election; none if Kafka does not answer."""
        try:
            jobs = candidates(self._kafka, self._topic, self._root)
        except NamesrvError as error:
            log.debug("candidates are not known: %s", error)
            return set()
        return {each.run_id for each in jobs} - {self._run_id}

    def give_up(self) -> None:
        """Give up the lock and leave the election for good. Returns at once."""
        self._stopped.set()
        self._is_candidate.set()

    def step_back(self, pause_s: float) -> None:
        """Give the lock to another candidate, and become a candidate again after `pause_s` seconds."""
        self.is_lost = self.is_lost or self.held.is_set()
        self._is_candidate.clear()
        timer = threading.Timer(pause_s, self._is_candidate.set)
        timer.daemon = True
        timer.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._take_part()
            except KafkaException as error:
                log.warning("this job takes no part in the election of the active job until Kafka recovers: %s",
                            named_kafka_error(error.args[0], str(self._options["bootstrap.servers"])))  # fmt: skip
                self._stopped.wait(_JOIN_AGAIN_S)
            self._is_candidate.wait()

    def _take_part(self) -> None:
        consumer = Consumer(self._options, logger=librdkafka_log)
        try:
            consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke,
                               on_lost=self._on_revoke)  # fmt: skip
            while not self._stopped.is_set() and self._is_candidate.is_set():
                self._mind(consumer.poll(_POLL_S))
                self._commit_report(consumer)
        finally:
            self.held.clear()
            consumer.close()

    def _commit_report(self, consumer: Consumer) -> None:
        """Commit the report if this job has the lock and the report has changed, or the last one is 10 s old."""
        if not self.held.is_set():
            self._reported = None
            return
        (offset, report), now_s = self._report(), time.monotonic()
        if self._reported and self._reported[0] == report and now_s - self._reported[1] < _REPORT_EVERY_S:
            return
        self._reported = report, now_s
        problem = report.problem and report.problem[:_MAX_PROBLEM_CHARS]
        text = msgspec.json.encode(msgspec.structs.replace(report, problem=problem))
        with suppress(KafkaException):  # while the group is balanced anew
            consumer.commit(offsets=[TopicPartition(self._topic, 0, offset, text.decode())])

    def _on_commit(self, error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
        """Let a report that Kafka did not take be committed again at once."""
        if error is not None:
            self._reported = None

    def _mind(self, message: Message | None) -> None:
        """Log an error once. A job without the right on its group never gets the lock."""
        error = message.error() if message is not None else None
        if error is None or error.code() == self._logged:
            return
        self._logged = error.code()
        if error.code() in _NOT_ALLOWED:
            log.warning("this job cannot take part in the election of the active job by the consumer group %s: %s; it "
                        "never takes over as a standby. Grant READ on that group.",
                        self._options["group.id"], error.str())  # fmt: skip
        else:
            log.warning("this job is out of the election of the active job by the consumer group %s: %s; it rejoins "
                        "automatically", self._options["group.id"], error.str())  # fmt: skip

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)
            self.is_lost = False
            self.held.set()

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.is_lost = True
            self.held.clear()


def find_coordinator(kafka: KafkaOptions, topic: str, root: str) -> None:
    """Have Kafka name the coordinator of the election's group, in the background.

    For its first group a new Kafka makes the topic in which it keeps groups. That takes two seconds, during which Spark
    starts. An error is not reported here, because the election gets the same one and reports it.
    """

    def ask() -> None:
        try:
            candidates(kafka, topic, root)
        except NamesrvError as error:
            log.debug("the coordinator of the election is not known yet: %s", error)

    threading.Thread(target=ask, name="find-coordinator", daemon=True).start()


def candidates(kafka: KafkaOptions, topic: str, root: str) -> list[Candidate]:
    """Return the jobs that take part in a registry's election now, the active one first."""
    found = []
    for client_id, is_active in group_members(kafka, group_of(topic, root)).items():
        run_id, _, host = client_id.partition("@")
        found.append(Candidate(run_id, host, is_active))
    return sorted(found, key=lambda each: (not each.is_active, each.run_id))


def report_of_holder(kafka: KafkaOptions, topic: str, root: str) -> JobReport | None:
    """Return the newest report of a holder of the lock, None if there is none or it is of another release."""
    text = committed_text(kafka, group_of(topic, root), topic)
    try:
        return msgspec.json.decode(text, type=JobReport) if text else None
    except msgspec.MsgspecError:
        return None
