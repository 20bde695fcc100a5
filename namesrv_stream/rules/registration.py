"""Apply REGISTER_BROKER and answer it (rules R2-R13, T1-T7, D1, D6, D7), and keep the tokens of registrations (E10).

The sender of a registration chooses a token for exactly this registration. A lease keeps the token as long as applying
the registration once more would change only the lease's last sign of life. A gateway then need not send it again. In
doubt a token is forgotten, which costs one full record.

Which topics of a registration count (R1a) does not depend on who wrote its record, a gateway or another program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.lease import channels_after
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE, RouteTables, latest_registered
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE, DataVersion, RegisterBroker, TopicConfig
from namesrv_stream.rules.registry_tables import RegistryTables, drop_topic, follow_holders
from namesrv_stream.rules.rows import (
    BrokerRow,
    FilterRow,
    LiveRow,
    LogPosition,
    RowChange,
    TopicMappingRow,
    TopicRow,
    is_same_but_for_life,
)

MAX_TOPIC_CHARS = 1_024
"""Longest name of a topic: a retry topic is `%RETRY%` and a group of 255 characters, a POP retry topic has its topic's
name too."""

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

REGISTRATION_SCHEMA_HASH = blake2b(
    repr(
        (*(kind.__struct_fields__ for kind in (RegisterBroker, TopicConfig, DataVersion)),
         MAX_TOPIC_CHARS, _CONTROL_CHARACTERS.pattern)
    ).encode(),
    digest_size=4,
).hexdigest()  # fmt: skip
"""What is made of a registration: the fields of its record, and the rule of names. A release in which it is another one
makes other tokens (E10), so that all brokers send in full once more."""

T = TypeVar("T")

MAX_TOKENS = 64
"""Most tokens of a lease, one for each part of a split registration (B7). Beyond it the oldest is forgotten."""

_OF_A_BROKER_NAME = frozenset({"broker", "topic", "topic_mapping"})


def valid_topics(request: RegisterBroker) -> tuple[RegisterBroker, tuple[str, ...]]:
    """Return a registration with the topics that count, and the names of those that are left out."""
    table, mappings = request.topic_config_table, request.topic_queue_mapping_info_map
    if _are_usual(table) and _are_usual(mappings):
        return request, ()
    left_out = tuple(name for name in table if not is_topic_name(name))
    kept = {"topic_config_table": _of_topic_names(table), "topic_queue_mapping_info_map": _of_topic_names(mappings)}
    return msgspec.structs.replace(request, **kept), left_out


def is_topic_name(name: str) -> bool:
    """Return whether a client can ask for a topic of this name."""
    return 0 < len(name) <= MAX_TOPIC_CHARS and not has_control_characters(name)


def has_control_characters(name: str) -> bool:
    """Return whether a name has characters that move a terminal's cursor, or end a line."""
    return _CONTROL_CHARACTERS.search(name) is not None


def _are_usual(names: Mapping[str, object]) -> bool:
    """Return whether all names are certainly topic names. One check of all is quicker than a check of each."""
    return "" not in names and "".join(names).isprintable() and max(map(len, names), default=0) <= MAX_TOPIC_CHARS


def _of_topic_names(values: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in values.items() if is_topic_name(name)}


@dataclass(frozen=True, slots=True)
class RegisterReply:
    """The answer: master and HA address for a slave whose master is known (R12), and the order configuration (R13)."""

    master_addr: str | None = None
    ha_server_addr: str | None = None
    order_topic_config: Mapping[str, str] | None = None


def is_move(tables: RegistryTables, request: RegisterBroker) -> bool:
    """Return whether the address has a lease under another cluster or broker name (D1)."""
    lease = tables.live.first(request.broker_addr)
    return lease is not None and (lease.cluster_name, lease.broker_name) != (request.cluster_name, request.broker_name)


def is_refused(holder: BrokerRow | None, lease_of: Callable[[str], LiveRow | None], request: RegisterBroker) -> bool:
    """Return whether the `holder` of the id is another address whose lease has a higher stateVersion (R6)."""
    if holder is None or holder.broker_addr == request.broker_addr:
        return False
    lease = lease_of(holder.broker_addr)
    return lease is not None and lease.data_version.state_version > request.data_version.state_version


def register(  # noqa: PLR0913  # a registration, its place in the log, and the log's clock there
    tables: RegistryTables,
    settings: NamesrvSettings,
    request: RegisterBroker,
    at: LogPosition,
    reading_ms: int,
    *,
    lease_only: bool = False,
) -> None:
    """Apply an accepted registration, heard at a reading of the log's clock.

    If the registration is a move, the caller ends the former lease first (D1).

    With `lease_only` the topics stay as they are, and the lease gets a data version that no broker sends. So the next
    readable registration has its topics applied, whatever its version (T2). The state version counts (R6).
    """
    lease = tables.live.first(request.broker_addr)
    if lease_only:
        request = replace(request, data_version=DataVersion(request.data_version.state_version))
    first = tables.holder(request.broker_name, request.broker_id) is None  # R3, R8
    changed = first or lease is None or lease.data_version != request.data_version  # T2
    _take_id(tables, request, at)
    if not lease_only and _brings_topics(tables.holders(request.broker_name), request):
        _take_topics(tables, settings, request, changed)
    _take_lease(tables, request, at, reading_ms, lease)
    if not request.keep_filter_servers:
        _take_filter_servers(tables, request)


def reply(tables: RouteTables, settings: NamesrvSettings, request: RegisterBroker) -> RegisterReply:
    """Return the answer to a registration, whether the tables have it already or not (R6, R12, R13).

    R6 gives the same answer before and after. An accepted registration made its address the holder of the id; a refused
    one changed neither the holder nor the holder's lease.
    """
    order = order_topic_config(tables, settings)
    holders = tables.brokers.get(request.broker_name, {})
    master = holders.get(MASTER_ID)
    is_master = request.broker_id == MASTER_ID
    if is_master or master is None or is_refused(holders.get(request.broker_id), tables.live.get, request):
        return RegisterReply(order_topic_config=order)
    lease = tables.live.get(master.broker_addr)
    return RegisterReply(master.broker_addr, lease.ha_server_addr if lease else None, order)


def order_topic_config(tables: RouteTables, settings: NamesrvSettings) -> Mapping[str, str] | None:
    """Return the order configuration for the answer to every registration, None if there is none to send (R13)."""
    return tables.kv.get(ORDER_TOPIC_NAMESPACE) if settings.return_order_topic_config_to_broker else None


def _take_id(tables: RegistryTables, request: RegisterBroker, at: LogPosition) -> None:
    """Give this id to the address, whoever held it, and remove the address's other ids of this name (R5, R8)."""
    for row in tables.broker.of(request.broker_name):
        if row.broker_addr == request.broker_addr and row.broker_id != request.broker_id:
            tables.broker.drop(row)
    holders = tables.holders(request.broker_name)
    row = _broker_row(request, _after_all(holders.values(), at))
    if not _is_unchanged(holders, row):
        tables.broker.put(row)
    follow_holders(tables, request.broker_name)


def _broker_row(request: RegisterBroker, at: LogPosition) -> BrokerRow:
    return BrokerRow(
        broker_name=request.broker_name,
        broker_id=request.broker_id,
        broker_addr=request.broker_addr,
        cluster_name=request.cluster_name,
        zone_name=request.zone_name,
        enable_acting_master=request.enable_acting_master,
        registered_at=at,
    )


def _after_all(holders: Iterable[BrokerRow], at: LogPosition) -> LogPosition:
    """Return the position of a registration, moved up to those of the name's holders if a clock stepped back (E9)."""
    return at._replace(event_time=max((at.event_time, *(row.registered_at.event_time for row in holders))))


def _is_unchanged(holders: Mapping[int, BrokerRow], row: BrokerRow) -> bool:
    """Return whether the row changes only in `registered_at`, and D6 gives the same result either way.

    D6 gives the same result if the holder is the latest already, or if all holders have the same cluster, flag and
    zone. A stable cluster that registers again then changes no row.
    """
    before = holders.get(row.broker_id)
    if before is None or before._replace(registered_at=row.registered_at) != row:
        return False
    shown = {(each.cluster_name, each.zone_name, each.enable_acting_master) for each in holders.values()}
    return latest_registered(holders.values()) == before or len(shown) == 1


def _brings_topics(holders: Mapping[int, BrokerRow], request: RegisterBroker) -> bool:
    """Return whether the record's topics count (R9).

    They count from id 0, and from the smallest id if the record has the acting flag, true or false.
    """
    if request.broker_id == MASTER_ID:
        return True
    return request.enable_acting_master is not None and request.broker_id == min(holders)


def _take_topics(tables: RegistryTables, settings: NamesrvSettings, request: RegisterBroker, changed: bool) -> None:
    name = request.broker_name
    if settings.delete_topic_with_broker_registration and not request.topic_queue_mapping_info_map:
        for row in tables.topic.of(name):
            if row.topic not in request.topic_config_table:
                drop_topic(tables, row)  # T5
    wiped = _has_no_write(request)
    for topic, config in request.topic_config_table.items():
        row = _topic_row(topic, name, config, wiped)
        if changed or _differs(tables.topic.known(name, (topic, name)), row):  # T2
            tables.topic.put(row)
    if changed:
        for topic in request.topic_config_table.keys() - request.topic_queue_mapping_info_map.keys():
            tables.topic_mapping.drop(TopicMappingRow(topic, name, ""))  # D12
        for topic, info in request.topic_queue_mapping_info_map.items():  # T7
            broker_name = str(info.get("bname") or name)
            tables.topic_mapping.put(TopicMappingRow(topic, broker_name, msgspec.json.encode(info).decode()))


def _has_no_write(request: RegisterBroker) -> bool:
    """Return whether the topics lose their write bit (T6)."""
    return request.broker_id != MASTER_ID and bool(request.enable_acting_master)


def _differs(known: TopicRow | None, row: TopicRow) -> bool:
    """Return whether a topic is applied under an unchanged version.

    It is if it has no row (T3), or if its row differs in more than a cleared write bit (D10).
    """
    return known is None or known not in (row, row._replace(perm=row.perm & ~PERM_WRITE))


def _topic_row(topic: str, broker_name: str, config: TopicConfig, wiped: bool) -> TopicRow:
    perm = config.perm & ~PERM_WRITE if wiped else config.perm
    return TopicRow(topic, broker_name, config.read_queue_nums, config.write_queue_nums, perm, config.topic_sys_flag)


def _take_lease(
    tables: RegistryTables, request: RegisterBroker, at: LogPosition, reading_ms: int, before: LiveRow | None
) -> None:
    """Replace the whole lease (R10). If only its time and connection are new, record it as a mere sign of life."""
    row = LiveRow(
        broker_addr=request.broker_addr,
        cluster_name=request.cluster_name,
        broker_name=request.broker_name,
        broker_id=request.broker_id,
        last_update_timestamp=max(at.event_time, before.last_update_timestamp) if before else at.event_time,
        heartbeat_timeout_millis=request.timeout_ms,
        data_version=request.data_version,
        ha_server_addr=request.ha_server_addr,
        lease_began_at=before.lease_began_at if before else at.event_time,
        channels=channels_after(before.channels if before else {}, request.timeout_ms, reading_ms, request.channel_id),
        clock_millis=max(reading_ms, before.clock_millis or 0) if before else reading_ms,
        tokens=before.tokens if before else (),
        broker_version=request.broker_version,
    )
    if before is not None and is_same_but_for_life(before, row):
        tables.live.refresh(row)
    else:
        tables.live.put(row)


def _take_filter_servers(tables: RegistryTables, request: RegisterBroker) -> None:
    """Replace the filter servers; an empty list removes the row (R11)."""
    row = FilterRow(request.broker_addr, tuple(request.filter_server_list))
    if request.filter_server_list:
        tables.filter.put(row)
    else:
        tables.filter.drop(row)


def follow_changes(tables: RegistryTables, changes: Sequence[RowChange], but: str | None = None) -> None:
    """Forget the tokens of all leases of the broker names whose rows were changed, `but` those of one address."""
    touched = [change for change in changes if change.table in _OF_A_BROKER_NAME]
    rows = [row for change in touched for row in (change.before, change.after) if row is not None]
    addresses = {row.broker_addr for row in rows if isinstance(row, BrokerRow)}
    for name in {getattr(row, "broker_name", "") for row in rows}:
        addresses |= {holder.broker_addr for holder in tables.holders(name).values()}
    _forget(tables, addresses - {but})


def forget_all(tables: RegistryTables) -> None:
    """Forget all tokens, because a setting has changed what each registration does (T5)."""
    _forget(tables, [lease.broker_addr for lease in tables.live])


def note_token(
    tables: RegistryTables, request: RegisterBroker, changes: Sequence[RowChange], *, topics_go: bool
) -> None:
    """Note the token of an accepted registration that made these changes.

    The former tokens stay if the registration changed nothing or only added topics, as each further part of a split
    registration does. `topics_go`: T5 is on, so that a registration is never one part of several. A new token alone
    is published as a sign of life is: with the next change.
    """
    lease = tables.live.first(request.broker_addr)
    if lease is None:
        return
    is_a_part = all(change.table == "topic" and change.before is None for change in changes)
    tokens = lease.tokens if is_a_part and not (changes and topics_go) else ()
    if request.token is not None and request.token not in tokens:
        tokens = (*tokens, request.token)[-MAX_TOKENS:]
    tables.live.refresh(lease._replace(tokens=tokens))


def _forget(tables: RegistryTables, addresses: Iterable[str]) -> None:
    for address in sorted(addresses):
        lease = tables.live.first(address)
        if lease is not None and lease.tokens:
            tables.live.put(lease._replace(tokens=()))
