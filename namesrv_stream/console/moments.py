"""Moments in the parameters of a request: epochs, event times, and durations that count back from a snapshot."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from namesrv_stream.cli.moments import epoch_in, parsed_time
from namesrv_stream.console.answers import now_of
from namesrv_stream.console.problems import BadQuestionError
from namesrv_stream.errors import NoSuchSnapshotError, did_you_mean
from namesrv_stream.history.events import AsOf, Span
from namesrv_stream.rules.rows import SnapshotRow


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
