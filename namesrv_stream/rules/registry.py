"""The route registry: applies what happened, one event at a time in log order, and tells what came of it.

This is where all addresses of a broker name meet (E2). A published `live` row is the accepted lease: what is said of
an address without one, other than a registration, is ignored. The registry reads no clock and does no I/O; the
micro-batch takes the changed rows out of it and publishes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.commands import CommandReply, apply_command
from namesrv_stream.rules.history import AppliedEvent, history_of
from namesrv_stream.rules.journal import NetChanges, net_changes
from namesrv_stream.rules.lease import EventKind
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.registration import RegisterReply, is_move, is_refused, register, reply
from namesrv_stream.rules.requests import Command, RegisterBroker
from namesrv_stream.rules.rows import BrokerEventRow, LiveRow, LogPosition
from namesrv_stream.rules.tables import RegistryTables, end_lease

CAUSES = {"UNREGISTERED": "UNREGISTER_BROKER", "CHANNEL_CLOSED": "CHANNEL_CLOSED", "EXPIRED": "SILENCE"}


@dataclass(frozen=True, slots=True)
class LeaseEnd:
    """The keyed state found that a lease ended. `at.offset` and `at.partition` are -1 for an expiry."""

    kind: EventKind
    broker_addr: str
    at: LogPosition
    last_heard_ms: int


@dataclass(frozen=True, slots=True)
class RegistryChanges:
    """What a micro-batch comes to: rows to upsert and keys to delete per table, lines of history.

    `live` is in `changes` only with what has really changed; signs of life are asked for by themselves.
    """

    changes: Mapping[str, NetChanges]
    events: list[BrokerEventRow]


class RouteRegistry:
    """All routes in memory. `settings` are those of the start; run-time changes (A5) come from its own table."""

    def __init__(self, settings: NamesrvSettings) -> None:
        self._started_with = settings
        self.settings = settings
        self._tables = RegistryTables()
        self._events: list[BrokerEventRow] = []
        self._heard: set[str] = set()

    def load(self, rows: Mapping[str, Iterable[tuple[object, ...]]]) -> None:
        """Take published rows, table name -> rows, into an empty registry (E4)."""
        self._tables.load(rows)
        self._follow_settings()

    def register(self, request: RegisterBroker, at: LogPosition, *, lease_only: bool = False) -> RegisterReply:
        """Apply a registration, accepted or refused (R, T, D1, D7). `lease_only`: its topics could not be read."""
        address = request.broker_addr
        refused = is_refused(self._tables, request)
        if refused or is_move(self._tables, request):
            with self._step(_registration_step(request, at, "REFUSED" if refused else "MOVED")):
                end_lease(self._tables, address)
        if not refused:
            with self._step(_registration_step(request, at)):
                register(self._tables, self.settings, request, at, lease_only=lease_only)
            self._heard.add(address)
        return reply(self._tables, self.settings, request, refused)

    def end(self, end: LeaseEnd) -> None:
        """A lease that the keyed state found ended (U, L3, L6). One that was heard later has begun anew: ignored."""
        lease = self._tables.live.first(end.broker_addr)
        if lease is None or lease.last_update_timestamp > end.last_heard_ms:
            return
        is_record = end.at.offset >= 0
        step = AppliedEvent(
            cause=CAUSES[end.kind],
            event_time=end.at.event_time,
            partition=end.at.partition if is_record else None,
            offset=end.at.offset if is_record else None,
            end_type=end.kind,
            broker_addr=end.broker_addr,
            last_heard_at=min(end.last_heard_ms, end.at.event_time),  # after a new checkpoint it may be too late
        )
        with self._step(step):
            end_lease(self._tables, end.broker_addr)
        self._heard.discard(end.broker_addr)

    def seen(self, broker_addr: str, at_ms: int) -> None:
        """A sign of life of a known lease (L2); kept until signs of life are published."""
        lease = self._tables.live.first(broker_addr)
        if lease is not None and at_ms > lease.last_update_timestamp:
            self._tables.live.refresh(lease._replace(last_update_timestamp=at_ms))
            self._heard.add(broker_addr)

    def command(self, command: Command, at: LogPosition) -> CommandReply:
        """Apply an operator's command (A, K). It leaves a line of history also where it changed nothing."""
        cause = command.__struct_config__.tag
        step = AppliedEvent(
            cause=str(cause),
            event_time=at.event_time,
            partition=at.partition,
            offset=at.offset,
            requested_by=command.requested_by,
            command=command,
        )
        with self._step(step):
            result = apply_command(self._tables, self.settings, command)
        self._follow_settings()
        return result

    def take_batch(self) -> RegistryChanges:
        """What has come since the last call; the journal starts anew."""
        batch = RegistryChanges(net_changes(self._tables.journal), self._events)
        self._tables.journal.clear()
        self._events = []
        return batch

    def take_signs_of_life(self) -> list[LiveRow]:
        """The live rows heard since the last call, as they are now, one an address that still has a lease."""
        leases = [self._tables.live.first(address) for address in sorted(self._heard)]
        self._heard.clear()
        return [lease for lease in leases if lease is not None]

    def has_signs_of_life(self) -> bool:
        """Whether there is anything for `take_signs_of_life`."""
        return bool(self._heard)

    def view(self) -> RouteTables:
        """The tables as lookups see them."""
        return self._tables.view()

    def _follow_settings(self) -> None:
        self.settings = self._started_with.restored({row.key: row.value for row in self._tables.namesrv_config})

    @contextmanager
    def _step(self, step: AppliedEvent) -> Iterator[None]:
        start = len(self._tables.journal)
        yield
        self._events += history_of(step, self._tables.journal[start:])


def _registration_step(request: RegisterBroker, at: LogPosition, end_type: str | None = None) -> AppliedEvent:
    return AppliedEvent(
        cause="REGISTER_BROKER",
        event_time=at.event_time,
        partition=at.partition,
        offset=at.offset,
        end_type=end_type,
        broker_addr=request.broker_addr,
        requested_by=request.requested_by,
        request=request,
    )
