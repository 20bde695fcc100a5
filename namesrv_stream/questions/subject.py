"""Subject of a question: one snapshot, its settings, and what it lacks of the moment that was asked for.

Usually a snapshot lacks nothing, as an event is published within a second. A registry that was made from an older log
has an epoch for an hour of it, or whatever the job read at once: its later events are in the next epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self, TypeVar

from msgspec import UNSET, Struct, UnsetType

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, SnapshotGoneError, did_you_mean
from namesrv_stream.history.events import AsOf, count_after
from namesrv_stream.reporting.texts import counted, iso_text, moment_text
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.rules.topic_names import is_system_topic
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


class Fields(Struct, rename=camel):
    """An answer or a part of it. In JSON its names are camelCase, times ISO 8601 in UTC, durations end with Millis."""


class NotFoundError(NamesrvError):
    """Neither the snapshot nor, for brokers, the history has the name that was asked for."""

    def __init__(self, kind: str, name: str, known: Iterable[str], epoch: int) -> None:
        names = sorted(set(known))
        is_long = len(names) > _MOST_COMPARED
        compared = [each for each in names if each[:2].lower() == name[:2].lower()] if is_long else names
        nearest = did_you_mean(name, compared[:_MOST_COMPARED], most=_NEAREST).rstrip()
        super().__init__(f"there is no {kind} {name} in epoch {epoch}. {nearest or _what_there_is(names)}")
        self.kind = kind
        self.name = name


def _what_there_is(names: list[str]) -> str:
    if not names:
        return "There is none at all yet."
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"There is {', '.join(sorted(names, key=is_system_topic)[:_NAMED])}{more}."


class BadQuestionError(NamesrvError):
    """A parameter or a command that cannot be used; the message says which and what is accepted."""

    exit_status = 2


class Between(NamedTuple):
    """A moment between two snapshots, and the number of events from the first one up to it."""

    at_ms: int
    before: SnapshotRow
    after: SnapshotRow
    events: int

    def __str__(self) -> str:
        """The notice for who asked for the moment."""
        began, ended = (moment_text(now_of(row)) for row in (self.before, self.after))
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


class Lacking(Fields):
    """A moment that was asked for lies between two snapshots, and `events` in between are not in the answer."""

    asked_at: str
    next_epoch: int
    next_event_time: str | None
    events: int


class Moment(Fields):
    """The snapshot from which an answer is made. `eventTime` is null before the first record."""

    epoch: int
    event_time: str | None
    published_at: str
    between: Lacking | UnsetType = UNSET

    @classmethod
    def of(cls, row: SnapshotRow) -> Self:
        """Return the moment of a snapshot."""
        return cls(row.epoch, iso_text(row.event_time), iso_text(row.published_at))


class Seen(NamedTuple):
    """One snapshot of a registry; `settings` are those in force there, `lacking` what it lacks of the moment asked for.

    `remembered` is set if the snapshot of that moment is gone. Then `tables` has the brokers of that moment from the
    events, `snapshot` is the newest one, and topics, signs of life and data versions are not known.
    """

    root: Root
    snapshot: SnapshotRow
    tables: RouteTables
    settings: NamesrvSettings
    lacking: Between | None = None
    remembered: AsOf | None = None

    @classmethod
    def of(cls, root: Root, view: RegistryView, settings: NamesrvSettings, lacking: Between | None = None) -> Self:
        """Return what is seen in a view; `settings` are those with which this process was started."""
        tables = view.routes
        return cls(root, view.snapshot, tables, settings.restored(tables.namesrv_config), lacking)

    @property
    def moment(self) -> Moment:
        """The moment of the snapshot, as answers have it."""
        moment, lacking = Moment.of(self.snapshot), self.lacking
        if lacking is not None:
            next_time = iso_text(lacking.after.event_time)
            moment.between = Lacking(iso_text(lacking.at_ms), lacking.after.epoch, next_time, lacking.events)
        return moment

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
