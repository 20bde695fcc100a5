"""The stateful step: the last sign of life of each broker address. Spark's callbacks around plain Python.

The state is keyed by broker address: the timeout that the address registered, and its last sign of life. An event-time
timer evicts the state of a broker that is silent for longer than its timeout. The step passes every record on to the
driver, where all addresses meet and leases end. Spark visits a group of addresses at once (`address_groups`). Ticks,
commands and rejected records come in a group of their own, for which no state is kept. This module runs on the
executors: it imports Spark and the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from namesrv_stream.stream.address_groups import NO_ADDRESS, ParsedRecord

OUTPUT_SCHEMA = "passed_on STRING"
"""A JSON array of arrays, each with the fields of a `PassedOn`.

Spark's way between Java and Python takes each cell by itself and makes an Arrow batch for each group, so a few long
texts are cheaper than typed columns.
"""

EVICTED = "EVICTED"
_HEARTBEAT = "BROKER_HEARTBEAT"
_ENTRIES_A_ROW = 1_000
_OutputRow = Row("passed_on")


class PassedOn(NamedTuple):
    """Entry that the stateful step passes on to the driver: a record, the heartbeats of a connection, or an eviction.

    `kind`: a record's type, REJECTED, or EVICTED. BROKER_HEARTBEAT has an entry of both lists for each heartbeat,
    other types have one; EVICTED has no offset, and the time of the last sign of life. `length` in bytes, and `reason`
    of a rejected record.
    """

    kind: str
    broker_addr: str
    channel_id: str | None
    offsets: list[int]
    append_times_ms: list[int]
    length: int | None = None
    reason: str | None = None


def output_rows(entries: Iterable[PassedOn]) -> Iterator[Row]:
    """The step's output rows of these entries, at most a thousand in each."""
    remaining = iter(entries)
    while some := list(islice(remaining, _ENTRIES_A_ROW)):
        yield _OutputRow(json.dumps(some))


def entries_of(passed_on: str) -> Iterator[PassedOn]:
    """The entries that a row of the step's output has."""
    return (PassedOn(*fields) for fields in json.loads(passed_on))


@dataclass
class _Change:
    """Change of the state of one address by its records of one visit.

    `timeout_ms`: of the last registration, None if there was none. `has_left`: it has unregistered, and whatever was
    known before is void.
    """

    last_heard_ms: int | None = None
    timeout_ms: int | None = None
    has_left: bool = False

    def take(self, record: ParsedRecord, newest_tick_ms: int) -> None:
        """Take the next record of the address. A heartbeat creates no state (L2)."""
        if record.kind == "UNREGISTER_BROKER":
            self.last_heard_ms, self.timeout_ms, self.has_left = None, None, True
            return
        if record.kind == "REGISTER_BROKER":
            self.timeout_ms = record.timeout_ms
        if record.kind == "CHANNEL_CLOSED" or (self.has_left and self.timeout_ms is None):
            return
        self.last_heard_ms = max(self.last_heard_ms or 0, record.append_time_ms, newest_tick_ms)


class BrokerLiveness(StatefulProcessor):
    """Follows the addresses of a group: passes their records on, and evicts what is known of a silent address.

    A heartbeat is written without a look at what is known of its address. So one of an address that is not registered
    leaves a last sign of life without a timeout, which the group's next timer removes.

    One timer at most a group, at the earliest end of its addresses. Signs of life do not move it: when it fires, it is
    set to the earliest end that there is then.
    """

    def __init__(self, watermark_delay_ms: int) -> None:
        """Take the delay by which Spark's watermark is behind the newest tick."""
        self._watermark_delay_ms = watermark_delay_ms

    def init(self, handle: StatefulProcessorHandle) -> None:  # noqa: D102  # Spark's contract, as the three below
        self._handle = handle
        self._timeout_ms = handle.getMapState("timeout_ms", "broker_addr STRING", "timeout_ms LONG")
        self._last_heard_ms = handle.getMapState("last_heard_ms", "broker_addr STRING", "last_heard_ms LONG")

    def handleInputRows(  # noqa: D102, N802
        self,
        key: tuple[int],
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803  # Spark passes it by this name
    ) -> Iterator[Row]:
        # The second row of a tick only moves the watermark.
        records = sorted(
            (ParsedRecord.of_json(row.record) for row in rows if row.event_time is None),
            key=lambda record: record.offset,
        )
        if key[0] == NO_ADDRESS:
            yield from output_rows(map(_passed_on, records))
            return
        self._remember(records, timerValues.getCurrentWatermarkInMs() + self._watermark_delay_ms)
        yield from output_rows(_entries(records))

    def handleExpiredTimer(  # noqa: D102, N802
        self,
        key: tuple[int],  # noqa: ARG002
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        watermark_ms: int = timerValues.getCurrentWatermarkInMs()
        timeouts = dict(self._timeout_ms.iterator())
        ends, evicted = [], []
        for (address,), (last_heard_ms,) in list(self._last_heard_ms.iterator()):
            if (address,) not in timeouts:
                self._last_heard_ms.removeKey((address,))
            elif (end_ms := _end_ms(last_heard_ms, *timeouts[(address,)])) > watermark_ms:
                ends.append(end_ms)
            else:
                self._forget(address)
                evicted.append(PassedOn(EVICTED, address, None, [], [last_heard_ms]))
        if ends:
            self._handle.registerTimer(min(ends))
        yield from output_rows(evicted)

    def handleInitialState(self, key: tuple[int], initialState: Any, timerValues: Any) -> None:  # noqa: ARG002, D102, N802, N803
        known = json.loads(initialState.addresses)
        self._keep({address: _Change(last_heard_ms, timeout_ms) for address, timeout_ms, last_heard_ms in known})

    def close(self) -> None:  # noqa: D102
        pass

    def _remember(self, records: Iterable[ParsedRecord], newest_tick_ms: int) -> None:
        """Keep the changes by these records.

        A sign of life counts at the newest tick of the micro-batches before if Kafka's clock is behind it (E9).
        """
        changes: dict[str, _Change] = {}
        for record in records:
            changes.setdefault(record.broker_addr, _Change()).take(record, newest_tick_ms)
        self._keep(changes)

    def _keep(self, changes: dict[str, _Change]) -> None:
        """Keep the changes, by address."""
        for address, change in changes.items():
            if change.has_left:
                self._forget(address)
            if change.timeout_ms is not None:
                self._timeout_ms.updateValue((address,), (change.timeout_ms,))
            if change.last_heard_ms is not None:
                self._last_heard_ms.updateValue((address,), (change.last_heard_ms,))
        self._set_timer(changes.values())

    def _set_timer(self, changes: Iterable[_Change]) -> None:
        """Set the group's timer if it has none, or if an address now ends before it.

        An address that is not registered has no end: its last sign of life is removed when the group's timer fires.
        """
        heard = [(each.last_heard_ms, each.timeout_ms) for each in changes if each.last_heard_ms is not None]
        if not heard:
            return
        timer_ms = next(self._handle.listTimers(), None)
        end_ms = min((_end_ms(ms, timeout_ms) for ms, timeout_ms in heard if timeout_ms is not None), default=None)
        if timer_ms is None:
            self._handle.registerTimer(end_ms or max(ms for ms, _ in heard) + 1)
        elif end_ms is not None and end_ms < timer_ms:
            self._handle.deleteTimer(timer_ms)
            self._handle.registerTimer(end_ms)

    def _forget(self, address: str) -> None:
        self._timeout_ms.removeKey((address,))
        self._last_heard_ms.removeKey((address,))


def _end_ms(last_heard_ms: int, timeout_ms: int) -> int:
    """The first millisecond at which a silent address is evicted."""
    return last_heard_ms + timeout_ms + 1


def _entries(records: Iterable[ParsedRecord]) -> Iterator[PassedOn]:
    """The records as entries: heartbeats of an address over a connection in one, each other record in its own."""
    heartbeats: dict[tuple[str, str | None], PassedOn] = {}
    for record in records:
        if record.kind != _HEARTBEAT:
            yield _passed_on(record)
            continue
        sender = (record.broker_addr, record.channel_id)
        if (beats := heartbeats.get(sender)) is None:
            beats = heartbeats[sender] = PassedOn(_HEARTBEAT, *sender, [], [])
        beats.offsets.append(record.offset)
        beats.append_times_ms.append(record.append_time_ms)
    yield from heartbeats.values()


def _passed_on(record: ParsedRecord) -> PassedOn:
    return PassedOn(
        record.kind,
        record.broker_addr,
        record.channel_id,
        [record.offset],
        [record.append_time_ms],
        record.length,
        record.reason,
    )
