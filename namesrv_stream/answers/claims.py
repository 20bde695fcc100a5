"""Brokers whose configuration lies about who or where they are: two with one identity, or an address of no use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from namesrv_stream.answers.definitions import BrokerKey
from namesrv_stream.answers.events import Span, newest_of, newest_of_each
from namesrv_stream.answers.model import fact
from namesrv_stream.reporting.texts import broker_text, listed, natural_key
from namesrv_stream.rules.addresses import is_announced_in_vain, is_of_one_machine
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.root import quoted
from namesrv_stream.tables.schemas import BROKER_EVENT

LOSSES, WITHIN_MS = 3, 120_000
"""An identity is claimed in turn if addresses that are up lost it to one another so often within this time."""


class Claim(NamedTuple):
    """A broker as which several addresses register in turn, such as machines with a copied broker.conf."""

    broker: BrokerKey
    addresses: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentence, without a full stop."""
        return f"{broker_text(*self.broker[1:])} is claimed in turn by {listed(self.addresses)}"


class InVain(NamedTuple):
    """A broker that announces an address which other machines cannot use, although it connects from another one."""

    broker: BrokerKey
    address: str
    peer: str

    @property
    def text(self) -> str:
        """The sentence, without a full stop."""
        who = broker_text(*self.broker[1:])
        return f"{who} announces {self.address} and connects from {self.peer}: set brokerIP1"


@fact
def claims(registry: RegistryAt) -> list[Claim]:
    """Return the brokers that addresses claim in turn."""
    held: dict[tuple[str, int], list[str]] = {}
    for address, lease in registry.live.items():
        held.setdefault((lease.broker_name, lease.broker_id), []).append(address)
    several = {broker: addresses for broker, addresses in held.items() if len(addresses) > 1}
    if not several:
        return []
    names = ", ".join(sorted({quoted(name) for name, _ in several}))
    since_ms = registry.now_ms - WITHIN_MS
    lost = newest_of(registry, f"type = 'ID_LOST' AND broker_name IN ({names}) AND {Span(since_ms + 1).covers}", None)
    found = []
    for (name, broker_id), addresses in several.items():
        of_broker = [each for each in lost if (each.broker_name, each.broker_id) == (name, broker_id)]
        losers = {each.broker_addr for each in of_broker} & {*addresses}
        if len(of_broker) >= LOSSES and len(losers) > 1:
            key = (of_broker[-1].cluster_name or "", name, broker_id)
            found.append(Claim(key, tuple(sorted(addresses, key=natural_key))))
    return sorted(found)


@fact
def in_vain(registry: RegistryAt) -> list[InVain]:
    """Return the brokers that announce an address in vain. The gateway writes into the log from where they connect."""
    near = sorted(address for address in registry.live if is_of_one_machine(address))
    if not near:
        return []
    of_addresses = f"type = 'REGISTERED' AND broker_addr IN ({', '.join(map(quoted, near))})"
    read = partial(newest_of_each, registry, "broker_addr", of_addresses)
    peers = {line.broker_addr: line for line in registry.once("peers", read, BROKER_EVENT, key=of_addresses)}
    found = []
    for address in near:
        lease, line = registry.live[address], peers.get(address)
        is_its = line is not None and (line.broker_name, line.broker_id) == (lease.broker_name, lease.broker_id)
        peer = (line.requested_by or "").rpartition("@")[2] if line is not None and is_its else ""
        if peer and is_announced_in_vain(address, peer.rpartition(":")[0].strip("[]")):
            found.append(InVain((lease.cluster_name, lease.broker_name, lease.broker_id), address, peer))
    return sorted(found)


def config_warnings(registry: RegistryAt, broker_name: str | None = None) -> Iterator[str]:
    """Yield what is said about configurations that lie, of all brokers or of one broker group."""
    found: list[Claim | InVain] = [*claims(registry), *in_vain(registry)]
    yield from (each.text for each in found if broker_name in (None, each.broker[1]))
