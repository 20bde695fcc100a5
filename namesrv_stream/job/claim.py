"""Checks around a claim: the topic is the log from which the tables were made, and no newer run has claimed them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from deltalake.exceptions import DeltaError

from namesrv_stream.errors import NamesrvError, StorageError, TermLostError
from namesrv_stream.job.failures import require_descriptor
from namesrv_stream.kafka.librdkafka import KafkaOptions
from namesrv_stream.kafka.record_reader import RecordGoneError, RecordReader
from namesrv_stream.kafka.topic import TopicFacts
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.rows import SnapshotRow, is_other_id, known_id
from namesrv_stream.tables.job_progress import STALE_AFTER_MS
from namesrv_stream.tables.publication import KafkaLog
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import SnapshotTable

log = logging.getLogger(__name__)

_LEAVE_TO_CLAIMANT_MS = 10_000
"""The age of a claim up to which a standby leaves the registry to a job that is not in the election yet."""


def log_to_go_on_with(  # noqa: PLR0913  # what the tables know of their log, and what is there
    former: SnapshotRow,
    here: KafkaLog,
    topic: str,
    next_offset: int,
    append_time_ms_at: Callable[[int], int | None],
    *,
    accepts_new: bool,
    silent_ms: int,
) -> KafkaLog:
    """Return `here`, the log to go on with after the snapshot `former`; it is new if the difference is accepted.

    An id that Kafka does not give at present stays the one of the snapshot.

    `next_offset` is the present end of the log. `append_time_ms_at` returns when the record at an offset was appended,
    None if Kafka has deleted it. `accepts_new` accepts another log than the snapshot's; without it another log raises
    NamesrvError. `silent_ms`: the age of the last sign of the job that published the snapshot.
    """
    problem = _difference(former, here, next_offset, append_time_ms_at)
    if problem is None:
        return KafkaLog(
            here.cluster_id or known_id(former.kafka_cluster_id), here.topic_id or known_id(former.kafka_topic_id)
        )
    if not accepts_new:
        is_served = former.kind != "STOP" and silent_ms < STALE_AFTER_MS
        raise _served(former, silent_ms, topic) if is_served else _other_log(topic, problem)
    log.warning("the job continues with another log in topic %s, as --accept-new-log allows: %s", topic, problem)
    return KafkaLog(here.cluster_id, here.topic_id, is_new=True)


def claimant(former: SnapshotRow, run_id: str, others: Callable[[], set[str]], now_ms: float) -> str | None:
    """Return the other run that has the registry or has just claimed it, if it takes part in the election or soon will.

    A run may go on after Kafka has taken the lock from it, and a new one claims before it has joined the election.
    """
    if former.kind == "STOP" or former.run_id == run_id:
        return None
    age_ms = abs(now_ms - former.published_at)  # the claimant's clock may be ahead of this one's
    is_new = former.kind == "CLAIM" and age_ms < _LEAVE_TO_CLAIMANT_MS
    return former.run_id if is_new or former.run_id in others() else None


def require_same_log(log_read: KafkaLog, now: TopicFacts | None) -> None:
    """Raise NamesrvError if the topic was deleted, and perhaps made anew, while the job read it."""
    if now is not None and is_other_id(log_read.topic_id, now.topic_id):
        raise _other_log(
            now.topic,
            f"while the job ran, it was deleted and created again (ID {now.topic_id}, before {log_read.topic_id}). "
            "Records of the former topic that the tables do not have are lost",
        )


def append_time_ms_at(kafka: KafkaOptions, topic: str, offset: int) -> int | None:
    """Return the append time of the record at an offset, None if Kafka has deleted it."""
    with RecordReader(kafka, topic) as reader:
        try:
            record = next(reader.between(offset, offset + 1), None)
        except RecordGoneError:
            return None
    return None if record is None else record.append_time_ms


def _served(former: SnapshotRow, silent_ms: int, topic: str) -> NamesrvError:
    return NamesrvError(
        f"the tables belong to run {former.run_id}, which showed progress {silent_ms / 1000:.0f} s ago and reads "
        f"another log than topic {topic} here. If that job runs, stop it first, or set another "
        "delta.root or its kafka.bootstrap.servers and kafka.topic. If it has died, start this one again in a minute."
    )


def _other_log(topic: str, problem: str) -> NamesrvError:
    return NamesrvError(
        f"topic {topic} is not the log that the tables were made from: {problem}. Check kafka.bootstrap.servers and "
        "kafka.topic. To continue from the tables with this log, start once with --accept-new-log. Brokers that are up "
        "then keep their leases; records of the new log older than the newest snapshot are ignored."
    )


def _difference(
    former: SnapshotRow, here: KafkaLog, next_offset: int, append_time_ms_at: Callable[[int], int | None]
) -> str | None:
    """Return how the log differs from the one of the snapshot, None if it does not.

    A log that was cut and has grown again has a different record at the last offset that the tables have read.
    """
    known = max(former.offsets.values(), default=0)
    if is_other_id(former.kafka_cluster_id, here.cluster_id):
        return f"it is on the Kafka cluster {here.cluster_id}, and the tables were made from {former.kafka_cluster_id}"
    if is_other_id(former.kafka_topic_id, here.topic_id):
        return f"it was created again with ID {here.topic_id}, and the tables were made from {former.kafka_topic_id}"
    if next_offset < known:
        return f"it ends at offset {next_offset}, and the tables have read it up to {known}"
    if former.last_append is None or not known:
        return None
    found_ms = append_time_ms_at(known - 1)
    if found_ms in (None, former.last_append):
        return None
    return (
        f"its record at offset {known - 1} was appended at {iso_text(found_ms)}, and the tables have read one of "
        f"{iso_text(former.last_append)} there, so the log was cut (by an unclean change of leader, or a restored "
        "replica) and has grown again"
    )


class TermWatch:
    """Watches for the claim of a newer run."""

    def __init__(self, root: Root, own: SnapshotRow) -> None:
        self._snapshots = SnapshotTable(root)
        self._own = own
        self._has_news = True  # another run may have claimed the registry after this one

    def check(self) -> None:
        """Raise TermLostError if another run has claimed the registry, LimitReachedError if no file can be opened.

        A storage that does not answer raises nothing here.
        """
        require_descriptor()
        try:
            self._has_news = self._snapshots.refresh() or self._has_news
            newest = self._snapshots.newest() if self._has_news else self._own
            self._has_news = False
        except (DeltaError, OSError, StorageError) as error:
            log.debug("the newest term is not known: %s", error)
            return
        if newest.term > self._own.term:
            raise TermLostError(self._own.term, newest.term, newest.run_id)
