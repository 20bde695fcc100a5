"""Events that a snapshot lacks of a moment after it: those of later epochs that had happened by then.

Usually it lacks nothing, as an event is published within a second. A registry that was made from an older log has an
epoch for an hour of it, or whatever the job read at once.
"""

from __future__ import annotations

from typing import NamedTuple

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.history.events import AsOf, count_after
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.texts import counted, moment_text


class Between(NamedTuple):
    """A moment between two snapshots, and the number of events from the first one up to it."""

    at_ms: int
    before: SnapshotRow
    after: SnapshotRow
    events: int

    def __str__(self) -> str:
        """The notice for who asked for the moment."""
        began, ended = (moment_text(row.event_time or row.published_at) for row in (self.before, self.after))
        return (
            f"as of {began}, epoch {self.before.epoch}; the next snapshot is of {ended}. "
            f"{counted(self.events, 'event')} from there to {moment_text(self.at_ms)} are not in the answer: "
            "`namesrv-stream history` has them."
        )


def between(root: Root, snapshots: Snapshots, row: SnapshotRow, at_ms: int | None) -> Between | None:
    """Return what the snapshot in force at a moment lacks of it, None if it lacks nothing."""
    newest = snapshots.newest()
    if at_ms is None or row.epoch == newest.epoch:
        return None
    count = count_after(root, newest, row.epoch, AsOf(at_ms=at_ms))
    try:
        return Between(at_ms, row, snapshots.find(row.epoch + 1), count) if count else None
    except SnapshotGoneError:
        return None
