"""Tokens: the registrations that a gateway need not send again, because the tables show all they say (rule E10).

The sender of a registration chooses a token that stands for exactly this registration. A lease has a token as long as
the registration, applied once more, would change nothing but the lease's last sign of life. When in doubt a token is
forgotten: that costs one full record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from namesrv_stream.rules.journal import RowChange
from namesrv_stream.rules.record_types import RegisterBroker
from namesrv_stream.rules.registry_state import RegistryTables
from namesrv_stream.rules.rows import BrokerRow

MAX_TOKENS = 64
"""Most tokens of a lease, each of a part of a split registration (B7). The oldest goes first."""

_OF_A_BROKER_NAME = frozenset({"broker", "topic", "topic_mapping"})


def follow_changes(tables: RegistryTables, changes: Sequence[RowChange], but: str | None = None) -> None:
    """Forget the tokens of all leases of the broker names whose rows were changed, `but` those of one address."""
    touched = [change for change in changes if change.table in _OF_A_BROKER_NAME]
    rows = [row for change in touched for row in (change.before, change.after) if row is not None]
    addresses = {row.broker_addr for row in rows if isinstance(row, BrokerRow)}
    for name in {getattr(row, "broker_name", "") for row in rows}:
        addresses |= {holder.broker_addr for holder in tables.holders(name).values()}
    _forget(tables, addresses - {but})


def forget_all(tables: RegistryTables) -> None:
    """Forget all tokens: a setting changes what each registration does (T5)."""
    _forget(tables, [lease.broker_addr for lease in tables.live])


def note_token(
    tables: RegistryTables, request: RegisterBroker, changes: Sequence[RowChange], *, topics_go: bool
) -> None:
    """Note the token of an accepted registration that made these changes.

    The former tokens stay if it only added topics, as a further part of a split registration does, or changed nothing.
    `topics_go`: T5 is on, so that no registration is a part.
    """
    lease = tables.live.first(request.broker_addr)
    if lease is None:
        return
    is_a_part = all(change.table == "topic" and change.before is None for change in changes)
    tokens = lease.tokens if is_a_part and not (changes and topics_go) else ()
    if request.token is not None and request.token not in tokens:
        tokens = (*tokens, request.token)[-MAX_TOKENS:]
    tables.live.put(lease._replace(tokens=tokens))


def _forget(tables: RegistryTables, addresses: Iterable[str]) -> None:
    for address in sorted(addresses):
        lease = tables.live.first(address)
        if lease is not None and lease.tokens:
            tables.live.put(lease._replace(tokens=()))
