"""The rows of the stateful step as the records of the log, in its order."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from namesrv_stream.stream.liveness import EXPIRED


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


class Expiry(NamedTuple):
    """The keyed state was evicted: the address has been silent since `last_heard_ms` for longer than its timeout."""

    broker_addr: str
    last_heard_ms: int


def in_log_order(rows: pa.Table) -> tuple[list[LogRecord], list[Expiry]]:
    """The records of one micro-batch by offset, and the states that it evicted."""
    records: list[LogRecord] = []
    expiries: list[Expiry] = []
    for row in rows.to_pylist():
        kind, address, times = row["kind"], row["broker_addr"], row["append_times_ms"]
        if kind == EXPIRED:
            expiries.append(Expiry(address, times[0]))
            continue
        rest = (kind, address, row["channel_id"], row["length"], row["reason"])
        records += [LogRecord(offset, time_ms, *rest) for offset, time_ms in zip(row["offsets"], times, strict=True)]
    records.sort()
    return records, sorted(expiries)
