"""The stateful step: the last records of each broker address. Spark's callbacks around plain Python.

The state of an address has its names from the last registration, its last sign of life and its connections. The step
passes every record on to the driver, where all addresses meet and leases end; it packs heartbeats into one row a
connection. An event-time timer evicts the state of a broker that is silent for longer than its timeout. Ticks,
commands and rejected records come under the empty key, for which no state is kept. This module runs on the executors:
it imports Spark and the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

STATE_SCHEMA = "address STRING"
"""A JSON object with the fields of `Address`."""

OUTPUT_SCHEMA = "passed_on STRING"
"""A JSON array with the fields of `PassedOn`.

State and output are one column each, because Spark's way between Java and Python takes each column, and each state's
schema, one by one for each address: with typed columns a batch that hears 10,000 addresses takes a third longer.
"""

EVICTED = "EVICTED"
_HEARTBEAT, _TICK = "BROKER_HEARTBEAT", "SCAN"
_OutputRow = Row("passed_on")


class PassedOn(NamedTuple):
    """One row that the stateful step passes on to the driver.

    `kind`: a record's type, REJECTED, or EVICTED. BROKER_HEARTBEAT has an entry of both lists for each heartbeat over
    one connection, other types have one; EVICTED has no offset, and the time of the last sign of life. `length` in
    bytes, and `reason` of a rejected record.
    """

    kind: str
    broker_addr: str
    channel_id: str | None
    offsets: list[int]
    append_times_ms: list[int]
    length: int | None = None
    reason: str | None = None

    @classmethod
    def of_row(cls, text: str) -> Self:
        """Return what a row of the step's output says."""
        return cls(*json.loads(text))

    def as_row(self) -> Row:
        """Return it as a row of the step's output."""
        return _OutputRow(json.dumps(self))


@dataclass
class Address:
    """The state of one address.

    `last_heard_ms`: append time of the last sign of life. `channels`: connection -> append time of the last one over
    it. `timer_ms`: the one timer of the address, None before it is set.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    timeout_ms: int
    last_heard_ms: int
    channels: dict[str, int] = field(default_factory=dict)
    timer_ms: int | None = None

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
        address = self._known()
        if address is None:
            return
        if address.due_ms > timerValues.getCurrentWatermarkInMs():
            address.timer_ms = None  # it has fired
            self._keep(address)
            return
        self._state.clear()
        yield PassedOn(EVICTED, key[0], None, [], [address.last_heard_ms]).as_row()

    def handleInitialState(self, key: tuple[str], initialState: Any, timerValues: Any) -> None:  # noqa: ARG002, D102, N802, N803
        known = initialState
        self._keep(
            Address(known.cluster_name, known.broker_name, known.broker_id, known.timeout_ms, known.last_heard_ms)
        )

    def close(self) -> None:  # noqa: D102
        pass

    def _remember(self, records: Iterable[Row]) -> None:
        address = self._known()
        timer_ms = address.timer_ms if address is not None else None
        for record in records:
            address = _after(address, record)
        if address is not None:
            address.timer_ms = timer_ms
            self._keep(address)
        elif timer_ms is not None:
            self._handle.deleteTimer(timer_ms)
            self._state.clear()

    def _known(self) -> Address | None:
        stored = self._state.get()
        return Address(**json.loads(stored[0])) if stored is not None else None

    def _keep(self, address: Address) -> None:
        """Store the state. A timer that is set for earlier is not moved until it fires."""
        if address.timer_ms is None or address.due_ms < address.timer_ms:
            if address.timer_ms is not None:
                self._handle.deleteTimer(address.timer_ms)
            address.timer_ms = address.due_ms
            self._handle.registerTimer(address.timer_ms)
        self._state.update((json.dumps(vars(address)),))


def _after(address: Address | None, record: Row) -> Address | None:
    """Return the state of an address after one of its records. A heartbeat creates none (L2)."""
    if record.kind == "REGISTER_BROKER":
        known = address.channels if address is not None else {}
        last_ms = address.last_heard_ms if address is not None else record.append_time_ms
        address = Address(record.cluster_name, record.broker_name, record.broker_id, record.timeout_ms, last_ms, known)
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
        yield PassedOn(_HEARTBEAT, beats[0].broker_addr, channel_id, offsets, times).as_row()


def _is_clock_row(record: Row) -> bool:
    """Return whether the row is the second one of a tick, which only moves the watermark."""
    return record.kind == _TICK and record.event_time is not None


def _passed_on(record: Row) -> Row:
    passed_on = PassedOn(
        record.kind,
        record.broker_addr,
        record.channel_id,
        [record.offset],
        [record.append_time_ms],
        record.length,
        record.reason,
    )
    return passed_on.as_row()
