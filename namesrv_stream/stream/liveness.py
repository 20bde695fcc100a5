"""The stateful step: one lease per broker address, Spark's callbacks around `rules.lease`.

Ticks, commands and rejected records come under the empty key, for which no state is kept. It imports nothing but
Spark and the rules, since it runs on the executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from namesrv_stream.rules.lease import (
    AddressState,
    ClockJump,
    Identity,
    Lease,
    LeaseEvent,
    Sign,
    after_signs,
    after_time,
)

STATE_SCHEMA = (
    "newest_ms LONG, timer_ms LONG, cluster_name STRING, broker_name STRING, broker_id LONG, timeout_ms LONG,"
    " began_at_ms LONG, last_heard_ms LONG, grace_until_ms LONG, channels MAP<STRING, LONG>"
)
"""`timeout_ms` NULL: the lease has ended and only its newest event time is kept (D8). `timer_ms`: the one timer."""

OUTPUT_SCHEMA = (
    "kind STRING, broker_addr STRING, event_time_ms LONG, partition INT, offset LONG, last_heard_ms LONG,"
    " value BINARY, rejected_key BINARY, length LONG, reason STRING"
)
"""`kind`: a LeaseEvent's, or a command's type, REJECTED, or MARK, which tells only how far the log has been read."""

_OUTPUT_COLUMNS = [column.split()[0] for column in OUTPUT_SCHEMA.split(", ")]
_OutputRow = Row(*_OUTPUT_COLUMNS)

MARK = "MARK"
_PASSED_ON = ("value", "rejected_key", "length", "reason")


class BrokerLiveness(StatefulProcessor):
    """Follows one broker address: emits a row for each registration and each end of the lease, and one SEEN a batch.

    Every key tells the highest offset it has read, in a MARK if no other row does, so that a batch knows what it
    covers. The timer is set `watermark_delay_ms` early because the watermark is that much behind the log.
    """

    def __init__(self, watermark_delay_ms: int, jump: ClockJump) -> None:
        self._delay_ms = watermark_delay_ms
        self._jump = jump

    def init(self, handle: StatefulProcessorHandle) -> None:  # noqa: D102  # Spark's contract, as the three below
        self._handle = handle
        self._state = handle.getValueState("lease", STATE_SCHEMA)

    def handleInputRows(  # noqa: D102, N802
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803  # Spark passes it by this name
    ) -> Iterator[Row]:
        records = list(rows)
        if not key[0]:
            yield from _passed_on(records)
            return
        stored = self._state.get()
        state, events = after_signs(_state_of(stored), map(_sign_of, records), self._jump)
        if state is not None:
            self._keep(state, stored[1] if stored else None)
        by_offset = {(record.partition, record.offset): record for record in records}
        for event in events:
            yield _row_of(key[0], event, by_offset)
        told = {(event.sign.partition, event.sign.offset) for event in events if event.sign}
        yield from _marks(key[0], (place for place in _last_of_partitions(records) if place[:2] not in told))

    def handleExpiredTimer(  # noqa: D102, N802
        self,
        key: tuple[str],
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        stored = self._state.get()
        state = _state_of(stored)
        if state is None:
            return
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        after, events = after_time(state, watermark_ms + self._delay_ms, self._jump)
        if after.lease is None and after.newest_ms <= watermark_ms:
            self._state.clear()  # D8: nothing older can arrive any more
        else:
            self._keep(after, None)
        for event in events:
            yield _row_of(key[0], event, {})

    def handleInitialState(self, key: tuple[str], initialState: Any, timerValues: Any) -> None:  # noqa: ARG002, D102, N802, N803
        lease = Lease(
            Identity(initialState.cluster_name, initialState.broker_name, initialState.broker_id),
            initialState.timeout_ms,
            initialState.began_at_ms,
            initialState.last_heard_ms,
            initialState.grace_until_ms,
        )
        self._keep(AddressState(initialState.newest_ms, lease), None)

    def close(self) -> None:  # noqa: D102
        pass

    def _keep(self, state: AddressState, timer_ms: int | None) -> None:
        """Store the state; `timer_ms` is the timer that is set. A later one is not moved until it fires."""
        due_ms = state.lease.deadline_ms + 1 - self._delay_ms if state.lease else state.newest_ms
        if timer_ms is None or (state.lease and due_ms < timer_ms):
            if timer_ms is not None:
                self._handle.deleteTimer(timer_ms)
            self._handle.registerTimer(due_ms)
            timer_ms = due_ms
        self._state.update(_stored(state, timer_ms))


def _passed_on(records: Iterable[Row]) -> Iterator[Row]:
    """Commands and rejected records as they are, and how far the log has been read."""
    records = list(records)
    for record in records:
        if record.kind != "SCAN":
            yield _row(record.kind, "", record.event_time_ms, record.partition, record.offset, None, record)
    yield from _marks("", _last_of_partitions(records))


def _last_of_partitions(records: Iterable[Row]) -> Iterable[tuple[int, int, int]]:
    """(partition, offset, event time) of the highest offset of each partition."""
    last: dict[int, tuple[int, int, int]] = {}
    for record in records:
        place = (record.partition, record.offset, record.event_time_ms)
        last[record.partition] = max(place, last.get(record.partition, place))
    return last.values()


def _marks(address: str, places: Iterable[tuple[int, int, int]]) -> Iterator[Row]:
    for partition, offset, event_time_ms in places:
        yield _row(MARK, address, event_time_ms, partition, offset, None, None)


def _row_of(address: str, event: LeaseEvent, records: dict[tuple[int, int], Row]) -> Row:
    sign = event.sign
    partition, offset = (sign.partition, sign.offset) if sign else (-1, -1)
    record = records.get((partition, offset)) if event.kind == "REGISTERED" else None
    return _row(event.kind, address, event.event_time_ms, partition, offset, event.last_heard_ms, record)


def _row(  # noqa: PLR0913, PLR0917  # the columns of OUTPUT_SCHEMA, in their order
    kind: str,
    address: str,
    event_time_ms: int,
    partition: int,
    offset: int,
    last_heard_ms: int | None,
    record: Row | None,
) -> Row:
    rest = [record[column] for column in _PASSED_ON] if record else [None] * len(_PASSED_ON)
    return _OutputRow(kind, address, event_time_ms, partition, offset, last_heard_ms, *rest)


def _sign_of(record: Row) -> Sign:
    identity = None
    if record.kind == "REGISTER_BROKER":
        identity = Identity(record.cluster_name, record.broker_name, record.broker_id)
    return Sign(
        kind=record.kind,
        event_time_ms=record.event_time_ms,
        partition=record.partition,
        offset=record.offset,
        channel_id=record.channel_id,
        identity=identity,
        timeout_ms=record.timeout_ms if identity else 0,
    )


def _state_of(stored: tuple[Any, ...] | None) -> AddressState | None:
    if stored is None:
        return None
    newest_ms, _, cluster_name, broker_name, broker_id, timeout_ms, *rest = stored
    if timeout_ms is None:
        return AddressState(newest_ms, None)
    began_at_ms, last_heard_ms, grace_until_ms, channels = rest
    identity = Identity(cluster_name, broker_name, broker_id)
    lease = Lease(identity, timeout_ms, began_at_ms, last_heard_ms, grace_until_ms, dict(channels or {}))
    return AddressState(newest_ms, lease)


def _stored(state: AddressState, timer_ms: int) -> tuple[Any, ...]:
    lease = state.lease
    if lease is None:
        return (state.newest_ms, timer_ms, *[None] * 8)
    return (
        state.newest_ms,
        timer_ms,
        *lease.identity,
        lease.timeout_ms,
        lease.began_at_ms,
        lease.last_heard_ms,
        lease.grace_until_ms,
        dict(lease.channels),
    )
