"""The moments and stretches of time that a question names, in epoch milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from namesrv_stream.answers.events import Span
from namesrv_stream.answers.model import BadQuestionError
from namesrv_stream.config.written_times import epoch_in, parsed_time
from namesrv_stream.errors import NoSuchSnapshotError, did_you_mean
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.moment import RegistryAt

_MAX_AHEAD_MS = 60_000


def zone_named(name: str | None) -> tzinfo:
    """Return a time zone by its name, UTC for None."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        advice = did_you_mean(name, available_timezones())
        raise BadQuestionError(
            f"unknown time zone {name[:100]!r}. {advice}Use a name such as UTC or Europe/Berlin."
        ) from error


def time_ms(text: str, now: datetime, zone: tzinfo = UTC, *, is_begin: bool = False) -> int:
    """Return a moment in epoch milliseconds. Durations and times of day count back from `now`."""
    try:
        return int(parsed_time(text, now, zone, is_begin=is_begin).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise BadQuestionError(f"{error} In a URL write %2B for +.") from error


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
            raise BadQuestionError(f"the span begins at {AsOf(at_ms=since_ms)}, after its end {end}.")
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
