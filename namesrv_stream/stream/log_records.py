"""The rows of the stateful step as the records of the log, in its order."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pyarrow as pa

from namesrv_stream.kafka.reader import StoredRecord
from namesrv_stream.rules.requests import BROKER_ADDRESS, MAX_NAME_CHARS
from namesrv_stream.stream.liveness import EVICTED, entries_of
from namesrv_stream.stream.source import BROKER_TYPES, COMMAND_TYPES, CONNECTION_TYPES, REJECTED, TICK, TOO_LONG


class LogRecord(NamedTuple):
    """One record as far as it came through Spark; `length` in bytes and `reason` of a rejected one.

    `broker_addr` is empty for ticks, commands and rejected records.
    """

    offset: int
    append_time_ms: int
    kind: str
    broker_addr: str
    channel_id: str | None
    length: int | None
    reason: str | None


class Eviction(NamedTuple):
    """The keyed state of an address was evicted: it has been silent since `last_heard_ms` for longer than its timeout.

    That ends no lease.
    """

    broker_addr: str
    last_heard_ms: int


def in_log_order(rows: pa.Table) -> tuple[list[LogRecord], list[Eviction]]:
    """The records of one micro-batch by offset, and the states that it evicted."""
    records: list[LogRecord] = []
    evictions: list[Eviction] = []
    for text in rows["passed_on"].to_pylist():
        for entry in entries_of(text):
            if entry.kind == EVICTED:
                evictions.append(Eviction(entry.broker_addr, entry.append_times_ms[0]))
                continue
            rest = (entry.kind, entry.broker_addr, entry.channel_id, entry.length, entry.reason)
            places = zip(entry.offsets, entry.append_times_ms, strict=True)
            records += [LogRecord(offset, time_ms, *rest) for offset, time_ms in places]
    records.sort()
    return records, sorted(evictions)


def as_passed_on(stored: StoredRecord) -> LogRecord:
    """A record read from Kafka, as the source and the stateful step would have passed it on.

    Of a light record only the fields that are used count, as there: a wrong `brokerId` ends no lease less.
    """
    fields = _fields(stored.value)
    kind, address = _text(fields.get("type")), _text(fields.get("brokerAddr"))
    channel_id = _text(fields.get("channelId")) if kind in CONNECTION_TYPES else None
    reason = None
    if kind in BROKER_TYPES:
        reason = _reason(kind, address, channel_id, stored.key)
    elif kind not in (TICK, *COMMAND_TYPES):
        reason = "not a JSON object with a text field `type`" if kind is None else f"unknown type {kind}"
    is_of_broker = kind in BROKER_TYPES and reason is None
    return LogRecord(
        offset=stored.offset,
        append_time_ms=stored.append_time_ms,
        kind=REJECTED if reason else str(kind),
        broker_addr=str(address) if is_of_broker else "",
        channel_id=channel_id if is_of_broker else None,
        length=len(stored.value or b""),
        reason=reason,
    )


def _reason(kind: object, address: object, channel_id: str | None, key: bytes) -> str | None:
    """Return the reason why a broker's record does not count; None if its envelope is within the contract."""
    if not isinstance(address, str) or not re.match(BROKER_ADDRESS, address):
        return "brokerAddr is missing or no host:port"
    if key != address.encode():
        return f"the record's key is not brokerAddr {address}"
    if len(address) > MAX_NAME_CHARS:
        return TOO_LONG.format("brokerAddr")
    if channel_id is not None and len(channel_id) > MAX_NAME_CHARS:
        return TOO_LONG.format("channelId")
    return "channelId is missing or no text" if kind == "CHANNEL_CLOSED" and channel_id is None else None


def _text(value: object) -> str | None:
    """A field as Spark reads it into a text column: what is no text as JSON, half a surrogate pair as `?`."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def _fields(value: bytes | None) -> dict[str, Any]:
    """The object that a value begins with, as Spark's parser takes it; empty if there is none."""
    try:
        found, _ = json.JSONDecoder(parse_constant=_refuse).raw_decode((value or b"").decode().lstrip())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _refuse(constant: str) -> None:
    """Raise ValueError for NaN and Infinity, which are no JSON."""
    raise ValueError(constant)
