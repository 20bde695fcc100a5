"""The stateful step: the last records of each broker address. Spark's callbacks around plain Python.

The state of an address has its names from the last registration, its last sign of life and its connections. The step
passes every record on to the driver, where all addresses meet and leases end; it packs heartbeats into one row a
connection. An event-time timer evicts the state of a broker that is silent for longer than its timeout. Ticks,
commands and rejected records come under the empty key, for which no state is kept. This module runs on the executors:
it imports Spark and the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

STATE_SCHEMA = (
    "cluster_name STRING, broker_name STRING, broker_id LONG, timeout_ms LONG, last_heard_ms LONG,"
    " channels MAP<STRING, LONG>, timer_ms LONG"
)
"""`last_heard_ms`: append time of the last sign of life. `channels`: connection -> append time of the last one over it.
`timer_ms`: the one timer of the address."""

OUTPUT_SCHEMA = (
    "kind STRING, broker_addr STRING, channel_id STRING, offsets ARRAY<LONG>, append_times_ms ARRAY<LONG>,"
    " length LONG, reason STRING"
)
"""`kind`: a record's type, REJECTED, or EVICTED. BROKER_HEARTBEAT has an entry of both arrays for each heartbeat over
one connection, other types have one; EVICTED has no offset, and the time of the last sign of life."""

EVICTED = "EVICTED"
_HEARTBEAT, _TICK = "BROKER_HEARTBEAT", "SCAN"
_OutputRow = Row(*[column.split()[0] for column in OUTPUT_SCHEMA.split(", ")])


@dataclass(slots=True)
class _Address:
    """The state of one address. `channels` as in STATE_SCHEMA."""

    cluster_name: str
    broker_name: str
    broker_id: int
    timeout_ms: int
    last_heard_ms: int
    channels: dict[str, int] = field(default_factory=dict)

    @property
    def due_ms(self) -> int:
        """The first millisecond at which a silent address is evicted."""
        return self.last_heard_ms + self.timeout_ms + 1

    def take_sign_of_life(self, record: Row) -> None:
        """Take a sign of life. A connection over which nothing came for the timeout no longer counts (L6)."""
        now_ms = record.append_time_ms
        self.last_heard_ms = max(self.last_heard_ms, now_ms)
        if len(self.channels) > 1:
            self.channels = {name: ms for name, ms in self.channels.items() if ms + self.timeout_ms >= now_ms}
        if record.channel_id is not None:
            self.channels[record.channel_id] = now_ms


class BrokerLiveness(StatefulProcessor):
    """Follows one broker address: passes its records on, and evicts what is known of it once it is silent.

    One timer at most. A heartbeat does not move it: when it fires early, it is set to the present `due_ms`.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:  # noqa: D102  # Spark's contract, as the three below
        self._handle = handle
        self._state = handle.getValueState("address", STATE_SCHEMA)

    def handleInputRows(  # noqa: D102, N802
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803  # Spark passes it by this name
    ) -> Iterator[Row]:
        if not key[0]:
            yield from (_passed_on(record) for record in rows if not _is_clock_row(record))
            return
        records = sorted(rows, key=lambda record: record.offset)
        self._remember(records)
        yield from _rows_of(records)

    def handleExpiredTimer(  # noqa: D102, N802
        self,
        key: tuple[str],
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        stored = self._state.get()
        if stored is None:
            return
        address, _ = _address_of(stored)
        if address.due_ms > timerValues.getCurrentWatermarkInMs():
            self._keep(address, None)
            return
        self._state.clear()
        yield _OutputRow(EVICTED, key[0], None, [], [address.last_heard_ms], None, None)

    def handleInitialState(self, key: tuple[str], initialState: Any, timerValues: Any) -> None:  # noqa: ARG002, D102, N802, N803
        known = initialState
        self._keep(
            _Address(known.cluster_name, known.broker_name, known.broker_id, known.timeout_ms, known.last_heard_ms),
            None,
        )

    def close(self) -> None:  # noqa: D102
        pass

    def _remember(self, records: Iterable[Row]) -> None:
        stored = self._state.get()
        address, timer_ms = (None, None) if stored is None else _address_of(stored)
        for record in records:
            address = _after(address, record)
        if address is not None:
            self._keep(address, timer_ms)
        elif timer_ms is not None:
            self._handle.deleteTimer(timer_ms)
            self._state.clear()

    def _keep(self, address: _Address, timer_ms: int | None) -> None:
        """Store the state; `timer_ms` is the timer that is set. A later one is not moved until it fires."""
        if timer_ms is None or address.due_ms < timer_ms:
            if timer_ms is not None:
                self._handle.deleteTimer(timer_ms)
            timer_ms = address.due_ms
            self._handle.registerTimer(timer_ms)
        self._state.update(
            (
                address.cluster_name,
                address.broker_name,
                address.broker_id,
                address.timeout_ms,
                address.last_heard_ms,
                address.channels,
                timer_ms,
            )
        )


def _after(address: _Address | None, record: Row) -> _Address | None:
    """Return the state of an address after one of its records. A heartbeat creates none (L2)."""
    if record.kind == "REGISTER_BROKER":
        known = address.channels if address is not None else {}
        last_ms = address.last_heard_ms if address is not None else record.append_time_ms
        address = _Address(record.cluster_name, record.broker_name, record.broker_id, record.timeout_ms, last_ms, known)
        address.take_sign_of_life(record)
    elif address is None or record.kind == "UNREGISTER_BROKER":
        return None
    elif record.kind == "CHANNEL_CLOSED":
        if address.channels.pop(record.channel_id, None) is not None and not address.channels:
            return None
    else:
        address.take_sign_of_life(record)
    return address


def _rows_of(records: Iterable[Row]) -> Iterator[Row]:
    """The records of one address as rows: heartbeats of a connection in one, each other record in its own."""
    heartbeats: dict[str | None, list[Row]] = {}
    for record in records:
        if record.kind == _HEARTBEAT:
            heartbeats.setdefault(record.channel_id, []).append(record)
        else:
            yield _passed_on(record)
    for channel_id, beats in heartbeats.items():
        offsets, times = [beat.offset for beat in beats], [beat.append_time_ms for beat in beats]
        yield _OutputRow(_HEARTBEAT, beats[0].broker_addr, channel_id, offsets, times, None, None)


def _is_clock_row(record: Row) -> bool:
    """Return whether the row is the second one of a tick, which only moves the watermark."""
    return record.kind == _TICK and record.event_time is not None


def _passed_on(record: Row) -> Row:
    return _OutputRow(
        record.kind,
        record.broker_addr,
        record.channel_id,
        [record.offset],
        [record.append_time_ms],
        record.length,
        record.reason,
    )


def _address_of(stored: tuple[Any, ...]) -> tuple[_Address, int]:
    """The stored state, and the timer that is set."""
    cluster_name, broker_name, broker_id, timeout_ms, last_heard_ms, channels, timer_ms = stored
    known = dict(channels or {})
    return _Address(cluster_name, broker_name, broker_id, timeout_ms, last_heard_ms, known), timer_ms
