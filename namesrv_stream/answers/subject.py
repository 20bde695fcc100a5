"""The subject of a question: a moment as people write it, and the registry as it was then.

A moment is an epoch, `now`, `03:12`, `2026-11-21 03:12`, ISO 8601, `10m` or `1d 2h ago`. A time without a zone is in
the given zone, or else in UTC. If the clocks were put back, a time may exist twice: the later one that is
not in the future counts.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from msgspec import Struct

from namesrv_stream.answers.events import Span
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.config.values import parsed_duration
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, did_you_mean
from namesrv_stream.reporting.logs import printable
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import is_system_topic
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RegistryView

T = TypeVar("T")

_MAX_COMPARED = 2_000
"""Most names that are compared to find the nearest. Of more names only those with the same beginning or with
the whole name in them are compared, because all would take seconds."""

_NAMED, _NEAREST, _SHOWN_CHARS = 5, 3, 200


def camel(name: str) -> str:
    """Return the name of a field or column as JSON has it; `from_`, a word of Python's, is `from`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


_TIMES = frozenset(
    (
        "event_time",
        "published_at",
        "last_tick",
        "log_accepted_at",
        "repaired_at",
        "last_heard_at",
        "lease_began_at",
        "suspect_since",
    )
) | {"last_update_timestamp"}
"""Columns that hold a time, in epoch milliseconds in a row."""


def shown(column: str, value: Any) -> Any:
    """Return the value of a column for an answer: a time as text, any other value as it is."""
    return iso_text(value) if column in _TIMES and isinstance(value, int) else value


class Fields(Struct, rename=camel):
    """An answer or a part of it. In JSON its names are camelCase, times ISO 8601 in UTC, durations end with Millis."""

    @classmethod
    def of(cls, row: Any, **more: Any) -> Self:
        """Return an answer from a row's columns that have the names of its fields, and `more`, which wins."""
        given = {name: shown(name, value) for name, value in row._asdict().items()} | more
        return cls(**{name: given[name] for name in cls.__struct_fields__ if name in given})


class NotFoundError(NamesrvError):
    """Neither the snapshot nor, for brokers, the history has the name that was asked for."""

    def __init__(self, kind: str, name: str, known: Iterable[str], epoch: int, is_last: Callable[[str], bool]) -> None:
        names = sorted(set(known))
        is_long = len(names) > _MAX_COMPARED
        begin, whole = name[:2].lower(), name.lower()
        near = (each for each in names if each[:2].lower() == begin or whole in each.lower())
        compared = list(near) if is_long else names
        nearest = did_you_mean(name, compared[:_MAX_COMPARED], most=_NEAREST).rstrip()
        shown = printable(name[:_SHOWN_CHARS]) + ("..." if len(name) > _SHOWN_CHARS else "")
        super().__init__(f"there is no {kind} {shown} in epoch {epoch}. {nearest or _what_there_is(names, is_last)}")


def _what_there_is(names: list[str], is_last: Callable[[str], bool]) -> str:
    if not names:
        return "There is none at all yet."
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    there = "There is" if len(names) == 1 else "There are"
    return f"{there} {', '.join(sorted(names, key=is_last)[:_NAMED])}{more}."


class BadQuestionError(NamesrvError):
    """A parameter or a command that cannot be used. The message names it and the accepted values."""

    exit_status = 2


class Moment(Fields):
    """The moment of an answer. `eventTime` is null before the first record."""

    epoch: int
    event_time: str | None
    published_at: str


class Unknown(Fields):
    """A stretch of time of which the history has lost rows, which an answer lacks; `text` says why.

    `since`: null if it is not known when it begins. `fromEpoch` and `toEpoch`: the first and the last epoch of it.
    """

    since: str | None
    until: str
    from_epoch: int
    to_epoch: int
    tables: list[str]
    text: str

    @classmethod
    def of_past(cls, unknown: UnknownPast) -> Self:
        """Return the stretch for an answer."""
        tables = sorted({each.table_name for each in unknown.holes})
        times = iso_text(unknown.from_millis), iso_text(unknown.until_millis)
        return cls(*times, unknown.from_epoch, unknown.to_epoch, tables, unknown.sentence)


class Page(Fields):
    """A page of a list of `total` items; `next` names the item after which the next page begins, null at the end."""

    snapshot: Moment
    total: int
    next: str | None


class Seen(NamedTuple):
    """A registry at one moment. `settings`: those in force there.

    `past_moment`: None for the newest snapshot. The signs of life of a past moment are not known.
    """

    root: Root
    snapshot: SnapshotRow
    tables: RouteTables
    settings: NamesrvSettings
    past_moment: AsOf | None = None

    @classmethod
    def of(cls, root: Root, view: RegistryView, settings: NamesrvSettings) -> Self:
        """Return the subject for a view; `settings` are those with which this process was started."""
        tables = view.routes
        return cls(root, view.snapshot, tables, settings.restored(tables.namesrv_config), view.as_of)

    @property
    def moment(self) -> Moment:
        """The moment, as answers have it."""
        return Moment.of(self.snapshot)

    @property
    def as_of(self) -> AsOf:
        """The moment, to open it again."""
        return self.past_moment or AsOf(self.snapshot.epoch)

    @property
    def is_made(self) -> bool:
        """True for a past moment."""
        return self.past_moment is not None

    @property
    def unknown(self) -> UnknownPast | None:
        """The stretch of the history up to this moment that has lost rows, None if there is none."""
        return UnknownPast.reaching(self.snapshot)

    def unknown_in(self, span: Span) -> Unknown | None:
        """Return the stretch of the history with lost rows if a span meets it."""
        unknown = self.unknown
        return Unknown.of_past(unknown) if unknown is not None and span.meets(unknown) else None

    def not_found(self, kind: str, name: str, known: Iterable[str]) -> NotFoundError:
        """Return the error for an unknown name. It lists the names most like it, or else the existing names."""
        is_last = partial(is_system_topic, brokers=(), clusters=self.tables.clusters)
        return NotFoundError(kind, name, known, self.snapshot.epoch, is_last)


def now_of(row: SnapshotRow) -> int:
    """Return the moment of a snapshot in epoch milliseconds: of its newest record, else of its publication."""
    return row.event_time or row.published_at


MAX_LISTED = 1_000
"""Most items in one answer over HTTP."""


def paged(  # noqa: PLR0913 -- an order, and what a reader chose
    items: Iterable[T],
    order: Callable[[T], Any],
    name: Callable[[T], Any],
    limit: int | None,
    after: str = "",
    *,
    reverse: bool = False,
) -> tuple[list[T], str | None]:
    """Return the items behind the place `after` in an order, then by name, and the last one's place if more follow.

    The item at that place may have left the list meanwhile.
    """
    found = sorted(items, key=name)
    found.sort(key=order, reverse=reverse)
    if after:
        found = _behind(found, order, name, after, reverse)
    page = found[:limit]
    return page, _place_text(order(page[-1]), name(page[-1])) if len(page) < len(found) and page else None


def _behind(found: list[T], order: Callable[[T], Any], name: Callable[[T], Any], after: str, reverse: bool) -> list[T]:
    def is_behind(each: T) -> bool:
        key = _tuples(order(each))
        if key == at:
            return bool(_tuples(name(each)) > last)
        return bool(key < at if reverse else key > at)

    try:
        at, last = _tuples(msgspec.json.decode(urlsafe_b64decode(after)))
        return list(filter(is_behind, found))
    except (ValueError, TypeError, msgspec.MsgspecError):
        raise BadQuestionError(f"after={after[:200]} is no place in this order. Begin anew, without `after`.") from None


def _place_text(*place: Any) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _tuples(value: Any) -> Any:
    """Return a key with its lists as tuples, as it is after JSON."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def rank_of(text: str, *names: str) -> int:
    """Return 0 if one of the names is the text, 1 if one begins with it, 2 otherwise; case does not matter."""
    wanted, compared = text.lower(), [name.lower() for name in names]
    return 0 if wanted in compared else 1 if any(name.startswith(wanted) for name in compared) else 2


def names_behind(names: Sequence[str], after: str, limit: int | None) -> tuple[list[str], str | None]:
    """Return the names after `after`, which may be gone, and the last one if more follow. `names` are in order."""
    page = [name for name in names if name > after][:limit]
    return page, page[-1] if page and page[-1] != names[-1] else None


_MAX_AHEAD_MS = 60_000
ACCEPTED = "now, 03:12, 2026-11-21, 2026-11-21 03:12, 2026-11-21T03:12:05Z, 10m or 1d 2h ago"

_TO_THE_SECOND = re.compile(r":\d\d:\d\d(?![\d.,:])")
_REST_OF_A_SECOND = timedelta(milliseconds=999)
_LEAST = timedelta(milliseconds=1)
_PARTS_OF_DURATION = re.compile(r"[0-9]+\s*[a-z]+", re.IGNORECASE)


def parsed_time(text: str, now: datetime, zone: tzinfo = UTC, *, is_begin: bool = False) -> datetime:
    """Return the moment that `text` names, with its zone; `now` has a zone too. `zone` is that of a time without one.

    A duration is that long before `now`. A time of day is the latest such time that is not after `now`. A date is the
    end of that day, and a time to the second, as commands show it, the end of that second. Of a time that a clock
    showed twice the later one counts. For the begin of a span (`is_begin`) it is the begin, and the earlier one. Raises
    a ValueError that lists the accepted forms, or names the time that the clocks have skipped.
    """
    text = text.strip()
    if text.lower() == "now":
        return now
    if day := _date(text):
        with suppress(OverflowError):  # the first or last day of the calendar
            return _edge_of_day(day, now, zone, is_begin)
    if found := _relative(text, now) or _time_of_day(text, now, zone, is_begin) or _iso(text, now, zone, is_begin):
        is_second = not is_begin and _TO_THE_SECOND.search(text)
        return max(found, min(now, found + _REST_OF_A_SECOND)) if is_second else found
    raise ValueError(f"{text!r} is no time. Accepted are {ACCEPTED}.")


def day_begin(text: str) -> str:
    """Return a date as the time at which that day begins, any other text as it is: for the first of two moments."""
    return f"{text.strip()} 00:00" if _date(text) else text


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None


def _edge_of_day(day: date, now: datetime, zone: tzinfo, is_begin: bool) -> datetime:
    """Return the first moment of a day in a zone, or its last one up to `now`.

    A clock that skips midnight begins the day as it skips.
    """
    begin, end = (datetime.combine(each, time(), zone).astimezone(UTC) for each in (day, day + timedelta(days=1)))
    return begin if is_begin else max(begin, min(now, end - _LEAST))


def _relative(text: str, now: datetime) -> datetime | None:
    """Return the moment that is a duration before `now`.

    A duration may have two parts, `1d 2h`, as commands show it.
    """
    written = text.removesuffix("ago")
    parts = _PARTS_OF_DURATION.findall(written)
    if not parts or _PARTS_OF_DURATION.sub("", written).strip():
        return None
    try:
        return now - sum(map(_duration, parts), timedelta())
    except (ValueError, OverflowError):
        return None


def _duration(text: str) -> timedelta:
    duration = parsed_duration(text)
    assert isinstance(duration, timedelta)
    return duration


def _time_of_day(text: str, now: datetime, zone: tzinfo, is_begin: bool) -> datetime | None:
    try:
        of_day = time.fromisoformat(text) if ":" in text else None
    except ValueError:
        return None
    if of_day is None:
        return None
    today = now.astimezone(of_day.tzinfo or zone).date()
    days = (today - timedelta(days=days) for days in range(3))  # the clocks may have skipped it on one of these days
    shown = (_moments(datetime.combine(day, of_day), zone) for day in days)
    return next(at for moments in shown for at in (moments if is_begin else moments[::-1]) if at <= now)


def _iso(text: str, now: datetime, zone: tzinfo, is_begin: bool) -> datetime | None:
    try:
        local = datetime.fromisoformat(text)
        moments = _moments(local, zone)
    except (ValueError, OverflowError):
        return None
    if not moments:
        raise ValueError(f"there was no {text} in {zone}: the clocks were put forward. Give another time, or UTC.")
    return moments[0] if is_begin else next((at for at in moments[::-1] if at <= now), moments[0])


def _moments(local: datetime, zone: tzinfo) -> list[datetime]:
    """Return the moments at which a clock shows this time: two if it was put back over it, none if put forward.

    The clock is of the zone in `local`, or else of `zone`.
    """
    zone, shown = local.tzinfo or zone, local.replace(tzinfo=None)
    passes = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(each.astimezone() for each in passes if each.astimezone(zone).replace(tzinfo=None) == shown)


def epoch_in(text: str) -> int | None:
    """Return `text` as an epoch, None if it is no number. A number is always an epoch, never a time."""
    return int(text[:18]) if text.isascii() and text.isdigit() else None


def zone_named(name: str | None) -> tzinfo:
    """Return a time zone by its name, UTC for None."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        advice = did_you_mean(name, available_timezones())
        raise BadQuestionError(f"there is no such zone as {name[:100]!r}. {advice}UTC is one.") from error


def time_ms(text: str, now: datetime, zone: tzinfo = UTC, *, is_begin: bool = False) -> int:
    """Return a moment in epoch milliseconds. Durations and times of day count back from `now`."""
    try:
        return int(parsed_time(text, now, zone, is_begin=is_begin).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise BadQuestionError(f"{error} A + in a URL is written %2B.") from error


def is_still_to_come(at_ms: int, now: datetime) -> bool:
    """Return whether a moment is after `now`, but for a minute by which the clock of who names it may be ahead."""
    return at_ms > now.timestamp() * 1000 + _MAX_AHEAD_MS


def time_at(text: str | None, row: SnapshotRow, zone: tzinfo = UTC, *, is_begin: bool = False) -> int | None:
    """Return a moment in epoch milliseconds, relative to a snapshot's moment; None if `text` is None."""
    return (
        None
        if text is None
        else time_ms(text, datetime.fromtimestamp(now_of(row) / 1000, UTC), zone, is_begin=is_begin)
    )


def span_up_to(row: SnapshotRow, since: str | None, until: str | None, zone: tzinfo = UTC) -> Span:
    """Return the stretch between two times, which are relative to a snapshot's moment."""
    until_ms = time_at(until, row, zone)
    since_ms = time_at(since, row, zone, is_begin=True)
    return span_between(since_ms, None if until_ms is None else AsOf(at_ms=until_ms))


def span_between(since_ms: int | None, *until: AsOf | None) -> Span:
    """Return the stretch from a time to the earliest of the moments. Raises BadQuestionError if one is before it."""
    ends = tuple(filter(None, until))
    for end in ends:
        if since_ms is not None and end.at_ms is not None and end.at_ms < since_ms:
            raise BadQuestionError(f"{AsOf(at_ms=since_ms)} is later than {end}, up to which events are asked for.")
    return Span(since_ms, ends)


def moment_up_to(row: SnapshotRow, text: str | None, zone: tzinfo = UTC) -> AsOf:
    """Return the epoch or the time in `text`, the snapshot itself if there is none.

    Raises NoSuchSnapshotError for an epoch above the snapshot's. A time after it is the snapshot itself.
    """
    epoch = None if text is None else epoch_in(text)
    if epoch is not None:
        if epoch > row.epoch:
            raise NoSuchSnapshotError(f"epoch {epoch}", row.epoch)
        return AsOf(epoch=epoch)
    at_ms = time_at(text, row, zone)
    is_past = at_ms is not None and at_ms < now_of(row)
    return AsOf(at_ms=at_ms) if is_past else AsOf(epoch=row.epoch)
