"""Parser of moments as people write them: an epoch, `now`, `03:12`, `2026-11-21 03:12`, ISO 8601, `10m`, `1d 2h ago`.

A time without a zone is in the zone given, or else in this machine's. Where its clocks were put back, the later of two
such times counts that is not in the future.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from namesrv_stream.config.values import parsed_duration
from namesrv_stream.errors import NoSuchSnapshotError, did_you_mean
from namesrv_stream.history.events import AsOf, Span
from namesrv_stream.questions.subject import BadQuestionError, now_of
from namesrv_stream.rules.rows import SnapshotRow

ACCEPTED = "now, 03:12, 2026-11-21 03:12, 2026-11-21T03:12:05Z, 10m or 1d 2h ago"

_PARTS_OF_DURATION = re.compile(r"[0-9]+\s*[a-z]+", re.IGNORECASE)


def parsed_time(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return the moment that `text` names, with its zone; `now` has a zone too. `zone` is that of a time without one.

    A duration is that long before `now`. A time of day is the latest such time that is not after `now`. Raises a
    ValueError that lists the accepted forms, or names the time that the clocks have skipped.
    """
    text = text.strip()
    if text.lower() == "now":
        return now
    if found := _relative(text, now) or _time_of_day(text, now, zone) or _iso(text, now, zone):
        return found
    raise ValueError(f"{text!r} is no time. Accepted are {ACCEPTED}.")


def _relative(text: str, now: datetime) -> datetime | None:
    """Return the moment that is a duration before `now`, as commands show it: `1d 2h` has two parts."""
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


def _time_of_day(text: str, now: datetime, zone: tzinfo | None) -> datetime | None:
    try:
        of_day = time.fromisoformat(text) if ":" in text else None
    except ValueError:
        return None
    if of_day is None:
        return None
    today = now.astimezone(of_day.tzinfo or zone).date()
    days = (today - timedelta(days=days) for days in range(3))  # on one of them the clocks may have skipped it
    return next(at for day in days for at in _moments(datetime.combine(day, of_day), zone)[::-1] if at <= now)


def _iso(text: str, now: datetime, zone: tzinfo | None) -> datetime | None:
    try:
        local = datetime.fromisoformat(text)
        moments = _moments(local, zone)
    except (ValueError, OverflowError):
        return None
    if not moments:
        where = "here" if zone is None else f"in {zone}"
        raise ValueError(f"there was no {text} {where}: the clocks were put forward. Give another time, or UTC.")
    return next((at for at in moments[::-1] if at <= now), moments[0])


def _moments(local: datetime, zone: tzinfo | None) -> list[datetime]:
    """Return the moments at which a clock shows this: two if the clocks were put back over it, none if forward.

    The clock is of the zone in `local`, or else of `zone`, or else this machine's.
    """
    zone, shown = local.tzinfo or zone, local.replace(tzinfo=None)
    passes = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(each.astimezone() for each in passes if each.astimezone(zone).replace(tzinfo=None) == shown)


def epoch_in(text: str) -> int | None:
    """Return the epoch that `text` is, None if it is none: a number is an epoch, and never a time."""
    return int(text[:18]) if text.isascii() and text.isdigit() else None


def zone_named(name: str | None) -> tzinfo | None:
    """Return a time zone by its name, None for this machine's."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        advice = did_you_mean(name, available_timezones())
        raise BadQuestionError(f"tz={name[:100]!r}: there is no such zone. {advice}UTC is one.") from error


def time_ms(text: str, now: datetime, zone: tzinfo | None = None) -> int:
    """Return a moment in epoch milliseconds. Durations and times of day count back from `now`."""
    try:
        return int(parsed_time(text, now, zone).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise BadQuestionError(f"{error} A + in a URL is written %2B.") from error


def time_at(text: str | None, row: SnapshotRow, zone: tzinfo | None = None) -> int | None:
    """Return a moment in epoch milliseconds, counted back from that of a snapshot; None for None."""
    return None if text is None else time_ms(text, datetime.fromtimestamp(now_of(row) / 1000, UTC), zone)


def span_up_to(row: SnapshotRow, since: str | None, until: str | None, zone: tzinfo | None = None) -> Span:
    """Return the stretch between two times, which count back from a snapshot's."""
    until_ms = time_at(until, row, zone)
    return Span(time_at(since, row, zone), () if until_ms is None else (AsOf(at_ms=until_ms),))


def moment_up_to(row: SnapshotRow, text: str | None, zone: tzinfo | None = None) -> AsOf:
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
