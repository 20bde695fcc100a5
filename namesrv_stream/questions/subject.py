"""Subject of a question: one snapshot, its settings, and what it lacks of the moment that was asked for.

Usually a snapshot lacks nothing, as an event is published within a second. A registry that was made from an older log
has an epoch for an hour of it, or whatever the job read at once: its later events are in the next epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from msgspec import UNSET, Struct, UnsetType

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, SnapshotGoneError, did_you_mean
from namesrv_stream.history.events import AsOf, count_after
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.rules.system_topics import is_system_topic
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RegistryView
from namesrv_stream.tables.snapshots import Snapshots

T = TypeVar("T")

_MOST_COMPARED = 2_000
"""Most names among which the nearest is looked for: of more only those that begin alike, or it would take seconds."""

_NAMED, _NEAREST = 5, 3


def camel(name: str) -> str:
    """Return the name of a field or column as JSON has it; `from_`, a word of Python's, is `from`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


_TIMES = frozenset(
    ("event_time", "published_at", "last_tick", "log_accepted_at", "last_heard_at", "lease_began_at", "suspect_since")
) | {"last_update_timestamp"}
"""Columns that hold a time, in epoch milliseconds in a row."""


def shown(column: str, value: Any) -> Any:
    """Return the value of a column as an answer has it: a time as text."""
    return iso_text(value) if column in _TIMES and isinstance(value, int) else value


class Fields(Struct, rename=camel):
    """An answer or a part of it. In JSON its names are camelCase, times ISO 8601 in UTC, durations end with Millis."""

    @classmethod
    def of(cls, row: Any, **more: Any) -> Self:
        """Return an answer whose fields are the columns of a row of the same name, and `more`, which come first."""
        given = {name: shown(name, value) for name, value in row._asdict().items()} | more
        return cls(**{name: given[name] for name in cls.__struct_fields__ if name in given})


class NotFoundError(NamesrvError):
    """Neither the snapshot nor, for brokers, the history has the name that was asked for."""

    def __init__(self, kind: str, name: str, known: Iterable[str], epoch: int) -> None:
        names = sorted(set(known))
        is_long = len(names) > _MOST_COMPARED
        compared = [each for each in names if each[:2].lower() == name[:2].lower()] if is_long else names
        nearest = did_you_mean(name, compared[:_MOST_COMPARED], most=_NEAREST).rstrip()
        super().__init__(f"there is no {kind} {name} in epoch {epoch}. {nearest or _what_there_is(names)}")


def _what_there_is(names: list[str]) -> str:
    if not names:
        return "There is none at all yet."
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"There is {', '.join(sorted(names, key=is_system_topic)[:_NAMED])}{more}."


class BadQuestionError(NamesrvError):
    """A parameter or a command that cannot be used; the message says which and what is accepted."""

    exit_status = 2


class Lacking(Fields):
    """A moment that was asked for lies between two snapshots, and `events` in between are not in the answer."""

    asked_at: str
    next_epoch: int
    next_event_time: str | None
    events: int


def between(root: Root, snapshots: Snapshots, row: SnapshotRow, at_ms: int | None) -> Lacking | None:
    """Return what the snapshot in force at a moment lacks of it, None if it lacks nothing."""
    newest = snapshots.newest()
    if at_ms is None or row.epoch == newest.epoch:
        return None
    count = count_after(root, newest, row.epoch, AsOf(at_ms=at_ms))
    try:
        following = snapshots.find(row.epoch + 1) if count else None
    except SnapshotGoneError:
        return None
    return following and Lacking(iso_text(at_ms), following.epoch, iso_text(following.event_time), count)


class Moment(Fields):
    """The snapshot from which an answer is made. `eventTime` is null before the first record."""

    epoch: int
    event_time: str | None
    published_at: str
    between: Lacking | UnsetType = UNSET


class Page(Fields):
    """A page of a list of `total` items; `next` names the item behind which the next page begins, null at the end."""

    snapshot: Moment
    total: int
    next: str | None


class Seen(NamedTuple):
    """One snapshot of a registry; `settings` are those in force there, `lacking` what it lacks of the moment asked for.

    `remembered` is set if the snapshot of that moment is gone. Then `tables` has the brokers of that moment from the
    events, `snapshot` is the newest one, and topics, signs of life and data versions are not known.
    """

    root: Root
    snapshot: SnapshotRow
    tables: RouteTables
    settings: NamesrvSettings
    lacking: Lacking | None = None
    remembered: AsOf | None = None

    @classmethod
    def of(cls, root: Root, view: RegistryView, settings: NamesrvSettings, lacking: Lacking | None = None) -> Self:
        """Return what is seen in a view; `settings` are those with which this process was started."""
        tables = view.routes
        return cls(root, view.snapshot, tables, settings.restored(tables.namesrv_config), lacking)

    @property
    def moment(self) -> Moment:
        """The moment of the snapshot, as answers have it."""
        return Moment.of(self.snapshot, between=self.lacking or UNSET)

    def not_found(self, kind: str, name: str, known: Iterable[str]) -> NotFoundError:
        """Return the error that names what there is, or what is most like the name."""
        return NotFoundError(kind, name, known, self.snapshot.epoch)


def now_of(row: SnapshotRow) -> int:
    """Return the moment of a snapshot in epoch milliseconds: of its newest record, of a first claim its publication."""
    return row.event_time or row.published_at


MOST_LISTED = 1_000
"""Most items in one answer over HTTP."""


def paged(items: Sequence[T], name: Callable[[T], str], limit: int | None, after: str) -> tuple[list[T], str | None]:
    """Return the items behind the one that is named `after`, and the name of the last one if more follow."""
    first = 0
    if after:
        first = next((index for index, each in enumerate(items, 1) if name(each) == after), 0)
        if not first:
            raise BadQuestionError(f"after={after[:200]}: the list has no such item. Begin anew, without `after`.")
    last = len(items) if limit is None else first + limit
    page = list(items[first:last])
    return page, name(page[-1]) if page and last < len(items) else None
