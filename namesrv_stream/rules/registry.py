"""The route registry: applies the records of the log, one at a time in their order, and keeps the changed rows.

It alone sees all addresses of a broker name together (E2), and it decides the end of every lease. The registry reads no
clock and does no I/O; the micro-batch takes the changed rows and publishes them. Equal logs give equal tables (E1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from msgspec import structs

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.commands import CommandReply, apply_command, holder_of
from namesrv_stream.rules.history import AppliedEvent, history_of, log_gap_line
from namesrv_stream.rules.lease import (
    LOG_GAP_MS,
    LogClock,
    after_sign_of_life,
    deadline_ms,
    heard_at,
    is_mass_expiry,
    late_addresses,
    overdue,
    with_reading,
    without_channel,
)
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    ChannelClosed,
    Command,
    LiftExpiryGuard,
    RegisterBroker,
    Request,
    RequestRefused,
    RetireBroker,
    Scan,
    UnregisterBroker,
)
from namesrv_stream.rules.registration import follow_changes, forget_all, is_move, is_refused, note_token, register
from namesrv_stream.rules.registry_tables import RegistryTables, end_lease, net_of
from namesrv_stream.rules.rows import BrokerEventRow, LiveRow, LogPosition, RowChange

CAUSES = {"UNREGISTERED": "UNREGISTER_BROKER", "CHANNEL_CLOSED": "CHANNEL_CLOSED", "EXPIRED": "SILENCE"}
"""Type of the end of a lease -> the cause that its line of history names."""


@dataclass(frozen=True, slots=True)
class RegistryChanges:
    """The changes since the last publication, one for each row, and the lines of history.

    `changes` has a row of `live` only if more than a sign of life changed it; `take_signs_of_life` returns the others.
    """

    changes: list[RowChange]
    events: list[BrokerEventRow]


class RouteRegistry:
    """All routes in memory. `settings` starts as given; the table `namesrv_config` adds changes at run time (A5).

    `clock` is the log's clock and event time so far. Records older than `ignored_before_ms` are ignored, which is set
    when a new log continues old tables.
    """

    def __init__(self, settings: NamesrvSettings) -> None:
        self._started_with = settings
        self.settings = settings
        self.clock = LogClock()
        self.ignored_before_ms = 0
        self._tables = RegistryTables()
        self._events: list[BrokerEventRow] = []
        self._signs_of_life: set[str] = set()

    def load(
        self, rows: Mapping[str, Iterable[tuple[object, ...]] | TopicQueues], clock: LogClock | None = None
    ) -> None:
        """Take published rows, table name -> rows, and the log's clock into an empty registry (E4)."""
        self._tables.load(rows)
        self.clock = clock or LogClock()
        self.settings = self._settings_now()
        if self._started_with.delete_topic_with_broker_registration:
            forget_all(self._tables)  # the run before may have been started without this setting
        for lease in map(with_reading, list(self._tables.live)):
            self._tables.live.refresh(lease)

    def apply(self, request: Request, at: LogPosition, *, lease_only: bool = False) -> CommandReply | None:
        """Apply one record of the log and return a command's reply, None for all other types.

        A registration is answered from published tables: `rules.registration.reply`.
        `at.event_time` is the append time. `lease_only`: only the lease of the registration could be read.
        """
        if self.ignores(at):
            return None
        if isinstance(request, Scan):
            self._tick(at)
            return None
        reading_ms = self.clock.reading_at_ms(at.event_time, self.settings.tick_gap_millis)
        at = at._replace(event_time=self.clock.event_time_ms(at.event_time))
        match request:
            case RequestRefused():
                pass
            case RegisterBroker():
                self._register(request, at, reading_ms, lease_only=lease_only)
            case BrokerHeartbeat():
                self._sign_of_life(request, at, reading_ms)
            case UnregisterBroker():
                self.end(request.broker_addr, "UNREGISTERED", at.event_time, at)
            case ChannelClosed():
                self._channel_closed(request, at, reading_ms)
            case LiftExpiryGuard():
                return self._lift_guard(request, at)
            case _:
                return self._command(request, at)
        return None

    def ignores(self, at: LogPosition) -> bool:
        """Return whether a record is ignored because it was appended before its log was accepted as a new one.

        From the first record that is not ignored, all count, even if Kafka's clock steps back (E9).
        """
        if at.event_time >= self.ignored_before_ms:
            self.ignored_before_ms = 0
        return self.ignored_before_ms > 0

    def _tick(self, at: LogPosition) -> None:
        """Move the log's clock on, and end the overdue leases (D5) or hold them (D11)."""
        is_first = self.clock.reading_ms is None
        self.clock.tick(at.event_time, self.settings.tick_gap_millis)
        now_ms, reading_ms = self.clock.event_time_ms(at.event_time), self.clock.reading_ms or 0
        if self.has_log_gap:
            self._events.append(log_gap_line(at._replace(event_time=now_ms), self.clock.gap_ms))
        if is_first:
            for lease in list(self._tables.live):
                self._refresh(heard_at(lease, reading_ms))
        leases = overdue(self._tables.live, reading_ms, self._held_ms)
        holds = self._holds_at(reading_ms, leases)
        for lease in leases:
            if holds and lease.suspect_since is None:
                self._hold(lease, now_ms)
            else:
                self.expire(lease.broker_addr, now_ms)

    @property
    def has_log_gap(self) -> bool:
        """True if the newest tick came so long after the tick before it that the history gets a line about it (E11).

        False if all time between two ticks counts towards leases: then the gap is a silence of the brokers.
        """
        return self.settings.tick_gap_millis > 0 and self.clock.gap_ms > LOG_GAP_MS

    def _holds_at(self, reading_ms: int, leases: Collection[LiveRow]) -> bool:
        """Return whether the guard holds these leases, which become overdue at this tick."""
        ratio = self.settings.expiry_guard_ratio
        return bool(leases) and ratio > 0 and is_mass_expiry(self._tables.live, reading_ms, ratio)

    def _hold(self, lease: LiveRow, now_ms: int) -> None:
        """Keep a silent lease as suspect instead of ending it (D11)."""
        with self._journaled(AppliedEvent("SILENCE", now_ms, broker_addr=lease.broker_addr)):
            self._tables.live.put(lease._replace(suspect_since=now_ms))

    def _lift_guard(self, command: LiftExpiryGuard, at: LogPosition) -> CommandReply:
        """End the suspect leases in order of deadline, then address, as a tick would (D11)."""
        reply = self._command(command, at)
        leases = [lease for lease in self._tables.live if lease.suspect_since is not None]
        for lease in sorted(leases, key=lambda lease: (deadline_ms(lease), lease.broker_addr)):
            self.end(lease.broker_addr, "EXPIRED", at.event_time, at)
        return replace(reply, count=len(leases))

    def _register(self, request: RegisterBroker, at: LogPosition, reading_ms: int, *, lease_only: bool) -> None:
        """Apply or refuse a registration (R, T, D1, D7)."""
        address = request.broker_addr
        holder = self._tables.holder(request.broker_name, request.broker_id)
        refused = is_refused(holder, self._tables.live.first, request)
        if refused or is_move(self._tables, request):
            with self._journaled(_registration_event(request, at, "REFUSED" if refused else "MOVED")):
                end_lease(self._tables, address)
        if not refused:
            if lease_only:
                request = structs.replace(request, token=None)
            with self._journaled(_registration_event(request, at), accepted=request):
                register(self._tables, self.settings, request, at, reading_ms, lease_only=lease_only)
            self._signs_of_life.add(address)

    def _sign_of_life(self, request: BrokerHeartbeat, at: LogPosition, reading_ms: int) -> None:
        """Prolong a known lease; a heartbeat creates none (L2)."""
        lease = self._tables.live.first(request.broker_addr)
        if lease is None:
            return
        after = after_sign_of_life(lease, at.event_time, reading_ms, request.channel_id)
        if lease.suspect_since is not None:
            with self._journaled(AppliedEvent("BROKER_HEARTBEAT", at.event_time, at, broker_addr=lease.broker_addr)):
                self._tables.live.put(after)
        self._refresh(after)

    def _channel_closed(self, request: ChannelClosed, at: LogPosition, reading_ms: int) -> None:
        """Remove a connection; the lease ends with its last one (L6)."""
        lease = self._tables.live.first(request.broker_addr)
        if lease is None:
            return
        left = without_channel(lease, reading_ms, request.channel_id)
        if left is None:
            self.end(request.broker_addr, "CHANNEL_CLOSED", at.event_time, at)
        elif left is not lease:
            self._refresh(left)

    def expire(self, address: str, now_ms: int) -> None:
        """End the lease of a silent address at a tick (L3). Its line of history names no record."""
        self.end(address, "EXPIRED", now_ms)

    def end(self, address: str, end_type: str, event_time: int, record: LogPosition | None = None) -> None:
        """End the lease of an address because of a record or of silence. Do nothing if it has none (D4)."""
        with self._journaled(AppliedEvent(CAUSES[end_type], event_time, record, end_type, address)):
            end_lease(self._tables, address)
        self._signs_of_life.discard(address)

    def _command(self, command: Command, at: LogPosition) -> CommandReply:
        """Apply an operator's command (A, K). It makes a line of history even if it changes nothing."""
        cause = str(command.__struct_config__.tag)
        holder = None
        if isinstance(command, RetireBroker):
            holder = holder_of(command, self._tables.holder(command.broker_name, command.broker_id))
        event = AppliedEvent(
            cause, at.event_time, at, broker_addr=holder, requested_by=command.requested_by, command=command
        )
        with self._journaled(event):
            result = apply_command(self._tables, self.settings, command)
        self._follow_settings()
        return result

    def kv_values(self, namespace: str) -> dict[str, str]:
        """Return the KV values of a namespace by key."""
        return {row.key: row.value for row in self._tables.kv_config.of(namespace) if row.value is not None}

    def lease(self, broker_addr: str) -> LiveRow | None:
        """Return the present lease of an address, None if it has none."""
        return self._tables.live.first(broker_addr)

    @property
    def lease_count(self) -> int:
        """The number of addresses that have a lease."""
        return len(self._tables.live.groups())

    @property
    def late_at_ms(self) -> int | None:
        """The first append time at which a lease is late if its broker stays silent; None if there is no lease."""
        return self.clock.late_at_ms(self._tables.live)

    @property
    def late_addresses(self) -> set[str]:
        """The addresses whose lease is late, by the newest tick."""
        return late_addresses(self._tables.live, self.clock.reading_ms or 0)

    @property
    def suspect_count(self) -> int:
        """The number of addresses whose lease the guard against mass expiry holds."""
        return sum(lease.suspect_since is not None for lease in self._tables.live)

    def take_changes(self) -> RegistryChanges:
        """Return the changes since the last call and begin a new journal."""
        changes = RegistryChanges(net_of(self._tables.journal), self._events)
        self._tables.journal.clear()
        self._events = []
        return changes

    def take_signs_of_life(self) -> list[LiveRow]:
        """Return the leases refreshed since the last call, as they are now, without those that have ended."""
        leases = [self._tables.live.first(address) for address in sorted(self._signs_of_life)]
        self._signs_of_life.clear()
        return [lease for lease in leases if lease is not None]

    def has_changes(self) -> bool:
        """Return whether `take_changes` would return any change or line of history."""
        return bool(self._tables.journal or self._events)

    def has_signs_of_life(self) -> bool:
        """Return whether any lease was refreshed since the last call of `take_signs_of_life`."""
        return bool(self._signs_of_life)

    def view(self) -> RouteTables:
        """Return the tables as lookups see them."""
        return self._tables.view()

    def _refresh(self, lease: LiveRow) -> None:
        self._tables.live.refresh(lease)
        self._signs_of_life.add(lease.broker_addr)

    @property
    def _held_ms(self) -> int:
        """The longest time for which the guard holds a lease; 0 if the guard is off."""
        return self.settings.expiry_guard_max_millis if self.settings.expiry_guard_ratio else 0

    def _follow_settings(self) -> None:
        went = self._topics_go
        self.settings = self._settings_now()
        if self._topics_go and not went:
            forget_all(self._tables)

    def _settings_now(self) -> NamesrvSettings:
        return self._started_with.restored({row.key: row.value for row in self._tables.namesrv_config})

    @property
    def _topics_go(self) -> bool:
        """True if a registration removes the topics that it does not name (T5)."""
        return self.settings.delete_topic_with_broker_registration

    @contextmanager
    def _journaled(self, event: AppliedEvent, accepted: RegisterBroker | None = None) -> Iterator[None]:
        """Make the history of a step from its changes, then update the tokens. `accepted`: an accepted registration."""
        start = len(self._tables.journal)
        yield
        changes = self._tables.journal[start:]
        self._events += history_of(event, changes)
        follow_changes(self._tables, changes, but=accepted.broker_addr if accepted else None)
        if accepted is not None:
            note_token(self._tables, accepted, changes, topics_go=self._topics_go)


def _registration_event(request: RegisterBroker, at: LogPosition, end_type: str | None = None) -> AppliedEvent:
    return AppliedEvent(
        cause="REGISTER_BROKER",
        event_time=at.event_time,
        record=at,
        end_type=end_type,
        broker_addr=request.broker_addr,
        requested_by=request.requested_by,
        request=request,
    )
