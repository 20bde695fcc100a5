"""Accounts of what happened: lines of history with sentences, stories, differences, snapshots, refused records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from namesrv_stream.answers.events import (
    EVERYTHING,
    Span,
    changes_between,
    count_of,
    event_condition,
    newest_of,
    recorded_names,
    topic_events,
    with_changes,
)
from namesrv_stream.answers.lists import check_known
from namesrv_stream.answers.story import (
    EVENT_TYPES,
    is_known_topic,
    story_of,
    story_of_broker,
    topic_story,
)
from namesrv_stream.answers.subject import BadQuestionError, Fields, Moment, Seen, Unknown, camel, shown
from namesrv_stream.errors import did_you_mean
from namesrv_stream.rules.history import as_json_row, rows_before_and_after
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import QUIET_COLUMNS, BrokerEventRow, Key, RowChange, SnapshotRow
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.root import Root, quoted
from namesrv_stream.tables.schemas import ROUTE_TABLES
from namesrv_stream.tables.snapshot_reader import RouteReader, newest_rejected

Row = Mapping[str, Any]

_SHOWN_VALUE_BYTES = 300
MAX_ROWS_OF_A_LINE = 200
"""Most rows of one table that an answer lists for a line of the history."""


class Difference(NamedTuple):
    """A row that one of the moments lacks or has with other values. `before` and `after` lack the columns left out."""

    table: str
    key: Key
    before: Row | None
    after: Row | None


def differences(done: Iterable[RowChange], undone: Iterable[RowChange] = ()) -> list[Difference]:
    """Return the differences that changes make, in order of table and key.

    `done` are up to the second moment and not up to the first, in order of the log; `undone` are up to the first and
    not up to the second. Both may exist if an epoch is compared with a time, because an expiry may be published in a
    later epoch than its event time suggests.
    """
    first: dict[tuple[str, Key], Any] = {}
    last: dict[tuple[str, Key], Any] = {}
    back = (each._replace(before=each.after, after=each.before) for each in reversed(list(undone)))
    for each in (*back, *done):
        first.setdefault((each.table, each.key), each.before)
        last[each.table, each.key] = each.after
    sides = ((at, shown_of(at[0], row), shown_of(at[0], last[at])) for at, row in first.items())
    found = [Difference(*at, was, became) for at, was, became in sides if was != became]
    order = [spec.name for spec in ROUTE_TABLES]
    return sorted(found, key=lambda each: (order.index(each.table), each.key))


def shown_of(table: str, row: Any) -> Row | None:
    """Return a row as JSON has it, without the columns that are left out."""
    quiet = QUIET_COLUMNS.get(table, ())
    return row and {column: value for column, value in as_json_row(row).items() if column not in quiet}


Place = tuple[int, int]
"""Place of a line in the history: its epoch and its number there."""


class Event(Fields, omit_defaults=True):
    """A line of the history with a sentence. `before` and `after` have the rows that changed, by table."""

    epoch: int
    seq: int
    event_time: str
    type: str
    cause: str
    text: str
    partition: int | None = None
    offset: int | None = None
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: int | None = None
    broker_addr: str | None = None
    data_version: DataVersion | None = None
    requested_by: str | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    last_heard_at: str | None = None
    lease_millis: int | None = None
    reason: str | None = None
    zone_name: str | None = None
    command: dict[str, Any] | None = None
    gap_millis: int | None = None


class Events(Fields):
    """A page of the history, newest last, of `total` events up to its end.

    `next` is the place before which the next page ends, null at the end. `unknown`: where events may be missing.
    """

    snapshot: Moment
    total: int
    events: list[Event]
    next: str | None
    unknown: Unknown | None = None


class StorySentence(Fields):
    """One sentence of a story."""

    epoch: int
    event_time: str
    text: str


class Story(Fields):
    """The newest of `total` sentences, newest last; `next` is the place before which the next page ends.

    `unknown`: where sentences may be missing.
    """

    snapshot: Moment
    name: str
    total: int
    sentences: list[StorySentence]
    next: str | None
    unknown: Unknown | None = None


class Snapshot(Fields, omit_defaults=True):
    """A published snapshot."""

    epoch: int
    term: int
    run_id: str
    published_at: str
    event_time: str | None
    offsets: dict[int, int]
    versions: dict[str, int]
    changes: dict[str, int]
    query_id: str | None = None
    batch_id: int | None = None
    kind: str | None = None
    last_tick: str | None = None
    kafka_cluster_id: str | None = None
    kafka_topic_id: str | None = None
    log_accepted_at: str | None = None
    last_tick_append: int | None = None
    clock_millis: int | None = None
    last_append: int | None = None
    holes: list[dict[str, Any]] = []  # noqa: RUF012  # msgspec copies it
    repaired_at: str | None = None

    @classmethod
    def of_row(cls, row: SnapshotRow) -> Self:
        """Return a row of the table `snapshot`."""
        return cls.of(row, holes=[row_fields(each._asdict()) for each in row.holes])


class Snapshots(Fields):
    """Snapshots, newest first; `next` is the epoch with which the next page begins, null at the end.

    `oldestEpoch`: the oldest of which the tables are kept.
    """

    oldest_epoch: int
    snapshots: list[Snapshot]
    next: str | None


class Rejected(Fields):
    """A record outside the contract; `text` is the beginning of its value, `length` the length of the whole value."""

    event_time: str
    partition: int
    offset: int
    key: str | None
    length: int
    reason: str
    text: str


def sentence(line: BrokerEventRow) -> str:
    """Return the sentence of a line, in the words of `why`."""
    return " ".join(each.text for each in story_of_broker([line]))


def _row_list(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | dict[str, int]:
    """Return the rows of a line, or only their number if they are many: `diff` lists them."""
    return {"count": len(rows)} if len(rows) > MAX_ROWS_OF_A_LINE else list(map(row_fields, rows))


def row_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's row with camelCase names and times as text."""
    return {
        camel(name): row_fields(value) if isinstance(value, dict) else shown(name, value) for name, value in row.items()
    }


def _event(line: BrokerEventRow) -> Event:
    before, after = ({table: _row_list(rows) for table, rows in side.items()} for side in rows_before_and_after(line))
    command = line.command and row_fields(msgspec.json.decode(line.command))
    return Event.of(line, text=sentence(line), before=before or None, after=after or None, command=command)


def events(  # noqa: PLR0913  # what a reader may choose
    seen: Seen,
    broker: str | None = None,
    topic: str | None = None,
    span: Span = EVERYTHING,
    types: Sequence[str] = (),
    *,
    limit: int,
    below: Place | None = None,
    with_versions: bool = True,
) -> Events:
    """Return the newest events of a span: all, or those of a broker name, a broker address or a topic, or of types."""
    for each in {*types} - EVENT_TYPES:
        advice = did_you_mean(each, EVENT_TYPES) or f"Accepted are {', '.join(sorted(EVENT_TYPES))}."
        raise BadQuestionError(f"type={each[:100]!r} is no type of event. {advice}".rstrip())
    if topic is not None:
        found = _events_of_topic(seen, topic, span, below)
        lines = [line for line in found if not types or line.type in types]
        total = len(lines)
    else:
        chosen = event_condition(broker, span, with_versions=with_versions, below=below)
        chosen += f" AND type IN ({', '.join(map(quoted, types))})" if types else ""
        lines = newest_of(seen.root, seen.snapshot, chosen, limit + 1)
        total = len(lines) if len(lines) <= limit else count_of(seen.root, seen.snapshot, chosen)
        if broker is not None and not lines:
            check_known(seen, broker)
    lines = lines[-(limit + 1) :]
    following = f"{lines[1].epoch}.{lines[1].seq}" if len(lines) > limit else None
    shown = with_changes(seen.root, seen.snapshot, lines[-limit:])
    return Events(seen.moment, total, list(map(_event, shown)), following, seen.unknown_in(span))


def _events_of_topic(seen: Seen, topic: str, span: Span, below: Place | None) -> list[BrokerEventRow]:
    found = topic_events(seen.root, seen.snapshot, topic, span)
    if not found and not is_known_topic(seen.root, seen.snapshot, topic, seen.tables.queues):
        raise seen.not_found("topic", topic, seen.tables.queues)
    return [line for line in found if below is None or (line.epoch, line.seq) < below]


def why(  # noqa: PLR0913  # what a reader may choose
    seen: Seen,
    name: str,
    span: Span = EVERYTHING,
    *,
    is_topic: bool = False,
    with_versions: bool = False,
    limit: int | None = None,
    below: int | None = None,
) -> Story:
    """Return the story of a broker name, a broker address or a topic; `below`: only so many of its first sentences."""
    root, row, queues = seen.root, seen.snapshot, seen.tables.queues
    if is_topic:
        story = topic_story(root, row, name, span, queues)
    else:
        story = story_of(root, row, name, span, queues, with_versions=with_versions)
    if story is None:
        ever = set[str]() if is_topic else recorded_names(root, row)
        raise seen.not_found("topic" if is_topic else "broker or topic", name, [*ever, *queues])
    end = len(story) if below is None else min(below, len(story))
    first = 0 if limit is None else max(0, end - limit)
    told = list(map(StorySentence.of, story[first:end]))
    return Story(seen.moment, name, len(story), told, str(first) if first else None, seen.unknown_in(span))


def snapshots(rows: Sequence[SnapshotRow], oldest: SnapshotRow, limit: int) -> Snapshots:
    """Return the first `limit` of snapshots, newest first; `oldest` is the oldest that is whole."""
    following = str(rows[limit].epoch) if len(rows) > limit else None
    return Snapshots(oldest.epoch, list(map(Snapshot.of_row, rows[:limit])), following)


def rejected(seen: Seen, limit: int) -> list[Rejected]:
    """Return the newest rejected records, newest first."""
    rows = newest_rejected(seen.root, seen.snapshot, limit)
    return [Rejected.of(row, text=(row.value or b"")[:_SHOWN_VALUE_BYTES].decode(errors="replace")) for row in rows]


_TABLES = [spec.name for spec in ROUTE_TABLES]
_MANY_ROWS = ("topic", "topic_mapping")
"""Tables whose differences come last, because a broker that leaves removes a row for each of its topics."""


class DifferentRow(Fields):
    """A row that one of two moments lacks, or has with other values."""

    table: str
    key: list[str | int]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Diff(Fields):
    """The differences between two moments, `counts` of them by table: added, removed and changed rows."""

    from_: str | None
    to: str | None
    epochs: tuple[int, int]
    counts: dict[str, dict[str, int]]
    total: int
    differences: list[DifferentRow]
    next: str | None


class Comparison(NamedTuple):
    """The differences between two moments; `epochs` are those of the moments."""

    before: AsOf
    after: AsOf
    differences: list[Difference]
    epochs: tuple[int, int]


def comparison(reader: RouteReader, root: Root, before: AsOf, after: AsOf) -> Comparison:
    """Compare two moments by the lines between them.

    Raises NoSuchSnapshotError if one is no moment of the log, and PastUnknownError if lines between them were lost.
    """
    pasts = reader.past(before), reader.past(after)
    epochs = pasts[0].snapshot.epoch, pasts[1].snapshot.epoch
    newest = reader.snapshots.newest()
    unknown = UnknownPast.of_tables(newest) if before.at_ms is after.at_ms is None else UnknownPast.of(newest)
    if unknown is not None and min(epochs) < unknown.to_epoch and max(epochs) >= unknown.from_epoch:
        raise unknown.error
    undone, done = changes_between(root, newest, after, before), changes_between(root, newest, before, after)
    return Comparison(before, after, differences(done, undone), epochs)


def diff(compared: Comparison, table: str | None = None, *, limit: int | None = None, after: int = 0) -> Diff:
    """Return the differences of a comparison: all, or those of one table."""
    if table is not None and table not in _TABLES:
        raise BadQuestionError(f"table={table[:100]!r} is none of {', '.join(_TABLES)}.")
    found = sorted(compared.differences, key=lambda each: each.table in _MANY_ROWS)
    counts: dict[str, dict[str, int]] = {}
    for each in found:
        kind = "added" if each.before is None else "removed" if each.after is None else "changed"
        counts.setdefault(each.table, {"added": 0, "removed": 0, "changed": 0})[kind] += 1
    wanted = [each for each in found if table in (None, each.table)]
    last = len(wanted) if limit is None else after + limit
    return Diff(
        from_=compared.before.as_json,
        to=compared.after.as_json,
        epochs=compared.epochs,
        counts=counts,
        total=len(wanted),
        differences=list(map(_different_row, wanted[after:last])),
        next=str(last) if last < len(wanted) else None,
    )


def _different_row(each: Difference) -> DifferentRow:
    before, after = (None if side is None else row_fields(side) for side in (each.before, each.after))
    return DifferentRow(each.table, list(each.key), before, after)  # type: ignore[arg-type]  # texts and numbers
