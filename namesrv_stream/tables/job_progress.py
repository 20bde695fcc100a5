"""The state of the job: whether it runs and how far behind the log it is, and its sign of progress between snapshots.

The sign is one small file beside the tables, for times in which the job publishes nothing. While only signs of life
come, the newest snapshot still holds, and the sign records up to which offset. It is overwritten in place, so it adds
no file and no version of a table.

In this module `newest` is the newest snapshot row, with the times of the sign if that is younger. A claim is no
progress; otherwise a job that starts again and again would look alive. The state follows from the event time up to
which the tables are exact, and from the time of the last publication.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

import msgspec
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root

log = logging.getLogger(__name__)

NAME = "_progress.json"
_BUFFER_BYTES = 4096


class ProgressSign(msgspec.Struct, frozen=True, rename="camel"):
    """The sign: the job of `term` has read the log up to `offsets` at `written_at`, and epoch `epoch` still holds.

    `late_from`: the first append time at which a lease is late if its broker stays silent; None if there is no lease.
    """

    epoch: int
    term: int
    written_at: int
    event_time: int | None
    offsets: dict[int, int]
    late_from: int | None = None

    def is_about(self, row: SnapshotRow) -> bool:
        """Return whether the sign belongs to this row, the newest one, and is younger."""
        return (self.epoch, self.term) == (row.epoch, row.term) and self.written_at >= row.published_at

    def _is_claimed_by(self, row: SnapshotRow) -> bool:
        """Return whether the row is a claim that took the registry over from this sign's, with no row but claims since.

        Each row is an epoch of its own, and each claim a term of its own.
        """
        claims = row.term - self.term
        return row.kind == "CLAIM" and claims == row.epoch - self.epoch > 0 and bool(row.offsets)

    def brought_to(self, row: SnapshotRow) -> SnapshotRow:
        """Return the newest snapshot row, with the sign's times and offsets if the sign belongs to it.

        A claim holds what held before it: the event time up to which the former job had read.
        """
        if self._is_claimed_by(row):
            event_time = max(filter(None, (row.event_time, self.event_time)), default=None)
            return row._replace(event_time=event_time, offsets=self.offsets)
        if not self.is_about(row):
            return row
        return row._replace(published_at=self.written_at, event_time=self.event_time, offsets=self.offsets)


@dataclass(frozen=True)
class ProgressFile:
    """The sign of one registry, on a disk or in an object store."""

    root: Root

    def write(self, sign: ProgressSign) -> None:
        """Replace the sign. Raises OSError if the storage refuses the write."""
        with PyFileSystem(self._storage).open_output_stream(NAME, buffer_size=_BUFFER_BYTES) as file:
            file.write(msgspec.json.encode(sign))

    def read(self) -> ProgressSign | None:
        """Return the sign, None if there is none that can be read."""
        try:
            with self._storage.open_input_file(NAME) as file:
                return msgspec.json.decode(file.readall(), type=ProgressSign)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            log.debug("this process cannot read the progress of the job: %s", error)
            return None

    def row_now(self, newest: SnapshotRow) -> SnapshotRow:
        """Return the newest snapshot row, brought up to date by the sign; the row itself if it has no sign."""
        sign = self.read()
        return newest if sign is None else sign.brought_to(newest)

    @property
    def _storage(self) -> DeltaStorageHandler:
        return DeltaStorageHandler(self.root.url, dict(self.root.storage_options or {}))


SIGN_MS = 30_000
"""Event time without a publication after which the job writes a sign of progress."""

STALE_AFTER_MS = 3 * SIGN_MS
CATCHING_UP_MS = 15_000
"""A job is behind if the newest record of a publication is older than the publication by more than this."""

State = Literal["running", "catching up", "starting", "stopped in order", "silent"]


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The state of the job and its lag.

    `since_ms`: the beginning of this state, as far as the tables show it. `lag_ms`: time between the newest record in
    the tables and now, None before the first record.
    """

    state: State
    since_ms: int
    lag_ms: int | None


def job_progress(newest: SnapshotRow, now_ms: int, stale_after_ms: int = STALE_AFTER_MS) -> JobProgress:
    """Return the job's state at `now_ms`, from the newest snapshot row.

    A job publishes or gives a sign of progress at least every `stale_after_ms`. If it has not, it is silent: dead, or
    waiting for the end of an outage, or no records come from Kafka, not even ticks. The tables cannot tell which.
    """
    lag_ms = None if newest.event_time is None else max(0, now_ms - min(newest.event_time, newest.published_at))
    return JobProgress(_state(newest, now_ms, stale_after_ms), newest.published_at, lag_ms)


def is_stale(newest: SnapshotRow, now_ms: int, stale_after_ms: int = STALE_AFTER_MS) -> bool:
    """Return whether the tables are so far behind that lookups may be wrong.

    The earlier of event time and publication counts. A record that is stamped ahead moves the event time ahead too, but
    tables never have records from after their publication.
    """
    return newest.event_time is not None and now_ms - min(newest.event_time, newest.published_at) > stale_after_ms


def _state(newest: SnapshotRow, now_ms: int, stale_after_ms: int) -> State:
    if newest.kind == "STOP":
        return "stopped in order"
    if now_ms - newest.published_at > stale_after_ms:
        return "silent"
    if newest.kind == "CLAIM":
        return "starting"
    behind_ms = newest.published_at - (newest.event_time or newest.published_at)
    return "catching up" if behind_ms > CATCHING_UP_MS else "running"
