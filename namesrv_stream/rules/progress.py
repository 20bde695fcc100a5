"""The state of the job as the newest snapshot shows it: whether it runs, and how far behind the log it is.

`newest` is the newest snapshot row everywhere here, with the times of the job's sign of progress if that is younger.
A claim is no progress: a job that starts again and again would otherwise look alive. The state follows from the event
time up to which the tables are exact, and from the time of the last publication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from namesrv_stream.rules.rows import SnapshotRow

SIGN_MS = 30_000
"""Event time after which the job shows how far it has read the log, if it has published nothing (progress_sign.py)."""

STALE_AFTER_MS = 3 * SIGN_MS
CATCHING_UP_MS = 15_000
"""A job is behind if the newest record of a publication is older than the publication by more than this."""

State = Literal["running", "catching up", "starting", "stopped in order", "dead"]


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The state of the job and its lag.

    `since_ms`: the beginning of this state, as far as the tables show it. `lag_ms`: event time between the newest
    record in the tables and now, None before the first record.
    """

    state: State
    since_ms: int
    lag_ms: int | None


def job_progress(newest: SnapshotRow, now_ms: int, stale_after_ms: int = STALE_AFTER_MS) -> JobProgress:
    """Return the job's state at `now_ms`, from the newest snapshot row.

    A job publishes or gives a sign of progress at least every `stale_after_ms`. A job that has not is dead, or no
    records come from Kafka, not even ticks.
    """
    lag_ms = None if newest.event_time is None else max(0, now_ms - min(newest.event_time, newest.published_at))
    return JobProgress(_state(newest, now_ms, stale_after_ms), newest.published_at, lag_ms)


def is_stale(newest: SnapshotRow, now_ms: int, stale_after_ms: int = STALE_AFTER_MS) -> bool:
    """Return whether the tables are so far behind that lookups may be wrong, by event time or, if earlier, publication.

    A record that is stamped ahead moves the event time ahead too, and tables never have what came after they were made.
    """
    return newest.event_time is not None and now_ms - min(newest.event_time, newest.published_at) > stale_after_ms


def _state(newest: SnapshotRow, now_ms: int, stale_after_ms: int) -> State:
    if newest.kind == "STOP":
        return "stopped in order"
    if now_ms - newest.published_at > stale_after_ms:
        return "dead"
    if newest.kind == "CLAIM":
        return "starting"
    behind_ms = newest.published_at - (newest.event_time or newest.published_at)
    return "catching up" if behind_ms > CATCHING_UP_MS else "running"
