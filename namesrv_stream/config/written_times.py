"""Read a time as people write it: `now`, `03:12`, `2026-11-21 03:12`, ISO 8601, `10m` or `1d 2h ago`; or an epoch.

A time without a zone is in the given zone, or else in UTC. If the clocks were put back, a time may exist twice: the
later one that is not in the future counts.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from namesrv_stream.config.values import parsed_duration

ACCEPTED = (
    "now, 03:12 (the last one that has passed), 2026-11-21, 2026-11-21 03:12, 2026-11-21T03:12:05Z, 10m or '1d 2h ago'"
)

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
    raise ValueError(f"invalid time {text!r}. Use {ACCEPTED}.")


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
        return now - sum(map(parsed_duration, parts), timedelta())
    except (ValueError, OverflowError):
        return None


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
        raise ValueError(f"{text} does not exist in {zone}: the clocks were put forward. Use another time, or UTC.")
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
