"""Lines of history and snapshot rows as JSON objects, with RocketMQ's camelCase names and times as ISO 8601."""

from __future__ import annotations

from typing import Any

import msgspec

from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.texts import iso_text


def event_fields(event: BrokerEventRow) -> dict[str, Any]:
    """Return a line of history without its empty columns; `before` and `after` are objects."""
    fields = {camel(name): value for name, value in event._asdict().items() if value is not None}
    fields |= {name: iso_text(fields[name]) for name in ("eventTime", "lastHeardAt") if name in fields}
    return fields | {name: msgspec.Raw(fields[name].encode()) for name in ("before", "after") if name in fields}


def snapshot_fields(row: SnapshotRow) -> dict[str, object]:
    """Return a snapshot row without its empty columns."""
    fields = {camel(name): value for name, value in row._asdict().items() if value is not None}
    times = {name: iso_text(fields[name]) for name in ("lastTick", "logAcceptedAt") if name in fields}
    return fields | times | {"publishedAt": iso_text(row.published_at), "eventTime": iso_text(row.event_time)}


def camel(name: str) -> str:
    """Return a column's name as JSON has it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
