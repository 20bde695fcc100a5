"""Moments in the parameters of a request: epochs, event times, and durations that count back from a snapshot."""

from __future__ import annotations

from datetime import UTC, datetime

from namesrv_stream.cli.moments import parsed_time
from namesrv_stream.console.problems import BadQuestionError
from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.history.events import AsOf, Span
from namesrv_stream.rules.rows import SnapshotRow


def time_ms(text: str, now: datetime) -> int:
    """Return a moment in epoch milliseconds. Durations and times of day count back from `now`."""
    try:
        return int(parsed_time(text, now).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise BadQuestionError(str(error)) from error


def time_at(text: str | None, row: SnapshotRow) -> int | None:
    """Return a moment in epoch milliseconds, counted back from that of a snapshot; None for None."""
    at_ms = row.event_time or row.published_at
    return None if text is None else time_ms(text, datetime.fromtimestamp(at_ms / 1000, UTC))


def span_up_to(row: SnapshotRow, since: str | None, until: str | None) -> Span:
    """Return the stretch between two times, which count back from a snapshot's."""
    until_ms = time_at(until, row)
    return Span(time_at(since, row), () if until_ms is None else (AsOf(at_ms=until_ms),))


def moment_up_to(row: SnapshotRow, text: str | None) -> AsOf:
    """Return the epoch or the time in `text`, the snapshot itself if there is none.

    Raises NoSuchSnapshotError for an epoch above the snapshot's. A time after it is the snapshot itself.
    """
    if text is not None and text.isascii() and text.isdigit():
        epoch = int(text[:18])
        if epoch > row.epoch:
            raise NoSuchSnapshotError(f"epoch {epoch}", row.epoch)
        return AsOf(epoch=epoch)
    at_ms = time_at(text, row)
    is_past = at_ms is not None and at_ms < (row.event_time or row.published_at)
    return AsOf(at_ms=at_ms) if is_past else AsOf(epoch=row.epoch)
