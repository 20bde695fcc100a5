"""What the newest snapshot shows of its job: whether it runs, and how far behind the log it is.

A claim is no progress: a job that starts again and again would look alive. What counts is the event time up to which
the tables are exact, and when the last publication was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from namesrv_stream.rules.rows import SnapshotRow

CATCHING_UP_MS = 15_000
"""Event time between a publication and the newest record in it from which the job counts as behind."""

State = Literal["running", "catching up", "starting", "stopped in order", "dead"]


@dataclass(frozen=True, slots=True)
class JobProgress:
    """`since_ms`: when the job got into this state, as far as the tables show it.

    `lag_ms`: event time between the newest record in the tables and now, None before the first record.
    """

    state: State
    since_ms: int
    lag_ms: int | None


def job_progress(newest: SnapshotRow, now_ms: int, stale_after_ms: int) -> JobProgress:
    """The job's state at `now_ms`, from the newest snapshot row.

    A job publishes at least every `stale_after_ms`, if only how far it has read. One that has not is dead, or nothing
    comes from Kafka: no brokers' records and no ticks.
    """
    lag_ms = None if newest.event_time is None else max(0, now_ms - newest.event_time)
    return JobProgress(_state(newest, now_ms, stale_after_ms), newest.published_at, lag_ms)


def is_stale(newest: SnapshotRow, now_ms: int, stale_after_ms: int) -> bool:
    """Whether the tables are so far behind by event time that lookups may be wrong."""
    return newest.event_time is not None and now_ms - newest.event_time > stale_after_ms


def _state(newest: SnapshotRow, now_ms: int, stale_after_ms: int) -> State:
    if newest.kind == "STOP":
        return "stopped in order"
    if now_ms - newest.published_at > stale_after_ms:
        return "dead"
    if newest.kind == "CLAIM":
        return "starting"
    behind_ms = newest.published_at - (newest.event_time or newest.published_at)
    return "catching up" if behind_ms > CATCHING_UP_MS else "running"
