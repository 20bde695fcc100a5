"""Comparison of any two moments: by their snapshots, or by the events between them.

The events are asked if a snapshot is gone, or lacks events that had happened by the moment.
"""

from __future__ import annotations

from typing import NamedTuple

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.history.between import between
from namesrv_stream.history.diff import Diff, diff_of_events, diff_of_views
from namesrv_stream.history.events import AsOf, events_between
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.root import Root


class Comparison(NamedTuple):
    """The differences between two moments.

    `gone`: those of the two whose snapshot is past retention. `inexact`: those that lie between two snapshots, with
    events in between. `epochs`: the epochs of the two snapshots, None if the differences are from the events.
    """

    before: AsOf
    after: AsOf
    diff: Diff
    gone: tuple[AsOf, ...] = ()
    inexact: tuple[AsOf, ...] = ()
    epochs: tuple[int, int] | None = None

    @property
    def source(self) -> str:
        """`snapshots` or `events`."""
        return "snapshots" if self.epochs else "events"

    def fields(self) -> dict[str, object]:
        """Return the comparison as JSON has it."""
        return {
            "from": self.before.as_json,
            "to": self.after.as_json,
            "source": self.source,
            "differences": [each._asdict() for each in self.diff.differences],
            "unnamedTopics": self.diff.unnamed,
        }


def comparison(reader: RouteReader, root: Root, before: AsOf, after: AsOf) -> Comparison:
    """Compare two moments. Raises NoSuchSnapshotError if there never was a snapshot of one of them."""
    rows = [_found(reader, moment) for moment in (before, after)]
    asked = list(zip((before, after), rows, strict=True))
    gone = tuple(moment for moment, row in asked if row is None)
    inexact = tuple(moment for moment, row in asked if row and between(root, reader.snapshots, row, moment.at_ms))
    if rows[0] and rows[1] and not inexact:
        first = reader.view(rows[0], None)
        diff = diff_of_views(first, reader.view(rows[1], first))
        return Comparison(before, after, diff, epochs=(rows[0].epoch, rows[1].epoch))
    newest = reader.snapshots.newest()
    undone, done = events_between(root, newest, after, before), events_between(root, newest, before, after)
    return Comparison(before, after, diff_of_events(done, undone), gone, inexact)


def _found(reader: RouteReader, moment: AsOf) -> SnapshotRow | None:
    """Return the snapshot of a moment, None if it is past retention."""
    try:
        return reader.snapshots.find(moment.epoch, moment.at_ms)
    except SnapshotGoneError:
        return None
