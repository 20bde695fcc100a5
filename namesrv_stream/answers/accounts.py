"""Accounts of what happened: lines of history with sentences, stories, differences, snapshots, refused records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec

from namesrv_stream.answers.events import (
    changes_between,
    count_of,
    event_condition,
    has_topic,
    is_recorded,
    newest_of,
    recorded_names,
    topic_events,
    with_changes,
)
from namesrv_stream.answers.lists import check_known
from namesrv_stream.answers.model import (
    AnswerModel,
    BadQuestionError,
    Moment,
    Unknown,
    camel,
    not_found,
    shown,
    unknown_in,
)
from namesrv_stream.answers.questions import AskDiff, AskEvents, AskWhy
from namesrv_stream.answers.sentences import EVENT_TYPES, away_ms, back_text, sentence_of
from namesrv_stream.answers.story import StorySentence, broker_story, topic_story
from namesrv_stream.errors import did_you_mean
from namesrv_stream.reporting.texts import Time
from namesrv_stream.rules.history import as_json_row, rows_before_and_after
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.registry_tables import net_of
from namesrv_stream.rules.rows import QUIET_COLUMNS, BrokerEventRow, Key, RowChange, SnapshotRow
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.root import quoted
from namesrv_stream.tables.schemas import BROKER_EVENT, ROUTE_TABLES

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
    back = (each._replace(before=each.after, after=each.before) for each in reversed(list(undone)))
    net = net_of([*back, *done])
    sides = ((each, shown_of(each.table, each.before), shown_of(each.table, each.after)) for each in net)
    found = [Difference(each.table, each.key, was, became) for each, was, became in sides if was != became]
    order = [spec.name for spec in ROUTE_TABLES]
    return sorted(found, key=lambda each: (order.index(each.table), each.key))


def shown_of(table: str, row: Any) -> Row | None:
    """Return a row as JSON has it, without the columns that are left out."""
    quiet = QUIET_COLUMNS.get(table, ())
    return row and {column: value for column, value in as_json_row(row).items() if column not in quiet}


class Event(AnswerModel, omit_defaults=True):
    """A line of the history with a sentence. `before` and `after` have the rows that changed, by table."""

    epoch: int
    seq: int
    event_time: Time
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
    last_heard_at: Time | None = None
    lease_millis: int | None = None
    reason: str | None = None
    zone_name: str | None = None
    command: dict[str, Any] | None = None
    gap_millis: int | None = None


class Events(AnswerModel):
    """A page of the history, newest last, of `total` events up to its end.

    `next` is the place before which the next page ends, null at the end. `unknown`: where events may be missing.
    """

    snapshot: Moment
    total: int
    events: list[Event]
    next: str | None
    unknown: Unknown | None = None


class Story(AnswerModel):
    """The newest of `total` sentences, newest last; `next` is the place before which the next page ends.

    `unknown`: where sentences may be missing.
    """

    snapshot: Moment
    name: str
    total: int
    sentences: list[StorySentence]
    next: str | None
    unknown: Unknown | None = None


class Snapshot(AnswerModel, omit_defaults=True):
    """A published snapshot."""

    epoch: int
    term: int
    run_id: str
    published_at: Time
    event_time: Time | None
    offsets: dict[int, int]
    versions: dict[str, int]
    changes: dict[str, int]
    query_id: str | None = None
    batch_id: int | None = None
    kind: str | None = None
    last_tick: Time | None = None
    kafka_cluster_id: str | None = None
    kafka_topic_id: str | None = None
    log_accepted_at: Time | None = None
    last_tick_append: int | None = None
    clock_millis: int | None = None
    last_append: int | None = None
    holes: list[dict[str, Any]] = []  # noqa: RUF012  # msgspec copies it
    repaired_at: Time | None = None

    @classmethod
    def of_row(cls, row: SnapshotRow) -> Self:
        """Return a row of the table `snapshot`."""
        return cls.of(row, holes=[row_fields(each._asdict()) for each in row.holes])


class Snapshots(AnswerModel):
    """Snapshots, newest first; `next` is the epoch with which the next page begins, null at the end.

    `oldestEpoch`: the oldest of which the tables are kept.
    """

    oldest_epoch: int
    snapshots: list[Snapshot]
    next: str | None


class Rejected(AnswerModel):
    """A record outside the contract; `text` is the beginning of its value, `length` the length of the whole value."""

    event_time: Time
    partition: int
    offset: int
    key: str | None
    length: int
    reason: str
    text: str


def row_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's row with camelCase names and times as text."""
    return {
        camel(name): row_fields(value) if isinstance(value, dict) else shown(name, value) for name, value in row.items()
    }


def _event(line: BrokerEventRow, away: Mapping[tuple[int, int], int]) -> Event:
    """Return an event with the rows that it changed, or only their number if they are many: `diff` lists them."""
    before, after = (
        {
            table: {"count": len(rows)} if len(rows) > MAX_ROWS_OF_A_LINE else list(map(row_fields, rows))
            for table, rows in side.items()
        }
        for side in rows_before_and_after(line)
    )
    command = line.command and row_fields(msgspec.json.decode(line.command))
    return Event.of(
        line,
        text=f"{sentence_of(line, registered=back_text(line, away))}.",
        before=before or None,
        after=after or None,
        command=command,
    )


def events(registry: RegistryAt, asked: AskEvents) -> Events:
    """Return the newest events of a span: all, or those of a broker name, a broker address or a topic, or of types."""
    span, types, limit = asked.span(registry), asked.types, asked.limit
    for each in {*types} - EVENT_TYPES:
        advice = did_you_mean(each, EVENT_TYPES) or f"Use {', '.join(sorted(EVENT_TYPES))}."
        raise BadQuestionError(f"unknown event type {each[:100]!r}. {advice}".rstrip())
    if asked.topic is not None:
        found = topic_events(registry, asked.topic, span)
        if not found and not has_topic(registry, asked.topic):
            raise not_found(registry, "topic", asked.topic, registry.queues)
        found = [line for line in found if asked.below is None or (line.epoch, line.seq) < asked.below]
        lines = [line for line in found if not types or line.type in types]
        if asked.broker is not None:
            lines = [line for line in lines if asked.broker in (line.broker_name, line.broker_addr)]
            if not lines:
                check_known(registry, asked.broker)
        total = len(lines)
    else:
        chosen = event_condition(asked.broker, span, with_versions=asked.versions, below=asked.below)
        chosen += f" AND type IN ({', '.join(map(quoted, types))})" if types else ""
        lines = newest_of(registry, chosen, limit + 1)
        total = len(lines) if len(lines) <= limit else count_of(registry, chosen)
        if asked.broker is not None and not lines:
            check_known(registry, asked.broker)
    lines = lines[-(limit + 1) :]
    following = f"{lines[1].epoch}.{lines[1].seq}" if len(lines) > limit else None
    away = away_ms(lines)
    shown = [_event(line, away) for line in with_changes(registry, lines[-limit:])]
    return Events(Moment.of(registry.snapshot), total, shown, following, unknown_in(registry, span))


def why(registry: RegistryAt, name: str, asked: AskWhy) -> Story:
    """Return the story of a broker name, a broker address or a topic."""
    span = asked.span(registry)
    is_broker = not asked.is_topic and is_recorded(registry, name)
    if is_broker:
        story: list[StorySentence] | None = broker_story(registry, name, span, with_versions=asked.versions)
    else:
        story = topic_story(registry, name, span)
    if story is None:
        kind, ever = ("topic", set[str]()) if asked.is_topic else ("broker or topic", recorded_names(registry))
        raise not_found(registry, kind, name, [*ever, *registry.queues])
    end = len(story) if asked.before is None else min(asked.before, len(story))
    first = max(0, end - asked.limit)
    following, moment = str(first) if first else None, Moment.of(registry.snapshot)
    return Story(moment, name, len(story), story[first:end], following, unknown_in(registry, span))


def snapshots(rows: Sequence[SnapshotRow], oldest: SnapshotRow, limit: int) -> Snapshots:
    """Return the first `limit` of snapshots, newest first; `oldest` is the oldest that is whole."""
    following = str(rows[limit].epoch) if len(rows) > limit else None
    return Snapshots(oldest.epoch, list(map(Snapshot.of_row, rows[:limit])), following)


def rejected(registry: RegistryAt, limit: int) -> list[Rejected]:
    """Return the newest rejected records, newest first."""
    return [
        Rejected.of(row, text=(row.value or b"")[:_SHOWN_VALUE_BYTES].decode(errors="replace"))
        for row in registry.rejected(limit)
    ]


_TABLES = [spec.name for spec in ROUTE_TABLES]
_MANY_ROWS = ("topic", "topic_mapping")
"""Tables whose differences come last, because a broker that leaves removes a row for each of its topics."""


class DifferentRow(AnswerModel):
    """A row that one of two moments lacks, or has with other values."""

    table: str
    key: list[str | int]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Diff(AnswerModel):
    """The differences between two moments, `counts` of them by table: added, removed and changed rows."""

    from_: str | None
    to: str | None
    epochs: tuple[int, int]
    counts: dict[str, dict[str, int]]
    total: int
    differences: list[DifferentRow]
    next: str | None


def diff(before: RegistryAt, after: RegistryAt, asked: AskDiff) -> Diff:
    """Return the differences between two moments, by the lines between them: all, or those of one table.

    Raises PastUnknownError if lines between them were lost.
    """
    if asked.table is not None and asked.table not in _TABLES:
        raise BadQuestionError(f"unknown table {asked.table[:100]!r}. Use {', '.join(_TABLES)}.")
    epochs, newest = (before.snapshot.epoch, after.snapshot.epoch), after.newest
    is_of_epochs = before.as_of.at_ms is after.as_of.at_ms is None
    unknown = UnknownPast.of_tables(newest) if is_of_epochs else UnknownPast.of(newest)
    if unknown is not None and min(epochs) < unknown.to_epoch and max(epochs) >= unknown.from_epoch:
        raise unknown.error

    def differences_between() -> list[Difference]:
        undone, done = changes_between(after, before), changes_between(before, after)
        return sorted(differences(done, undone), key=lambda each: each.table in _MANY_ROWS)

    found = after.once("differences", differences_between, BROKER_EVENT, key=(before.as_of, after.as_of), most=1)
    counts: dict[str, dict[str, int]] = {}
    for each in found:
        kind = "added" if each.before is None else "removed" if each.after is None else "changed"
        counts.setdefault(each.table, {"added": 0, "removed": 0, "changed": 0})[kind] += 1
    wanted = [each for each in found if asked.table in (None, each.table)]
    last = asked.after + asked.limit
    return Diff(
        from_=before.as_of.as_json,
        to=after.as_of.as_json,
        epochs=epochs,
        counts=counts,
        total=len(wanted),
        differences=list(map(_different_row, wanted[asked.after : last])),
        next=str(last) if last < len(wanted) else None,
    )


def _different_row(each: Difference) -> DifferentRow:
    before, after = (None if side is None else row_fields(side) for side in (each.before, each.after))
    return DifferentRow(each.table, list(each.key), before, after)  # type: ignore[arg-type]  # texts and numbers
