"""Comparison of any two moments: by their snapshots, or by the events between them.

The events are asked if a snapshot is gone, or lacks events that had happened by the moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.history import diff as rows
from namesrv_stream.history.diff import Difference
from namesrv_stream.history.events import AsOf, events_between
from namesrv_stream.questions.accounts import row_fields
from namesrv_stream.questions.seen import BadQuestionError, Fields, between
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.root import Root

_MANY_ROWS = ("topic", "topic_mapping")
"""Tables whose differences come last: a broker that leaves takes a row of each of its topics with it."""


class DifferentRow(Fields):
    """A row that one of two moments lacks, or has with other values."""

    table: str
    key: list[str | int]
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @classmethod
    def of(cls, each: Difference) -> DifferentRow:
        """Return a difference with camelCase names and times as text."""
        before, after = (None if side is None else row_fields(side) for side in (each.before, each.after))
        return cls(each.table, list(each.key), before, after)


class Diff(Fields):
    """The differences between two moments, `counts` of them by table: added, removed and changed rows."""

    from_: str | None
    to: str | None
    source: Literal["snapshots", "events"]
    epochs: tuple[int, int] | None
    counts: dict[str, dict[str, int]]
    unnamed_topics: Mapping[str, int]
    total: int
    differences: list[DifferentRow]
    next: str | None


class Comparison(NamedTuple):
    """The differences between two moments.

    `gone`: those of the two whose snapshot is past retention. `inexact`: those that lie between two snapshots, with
    events in between. `epochs`: the epochs of the two snapshots, None if the differences are from the events.
    """

    before: AsOf
    after: AsOf
    diff: rows.Diff
    gone: tuple[AsOf, ...] = ()
    inexact: tuple[AsOf, ...] = ()
    epochs: tuple[int, int] | None = None

    @property
    def source(self) -> Literal["snapshots", "events"]:
        """What the differences are taken from."""
        return "snapshots" if self.epochs else "events"


def comparison(reader: RouteReader, root: Root, before: AsOf, after: AsOf) -> Comparison:
    """Compare two moments. Raises NoSuchSnapshotError if there never was a snapshot of one of them."""
    found = [_found(reader, moment) for moment in (before, after)]
    asked = list(zip((before, after), found, strict=True))
    gone = tuple(moment for moment, row in asked if row is None)
    inexact = tuple(moment for moment, row in asked if row and between(root, reader.snapshots, row, moment.at_ms))
    if found[0] and found[1] and not inexact:
        first = reader.view(found[0], None)
        diff = rows.diff_of_views(first, reader.view(found[1], first))
        return Comparison(before, after, diff, epochs=(found[0].epoch, found[1].epoch))
    newest = reader.snapshots.newest()
    undone, done = events_between(root, newest, after, before), events_between(root, newest, before, after)
    return Comparison(before, after, rows.diff_of_events(done, undone), gone, inexact)


def _found(reader: RouteReader, moment: AsOf) -> SnapshotRow | None:
    """Return the snapshot of a moment, None if it is past retention."""
    try:
        return reader.snapshots.find(moment.epoch, moment.at_ms)
    except SnapshotGoneError:
        return None


def diff(compared: Comparison, table: str | None = None, *, limit: int | None = None, after: int = 0) -> Diff:
    """Return what a comparison of two moments has found, all of it or the rows of one table."""
    found = sorted(compared.diff.differences, key=lambda each: each.table in _MANY_ROWS)
    counts = _change_counts(found)
    if table is not None and table not in counts and found:
        raise BadQuestionError(f"table={table[:100]!r} has no difference. Tables with some: {', '.join(counts)}.")
    wanted = [each for each in found if table in (None, each.table)]
    last = len(wanted) if limit is None else after + limit
    return Diff(
        from_=compared.before.as_json,
        to=compared.after.as_json,
        source=compared.source,
        epochs=compared.epochs,
        counts=counts,
        unnamed_topics=compared.diff.unnamed,
        total=len(wanted),
        differences=list(map(DifferentRow.of, wanted[after:last])),
        next=str(last) if last < len(wanted) else None,
    )


def _change_counts(differences: Sequence[Difference]) -> dict[str, dict[str, int]]:
    counted = Counter((each.table, _kind(each)) for each in differences)
    tables = dict.fromkeys(each.table for each in differences)
    return {table: {kind: counted[table, kind] for kind in ("added", "removed", "changed")} for table in tables}


def _kind(each: Difference) -> str:
    return "added" if each.before is None else "removed" if each.after is None else "changed"
