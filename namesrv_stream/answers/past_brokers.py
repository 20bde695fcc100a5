"""Follow brokers through the recent history: their sessions, and the unplanned ends of leases.

analysis/views.sql states the same for the whole history, as `broker_stretch`, `outage` and `shared_outage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import pyarrow as pa

from namesrv_stream.answers.definitions import EXPECTED_MS, BrokerKey, absence_of_end, together
from namesrv_stream.answers.events import Span
from namesrv_stream.rules.history import LEASE_ENDS, PLANNED, UNPLANNED
from namesrv_stream.tables.moment import Place, RegistryAt

Outcome = Literal["down", "back", "retired", "aged_out", "replaced"]
"""What became of a broker whose lease ended: `replaced` if another address had taken its role before."""

_HOUR_MS = 3_600_000
_BEGINS = ("REGISTERED", "ID_TAKEN")
_LINES = (
    f"(type IN {(*_BEGINS, 'ID_LOST')} OR (type IN {LEASE_ENDS} AND lease_millis IS NOT NULL)"
    " OR (type = 'RETIRE_BROKER' AND NOT held_id))"
)


class Session(NamedTuple):
    """A stretch of time in which a broker was up; `to_ms` is None while it lasts. It was expected to `until_ms`."""

    broker: BrokerKey
    zone: str | None
    address: str
    from_ms: int
    to_ms: int | None
    until_ms: int

    def is_expected_at(self, at_ms: int) -> bool:
        """Return whether the broker was expected at a time because of this session."""
        return self.from_ms <= at_ms <= self.until_ms


class LeaseEnd(NamedTuple):
    """An unplanned end of a lease. `until_ms`: when the broker was back or not expected any more, None if it is down.

    `fell_ms`: the time by which brokers share an outage: the last heartbeat of a silent one.
    """

    broker: BrokerKey
    zone: str | None
    address: str
    type: str
    fell_ms: int
    gone_ms: int
    place: Place
    outcome: Outcome
    until_ms: int | None


class _Line(NamedTuple):
    epoch: int
    seq: int
    event_time: int
    type: str
    cluster_name: str
    zone_name: str | None
    broker_name: str
    broker_id: int
    broker_addr: str | None
    last_heard_at: int | None
    held_id: bool | None


class PastBrokers(NamedTuple):
    """The sessions of brokers in the recent history, and all unplanned ends of leases, by the times they fell."""

    sessions: list[Session]
    ends: list[LeaseEnd]

    def shared(self) -> list[list[LeaseEnd]]:
        """Return the ends that belong together: each within a minute of the one before."""
        return list(together(self.ends, lambda end: end.fell_ms))


def past_brokers(registry: RegistryAt, since_ms: int) -> PastBrokers:
    """Return what happened to brokers since a time, with all that may still have been down then.

    An hour more is read, so that ends which belong together are together. After lost rows of the history it begins.
    """
    known = f"epoch > {max((each.to_epoch for each in registry.snapshot.holes), default=0)}"
    span = Span(max(0, since_ms - EXPECTED_MS - _HOUR_MS))
    columns = ", ".join(_Line._fields)
    found = registry.ask_events(f"SELECT {columns} FROM rows WHERE {_LINES} AND {known} AND {span.covers}")
    of_broker: dict[BrokerKey, list[_Line]] = {
        (row.cluster_name, name, broker_id): []
        for name, holders in registry.brokers.items()
        for broker_id, row in holders.items()
    }
    for line in sorted(_lines(found)):
        of_broker.setdefault((line.cluster_name, line.broker_name, line.broker_id), []).append(line)
    sessions, ends = [], []
    for broker, lines in of_broker.items():
        life = _Life(registry, broker, lines)
        sessions += life.sessions
        ends += life.ends
    return PastBrokers(sessions, sorted(ends, key=lambda end: (end.fell_ms, end.place)))


def _lines(found: pa.Table) -> Iterator[_Line]:
    columns = []
    for name in _Line._fields:
        column = found.column(name)
        if name in ("event_time", "last_heard_at"):
            column = column.cast("timestamp[ms]", safe=False).cast("int64")
        columns.append(column.to_pylist())
    return map(_Line._make, zip(*columns, strict=True))


class _Life:
    """One broker in the history: `lines` are its own, in order of the log."""

    def __init__(self, registry: RegistryAt, broker: BrokerKey, lines: Iterable[_Line]) -> None:
        self._registry, self._broker, self._now_ms = registry, broker, registry.now_ms
        self._begun: _Line | int | None = None
        self._ended: list[tuple[_Line | int, _Line]] = []
        self._replaced: list[_Line] = []
        self._retired: dict[int, int] = {}
        self._is_first = True
        for line in lines:
            self._follow(line)
        row = registry.brokers.get(broker[1], {}).get(broker[2])
        self._present = row if row is not None and row.cluster_name == broker[0] else None
        if self._is_first and self._present is not None:
            self._begun = 0
        self.sessions: list[Session] = []
        self.ends: list[LeaseEnd] = []
        self._tell()

    def _follow(self, line: _Line) -> None:
        if line.type == "RETIRE_BROKER":
            if self._begun is None and self._ended:
                self._retired.setdefault(len(self._ended) - 1, line.event_time)
        elif line.type in _BEGINS:
            if self._begun is None:
                self._begin(line)
            self._is_first = False
        elif line.type != "ID_LOST" and not line.held_id:
            if line.type in UNPLANNED:
                self._replaced.append(line)
        elif self._begun is not None or self._is_first:
            self._ended.append((0 if self._begun is None else self._begun, line))
            self._begun = None
            self._is_first = False

    def _begin(self, line: _Line) -> None:
        self._begun = line
        if self._ended and self._ended[-1][1].type == "ID_LOST" and self._ended[-1][1].event_time == line.event_time:
            self._begun, _ = self._ended.pop()  # the role passed from one address to another

    def _tell(self) -> None:
        begins = [began for began, _ in self._ended[1:]] + ([] if self._begun is None else [self._begun])
        for number, (began, end) in enumerate(self._ended):
            at_ms = end.event_time
            back_ms = _ms(begins[number]) if number < len(begins) else None
            outcomes: list[tuple[int, Outcome]] = [(at_ms + EXPECTED_MS, "aged_out")]
            outcomes += [] if back_ms is None else [(back_ms, "back")]
            outcomes += [(self._retired[number], "retired")] if number in self._retired else []
            until_ms, outcome = min(outcomes, key=lambda each: each[0])
            zone, address = end.zone_name, end.broker_addr or ""
            is_planned = self._is_planned(end, min(until_ms, self._now_ms))
            expected_ms = at_ms if is_planned else min(until_ms, self._now_ms)
            self.sessions.append(Session(self._broker, zone, address, _ms(began), at_ms, expected_ms))
            if not is_planned:
                is_over = until_ms <= self._now_ms
                self._end(end, zone, outcome if is_over else "down", until_ms if is_over else None)
        if self._begun is not None:
            zone = self._present.zone_name if self._present else None
            address = self._present.broker_addr if self._present else ""
            self.sessions.append(Session(self._broker, zone, address, _ms(self._begun), None, self._now_ms))
        for line in self._replaced:
            if absence_of_end(self._registry, self._broker, line.zone_name, line.type, line.event_time):
                continue
            zones = (each.zone for each in self.sessions if each.is_expected_at(line.event_time))
            self._end(line, next(zones, None), "replaced", line.event_time)

    def _is_planned(self, end: _Line, until_ms: int) -> bool:
        """Return whether an end was planned: by its type, or by a planned absence that the broker has kept so far."""
        absence = absence_of_end(self._registry, self._broker, end.zone_name, end.type, end.event_time)
        return end.type in PLANNED if absence is None else until_ms < absence.until

    def _end(self, line: _Line, zone: str | None, outcome: Outcome, until_ms: int | None) -> None:
        fell_ms = (line.last_heard_at or line.event_time) if line.type == "EXPIRED" else line.event_time
        of_line = (line.broker_addr or "", line.type, fell_ms, line.event_time, line[:2])
        self.ends.append(LeaseEnd(self._broker, zone, *of_line, outcome, until_ms))


def _ms(began: _Line | int) -> int:
    return began if isinstance(began, int) else began.event_time
