"""Comparison of any two moments: by their snapshots, or by the events between them if a snapshot is gone."""

from __future__ import annotations

from typing import NamedTuple

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.history.diff import Diff, diff_of_events, diff_of_views
from namesrv_stream.history.events import AsOf, events_between
from namesrv_stream.tables.reader import RegistryView, RouteReader
from namesrv_stream.tables.root import Root


class Comparison(NamedTuple):
    """The differences between two moments.

    `gone`: those of the two whose snapshot is past retention. `epochs`: the epochs of the two snapshots, None if the
    differences are from the events.
    """

    before: AsOf
    after: AsOf
    diff: Diff
    gone: tuple[AsOf, ...] = ()
    epochs: tuple[int, int] | None = None

    @property
    def source(self) -> str:
        """`snapshots` or `events`."""
        return "snapshots" if self.epochs else "events"

    def fields(self) -> dict[str, object]:
        """Return the comparison as JSON has it."""
        return {
            "from": str(self.before),
            "to": str(self.after),
            "source": self.source,
            "differences": [each._asdict() for each in self.diff.differences],
            "unnamedTopics": self.diff.unnamed,
        }


def comparison(reader: RouteReader, root: Root, before: AsOf, after: AsOf) -> Comparison:
    """Compare two moments. Raises NoSuchSnapshotError if there never was a snapshot of one of them."""
    views = [_opened(reader, moment) for moment in (before, after)]
    if views[0] is not None and views[1] is not None:
        epochs = views[0].snapshot.epoch, views[1].snapshot.epoch
        return Comparison(before, after, diff_of_views(views[0], views[1]), epochs=epochs)
    gone = tuple(moment for moment, view in zip((before, after), views, strict=True) if view is None)
    newest = reader.snapshots.newest()
    undone, done = events_between(root, newest, after, before), events_between(root, newest, before, after)
    return Comparison(before, after, diff_of_events(done, undone), gone)


def _opened(reader: RouteReader, moment: AsOf) -> RegistryView | None:
    """Return the view of a moment, None if its snapshot is past retention."""
    try:
        return reader.open(moment.epoch, moment.at_ms)
    except SnapshotGoneError:
        return None
