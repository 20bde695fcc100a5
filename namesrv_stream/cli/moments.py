"""Parser of moments as people write them: an epoch, `now`, `03:12`, `2026-11-21 03:12`, ISO 8601, `10m`, `1d 2h ago`.

A time without a zone is in the zone given, or else in this machine's. Where its clocks were put back, the later of two
such times counts that is not in the future.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

import click

from namesrv_stream.config.values import parsed_duration

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


class Moment(click.ParamType[int | datetime]):
    """Click parameter type of a time or, if `epochs` is True, of a time or an epoch."""

    def __init__(self, *, epochs: bool) -> None:
        self._epochs = epochs
        self.name = "epoch|time" if epochs else "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime:
        """Return an epoch as an int, a time as a datetime."""
        if isinstance(value, int | datetime):
            return value
        text = str(value)
        if self._epochs and (epoch := epoch_in(text)) is not None:
            return epoch
        try:
            return parsed_time(text, datetime.now().astimezone())
        except ValueError as error:
            self.fail(str(error) if not self._epochs else f"{error} A number is an epoch.", param, ctx)
