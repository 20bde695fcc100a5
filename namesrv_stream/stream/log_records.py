"""The rows of a micro-batch as the records of the log, in its order, and the evictions beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

import pyarrow as pa

from namesrv_stream.kafka.record_reader import RecordReader, StoredRecord


class Eviction(NamedTuple):
    """The state of an address was evicted: it has been silent since `last_heard_ms` for longer than its timeout.

    That ends no lease.
    """

    broker_addr: str
    last_heard_ms: int


class LogRecord(NamedTuple):
    """A record of a micro-batch. `is_carried` is False if its value is still in Kafka."""

    stored: StoredRecord
    is_carried: bool


def in_log_order(rows: pa.Table) -> tuple[list[LogRecord], list[Eviction]]:
    """Return the records of one micro-batch by offset, and the states that it evicted (`query.registry_rows`)."""
    records: list[LogRecord] = []
    evictions: list[Eviction] = []
    for offset, time_ms, key, value, length in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        if offset is None:
            evictions.append(Eviction(key.decode(), time_ms))
            continue
        is_carried = value is not None or length is None
        records.append(LogRecord(StoredRecord(offset, time_ms, key or b"", value), is_carried))
    return sorted(records), sorted(evictions)


def with_values(records: Iterable[LogRecord], reader: RecordReader) -> Iterator[StoredRecord]:
    """Yield the records with their values. Those that did not come with the batch are read when their turn comes."""
    records = list(records)
    with closing(reader.at([each.stored.offset for each in records if not each.is_carried])) as values:
        for record in records:
            yield record.stored if record.is_carried else next(values)
