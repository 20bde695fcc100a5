"""Checks that the topic is the log from which the tables were made."""

from __future__ import annotations

import logging
from collections.abc import Callable

from namesrv_stream.errors import NamesrvError
from namesrv_stream.kafka.topic import TopicFacts
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.publication import KafkaLog

log = logging.getLogger(__name__)


class OtherLogError(NamesrvError):
    """The topic is not the one that the tables were made from: its records would be replayed over the present."""

    def __init__(self, topic: str, problem: str) -> None:
        super().__init__(
            f"topic {topic} is not the log that the tables were made from: {problem}. Is kafka.bootstrap.servers "
            "right, and kafka.topic? To go on from the tables with this log, start once with --accept-new-log: brokers "
            "that live keep their leases, and nothing of the new log that is older than the newest snapshot counts."
        )
        self.topic = topic
        self.problem = problem


AppendTimeAt = Callable[[int], int | None]
"""Offset -> append time of the record there in epoch milliseconds, None if Kafka has deleted it."""


def log_to_go_on_with(  # noqa: PLR0913  # what the tables know of their log, and what is there
    former: SnapshotRow,
    here: KafkaLog,
    topic: str,
    next_offset: int,
    append_time_ms_at: AppendTimeAt,
    *,
    accepts_new: bool,
) -> KafkaLog:
    """Return `here`, the log to go on with after the snapshot `former`; it is new if the difference is accepted.

    `next_offset` is the end of the log that is there. Raises OtherLogError otherwise.
    """
    problem = _difference(former, here, next_offset) or _other_record(former, append_time_ms_at)
    if problem is None:
        return here
    if not accepts_new:
        raise OtherLogError(topic, problem)
    log.warning("goes on with another log in topic %s: %s", topic, problem)
    return KafkaLog(here.cluster_id, here.topic_id, is_new=True)


def require_same_log(log_read: KafkaLog, now: TopicFacts | None) -> None:
    """Raise OtherLogError if the topic was deleted, and perhaps made anew, while the job read it."""
    if now is not None and None not in (log_read.topic_id, now.topic_id) and now.topic_id != log_read.topic_id:
        problem = (
            f"it was deleted and made anew, with the id {now.topic_id} in place of {log_read.topic_id}, while the job "
            "ran. Records of the former topic that the tables do not have are lost"
        )
        raise OtherLogError(now.topic, problem)


def _difference(former: SnapshotRow, here: KafkaLog, next_offset: int) -> str | None:
    known = max(former.offsets.values(), default=0)
    if former.kafka_cluster_id not in (None, here.cluster_id):
        return f"it is on the Kafka cluster {here.cluster_id}, and the tables were made from {former.kafka_cluster_id}"
    if former.kafka_topic_id not in (None, here.topic_id):
        return f"it was made anew with the id {here.topic_id}, and the tables were made from {former.kafka_topic_id}"
    if next_offset < known:
        return f"it ends at offset {next_offset}, and the tables have read it up to {known}"
    return None


def _other_record(former: SnapshotRow, append_time_ms_at: AppendTimeAt) -> str | None:
    """Return how the last record that the tables have read differs from the one at its offset now, None if it does not.

    A log that was cut and has grown again has another record there, which was appended later.
    """
    known = max(former.offsets.values(), default=0)
    if former.last_append is None or not known:
        return None
    found_ms = append_time_ms_at(known - 1)
    if found_ms in (None, former.last_append):
        return None
    return (
        f"its record at offset {known - 1} was appended at {iso_text(found_ms)}, and the tables have read one of "
        f"{iso_text(former.last_append)} there: the log was cut (an unclean change of leader, a replica put back) and "
        "has grown again"
    )
