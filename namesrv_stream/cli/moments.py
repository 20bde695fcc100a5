"""Parser of moments as people write them: an epoch, `now`, `03:12`, `2026-11-21 03:12`, ISO 8601, `10m`, `1d 2h ago`.

A time without a zone is in the zone given, or else in this machine's.
"""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, tzinfo

import click

from namesrv_stream.config.values import parsed_duration

ACCEPTED = "now, 03:12, 2026-11-21 03:12, 2026-11-21T03:12:05Z, 10m or 1d 2h ago"

_PARTS_OF_DURATION = re.compile(r"[0-9]+\s*[a-z]+", re.IGNORECASE)


def parsed_time(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return the moment that `text` names, with its zone; `now` has a zone too. `zone` is that of a time without one.

    A duration is that long before `now`. A time of day is the latest such time that is not after `now`. Raises a
    ValueError that lists the accepted forms.
    """
    text = text.strip()
    if text.lower() == "now":
        return now
    if found := _relative(text, now) or _time_of_day(text, now, zone) or _iso(text, zone):
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
    zone = of_day.tzinfo or zone
    today = datetime.combine(now.astimezone(zone).date(), of_day.replace(tzinfo=zone)).astimezone()
    return today if today <= now else today - timedelta(days=1)


def _iso(text: str, zone: tzinfo | None) -> datetime | None:
    try:
        written = datetime.fromisoformat(text)
        return written.replace(tzinfo=written.tzinfo or zone).astimezone()
    except (ValueError, OverflowError):
        return None


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
