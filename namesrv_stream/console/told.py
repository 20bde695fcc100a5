"""Lines of the history as the API tells them: with a sentence, and with the API's names and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

import msgspec

from namesrv_stream.console.models import ToldFields
from namesrv_stream.history.fields import camel, event_fields
from namesrv_stream.history.story import story_of_broker
from namesrv_stream.rules.rows import BrokerEventRow
from namesrv_stream.texts import iso_text, natural_key

_FEW = 3
"""More lines of one epoch and type than this are told as one."""

_NAMED = 3
_MANY = {
    "EXPIRED": "{} brokers expired",
    "CHANNEL_CLOSED": "{} brokers lost their last connection",
    "UNREGISTERED": "{} brokers unregistered in order",
    "REGISTERED": "{} brokers registered",
    "ID_TAKEN": "{} addresses took an id",
    "ID_LOST": "{} addresses lost their id",
    "TOPICS_CHANGED": "topics of {} brokers changed",
}
_TIMES = frozenset({"leaseBeganAt", "suspectSince", "lastUpdateTimestamp", "eventTime"})


def told(line: BrokerEventRow) -> dict[str, Any]:
    """Return a line of history with its sentence."""
    fields = event_fields(line) | {"text": sentence(line)}
    return fields | {side: rows_of(fields[side]) for side in ("before", "after") if side in fields}


def sentence(line: BrokerEventRow) -> str:
    """Return what happened, in the words of `why`."""
    return " ".join(each.text for each in story_of_broker([line]))


def rows_of(side: msgspec.Raw) -> dict[str, Any]:
    """Return `before` or `after` of a line, table by table."""
    decoded: dict[str, Any] = msgspec.json.decode(side)
    return {
        table: [row_fields(row) for row in rows] if isinstance(rows, list) else row_fields(rows)
        for table, rows in decoded.items()
    }


def row_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table's row with the API's names and times."""
    fields = {camel(name): row_fields(value) if isinstance(value, dict) else value for name, value in row.items()}
    times = {name: value for name, value in fields.items() if name in _TIMES and isinstance(value, int)}
    return fields | {name: iso_text(value) for name, value in times.items()}


def told_together(lines: Iterable[BrokerEventRow], limit: int) -> list[ToldFields]:
    """Return the newest lines, newest first; many of one epoch, type and cluster are told as one.

    In an epoch the changes of topics come last: most of them follow from what happened to a broker.
    """
    found: list[ToldFields] = []
    for _, of_epoch in groupby(lines, lambda line: line.epoch):
        kinds: dict[tuple[str, str | None], list[BrokerEventRow]] = {}
        for line in of_epoch:
            kinds.setdefault((line.type, line.cluster_name), []).append(line)
        for of_kind in sorted(kinds.values(), key=lambda lines: lines[0].type == "TOPICS_CHANGED"):
            found += [_many(of_kind)] if len(of_kind) > _FEW else map(_one, of_kind)
        if len(found) >= limit:
            break
    return found[:limit]


def _one(line: BrokerEventRow) -> ToldFields:
    return {
        "epoch": line.epoch,
        "eventTime": iso_text(line.event_time) or "",
        "type": line.type,
        "text": sentence(line),
        "count": 1,
    }


def _many(lines: list[BrokerEventRow]) -> ToldFields:
    names = sorted({line.broker_name or "" for line in lines}, key=natural_key)
    words = _MANY.get(lines[0].type, lines[0].type.lower().replace("_", " ") + ", {} times")
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    cluster = f" of {lines[0].cluster_name}" if lines[0].cluster_name else ""
    text = f"{words.format(f'{len(lines):,}')}{cluster}: {', '.join(names[:_NAMED])}{more}."
    return _one(lines[0]) | {"text": text[:1].upper() + text[1:], "count": len(lines)}
