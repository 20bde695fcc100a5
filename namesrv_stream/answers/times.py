"""A moment as people write it, and the stretch of time between two of them.

A moment is an epoch, `now`, `03:12`, `2026-11-21 03:12`, ISO 8601, `10m` or `1d 2h ago`. A time without a zone is in
the given zone, or else in UTC. If the clocks were put back, a time may exist twice: the later one that is
not in the future counts.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from namesrv_stream.answers.events import Span
from namesrv_stream.answers.model import BadQuestionError
from namesrv_stream.config.values import parsed_duration
from namesrv_stream.errors import NoSuchSnapshotError, did_you_mean
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.moment import RegistryAt

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


def time_at(text: str | None, now_ms: int, zone: tzinfo = UTC, *, is_begin: bool = False) -> int | None:
    """Return a moment in epoch milliseconds, relative to another one; None if `text` is None."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return None if text is None else time_ms(text, now, zone, is_begin=is_begin)


def span_up_to(now_ms: int, since: str | None, until: str | None, zone: tzinfo = UTC) -> Span:
    """Return the stretch between two times, which are relative to a moment."""
    until_ms = time_at(until, now_ms, zone)
    since_ms = time_at(since, now_ms, zone, is_begin=True)
    return span_between(since_ms, None if until_ms is None else AsOf(at_ms=until_ms))


def span_between(since_ms: int | None, *until: AsOf | None) -> Span:
    """Return the stretch from a time to the earliest of the moments. Raises BadQuestionError if one is before it."""
    ends = tuple(filter(None, until))
    for end in ends:
        if since_ms is not None and end.at_ms is not None and end.at_ms < since_ms:
            raise BadQuestionError(f"{AsOf(at_ms=since_ms)} is later than {end}, up to which events are asked for.")
    return Span(since_ms, ends)


def moment_up_to(registry: RegistryAt, text: str | None, zone: tzinfo = UTC) -> AsOf:
    """Return the epoch or the time in `text`, the registry's own moment if there is none.

    Raises NoSuchSnapshotError for an epoch above the moment's. A time after it is the moment itself.
    """
    epoch = None if text is None else epoch_in(text)
    if epoch is not None:
        if epoch > registry.snapshot.epoch:
            raise NoSuchSnapshotError(f"epoch {epoch}", registry.snapshot.epoch)
        return AsOf(epoch=epoch)
    at_ms = time_at(text, registry.now_ms, zone)
    is_past = at_ms is not None and at_ms < registry.now_ms
    return AsOf(at_ms=at_ms) if is_past else AsOf(epoch=registry.snapshot.epoch)
