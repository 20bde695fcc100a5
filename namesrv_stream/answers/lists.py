"""Lookups in one snapshot: topics, routes, clusters, brokers and their leases, KV values.

Each answer follows from the tables alone, so the same question about the same snapshot always gets the same answer.
Whether a broker is late is decided by the log's clock at the snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from namesrv_stream.answers.absences import Absence
from namesrv_stream.answers.causes import State, causes_with_members
from namesrv_stream.answers.definitions import (
    DownBroker,
    down_brokers,
    left_brokers,
    lost_topics,
    planned_brokers,
    wipes,
)
from namesrv_stream.answers.events import recorded_names
from namesrv_stream.answers.model import AnswerModel, BadQuestionError, Moment, Page, fact, not_found, paged, rank_of
from namesrv_stream.answers.questions import BROKER_ORDERS, GONE, AskBrokers
from namesrv_stream.answers.verdict import check_place, members, state_of, system_topics
from namesrv_stream.errors import did_you_mean
from namesrv_stream.reporting.texts import Time, broker_text, natural_key
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lease import silence_ms
from namesrv_stream.rules.record_types import MASTER_ID, DataVersion
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.tables.moment import RegistryAt

_NEVER_MS = 2**43
"""A time that no clock shows yet, for brokers whose last sign of life is not known."""


class Down(AnswerModel):
    """Since when a broker is down: its last sign of life, and the end of its lease, from which on clients lacked it."""

    last_heard_at: Time
    gone_at: Time
    ended_by: str


class Holder(AnswerModel, kw_only=True):
    """Holder of a broker id. `silentMillis`: time by the log's clock since its last sign of life.

    `late`: silent for over three quarters of its lease. `suspect`: its lease is over, and the guard against mass expiry
    holds it. `down`: nobody holds the id, and the broker is expected; `brokerAddr` is its last address. `planned`: it
    is in planned absence; `absence` is the one that held as its lease ended. A holder that is taken from the events has
    no state, no sign of life and no data version.
    """

    broker_addr: str
    broker_id: int
    zone_name: str | None
    state: State | UnsetType = UNSET
    silent_millis: int | UnsetType | None = None
    lease_began_at: Time | None = None
    down: Down | UnsetType = UNSET
    absence: Absence | UnsetType = UNSET


class Broker(Holder, kw_only=True):
    """A broker address with a lease, where another address may hold its id; or a broker that is down.

    `topics`: number of topics of its broker group, without system topics. One that is down has those too that its group
    lost.
    """

    cluster_name: str
    broker_name: str
    holds_id: bool
    suspect_since: Time | None = None
    heartbeat_timeout_millis: int | None = None
    last_update_timestamp: Time | UnsetType | None = None
    ha_server_addr: str = ""
    broker_version: str | None = None
    data_version: DataVersion | UnsetType = UNSET
    filter_server_list: tuple[str, ...] = ()
    topics: int | UnsetType = 0
    wiped: Wiped | UnsetType = UNSET


class Brokers(Page):
    """A page of brokers, by address."""

    brokers: list[Broker]


class Wiped(AnswerModel):
    """Since when a broker group takes no writes, and who wiped the permission."""

    since: Time
    requested_by: str | None


class BrokerName(AnswerModel):
    """A broker name with the zone of its latest registration, and the holders of its ids, each with its own zone.

    `topics`: number of those that it has, without system topics. `wiped` is there if it takes no writes because of an
    operator.
    """

    broker_name: str
    zone_name: str | None
    topics: int
    holders: list[Holder]
    wiped: Wiped | UnsetType = UNSET


class Cluster(AnswerModel):
    """A cluster and its broker names."""

    name: str
    brokers: list[BrokerName]


class Clusters(AnswerModel):
    """All clusters."""

    snapshot: Moment
    clusters: list[Cluster]


def broker(registry: RegistryAt, lease: LiveRow) -> Broker:
    """Return a lease as an answer shows it."""
    holder = registry.brokers.get(lease.broker_name, {}).get(lease.broker_id)
    holds_id = holder is not None and holder.broker_addr == lease.broker_addr
    more = {
        "holds_id": holds_id,
        "zone_name": holder.zone_name if holder and holds_id else None,
        "filter_server_list": registry.filters.get(lease.broker_addr, ()),
        "topics": _topic_counts(registry).of[lease.broker_name],
        "wiped": _wiped(registry, lease.broker_name) if lease.broker_id == MASTER_ID else UNSET,
    }
    return Broker.of(lease, **more | _heard(registry, lease))


class _CountsByGroup(NamedTuple):
    """Broker name -> its number of topics, and of those that it lost; both without system topics."""

    of: Counter[str]
    lost: Counter[str]


@fact
def _topic_counts(registry: RegistryAt) -> _CountsByGroup:
    lost, queues = lost_topics(registry), registry.queues
    system = system_topics(registry, lost)
    of = Counter(queues.topic_counts)
    of.subtract(queues.counts_of(system))
    return _CountsByGroup(of, Counter(name for topic, names in lost.items() if topic not in system for name in names))


def _wiped(registry: RegistryAt, broker_name: str) -> Wiped | UnsetType:
    queues = registry.queues
    is_mute = broker_name in queues.topic_counts and broker_name not in queues.writable_names
    line = wipes(registry).get(broker_name) if is_mute else None
    return UNSET if line is None else Wiped(Time(line.event_time), line.requested_by)


def _heard(registry: RegistryAt, lease: LiveRow) -> dict[str, Any]:
    """Return the fields that follow from a lease's signs of life. Times are unset where these are not known."""
    if registry.is_historical:
        return {"state": state_of(registry, lease), "silent_millis": UNSET, "last_update_timestamp": UNSET}
    return {"state": state_of(registry, lease), "silent_millis": silence_ms(lease, registry.snapshot)}


def down_broker(registry: RegistryAt, each: DownBroker) -> Broker:
    """Return a broker that is down as an answer shows it."""
    topics = sum(counts[each.broker_name] for counts in _topic_counts(registry))
    return Broker.of(each, state="down", holds_id=False, down=_down(each), topics=topics)


def left_broker(each: DownBroker) -> Broker:
    """Return a broker that unregistered and is not back as an answer shows it."""
    return Broker.of(each, state="left", holds_id=False, down=_down(each))


def planned_broker(registry: RegistryAt, each: DownBroker) -> Broker:
    """Return a broker that is in planned absence as an answer shows it."""
    topics = _topic_counts(registry).of[each.broker_name]
    return Broker.of(each, state="planned", holds_id=False, down=_down(each), absence=_absence(each), topics=topics)


def _absence(each: DownBroker) -> Absence | UnsetType:
    return each.absence or UNSET


def _down(each: DownBroker) -> Down:
    return Down(Time(each.last_heard_ms), Time(each.gone_ms), each.ended_by)


_ORDERS: dict[str, Callable[[Broker], Any]] = {
    "address": lambda each: natural_key(each.broker_addr),
    "name": lambda each: (natural_key(each.broker_name), each.broker_id),
    "cluster": lambda each: (natural_key(each.cluster_name), natural_key(each.broker_name), each.broker_id),
    "zone": lambda each: natural_key(each.zone_name or ""),
    "state": lambda each: ("down", "suspect", "late", "planned", "alive", "left").index(str(each.state)),
    "silent": lambda each: (
        -int(each.last_update_timestamp or _NEVER_MS)
    ),  # by the time, since a silence grows from page to page
    "since": lambda each: int(each.lease_began_at or 0),
    "topics": lambda each: each.topics,
}


def brokers(registry: RegistryAt, asked: AskBrokers) -> Brokers:
    """Return a page of the wanted brokers in an order, also of those that are down; `-` before its name reverses it.

    Those that unregistered within 7 days and are not back are there for the state `left` alone.
    """
    check_place(registry, asked.cluster, asked.zone)
    if asked.state in GONE:
        every = [left_broker(each) for each in left_brokers(registry)]
    else:
        every = [broker(registry, lease) for lease in registry.live.values()]
        every += [down_broker(registry, each) for each in down_brokers(registry)]
        every += [planned_broker(registry, each) for each in planned_brokers(registry)]
    if asked.cause is not None:
        chosen = _members_of(registry, asked.cause)
        every = [each for each in every if each.holds_id != bool(each.down) and _broker_id(each) in chosen]
    found = [
        each
        for each in every
        if asked.chooses(each.cluster_name, each.zone_name, _named(each), each.broker_addr)
        and (asked.state in (None, each.state, *GONE, "up" if not each.down else None))
    ]
    if asked.sort.removeprefix("-") == "match":
        by = lambda each: rank_of(asked.q, each.broker_name, _named(each), each.broker_addr)  # noqa: E731
    else:
        by = _order(asked.sort)
    page, following = paged(found, by, _place, asked.limit, asked.after, reverse=asked.sort.startswith("-"))
    return Brokers(Moment.of(registry.snapshot), len(found), following, page)


def _members_of(registry: RegistryAt, cause: str) -> set[tuple[str, str, int, bool]]:
    """Return the brokers of a cause by their `_broker_id`. Raises NotFoundError if it is no cause at the moment."""
    found = {each.id: of for each, of in causes_with_members(members(registry, down_brokers(registry)))}
    if cause not in found:
        raise not_found(registry, "cause", cause, found)
    return {(each.cluster, each.name, each.broker_id, each.down is not None) for each in found[cause]}


def _broker_id(each: Broker) -> tuple[str, str, int, bool]:
    return each.cluster_name, each.broker_name, each.broker_id, bool(each.down)


def _named(each: Broker) -> str:
    """Return a broker as sentences and the page name it."""
    return broker_text(each.broker_name, each.broker_id)


def _place(each: Broker) -> tuple[Any, ...]:
    """Return the place of a broker by address, which may be down as one broker and up as another."""
    return natural_key(each.broker_addr), each.cluster_name, each.broker_name, each.broker_id, bool(each.down)


def _order(text: str) -> Callable[[Broker], Any]:
    name = text.removeprefix("-")
    if name not in _ORDERS:
        advice = did_you_mean(name, _ORDERS)
        raise BadQuestionError(f"sort={text[:100]}: {advice}use {', '.join(BROKER_ORDERS)}, with - in reverse order.")
    return _ORDERS[name]


def brokers_of(registry: RegistryAt, names: Iterable[str]) -> list[Broker]:
    """Return the brokers of broker names, by address, those that are down last."""
    wanted = frozenset(names)
    leases = [lease for lease in registry.live.values() if lease.broker_name in wanted]
    alive = [broker(registry, lease) for lease in sorted(leases, key=lambda each: natural_key(each.broker_addr))]
    alive += [down_broker(registry, each) for each in down_brokers(registry) if each.broker_name in wanted]
    return alive + [planned_broker(registry, each) for each in planned_brokers(registry) if each.broker_name in wanted]


def check_known(registry: RegistryAt, name: str) -> None:
    """Raise NotFoundError if the history has no such broker name or address."""
    if name not in (ever := recorded_names(registry)):
        raise not_found(registry, "broker", name, ever)


def clusters(registry: RegistryAt) -> Clusters:
    """Return the clusters, their broker names, and the holder of each id, also of those that are down."""
    names = {cluster: {*names} for cluster, names in registry.clusters.items()}
    down: dict[tuple[str, str], list[DownBroker]] = {}
    for each in (*down_brokers(registry), *planned_brokers(registry)):
        names.setdefault(each.cluster_name, set()).add(each.broker_name)
        down.setdefault(each[:2], []).append(each)
    found = [
        Cluster(cluster, [_broker_name(registry, cluster, name, down) for name in sorted(of_cluster, key=natural_key)])
        for cluster, of_cluster in sorted(names.items())
    ]
    return Clusters(Moment.of(registry.snapshot), found)


def _broker_name(
    registry: RegistryAt, cluster: str, name: str, down: Mapping[tuple[str, str], Sequence[DownBroker]]
) -> BrokerName:
    fallen = down.get((cluster, name), ())
    rows = [row for _, row in sorted(registry.brokers.get(name, {}).items())]
    leases = [(registry.live[row.broker_addr], row.zone_name) for row in rows if row.cluster_name == cluster]
    holders = [Holder.of(lease, zone_name=zone, **_heard(registry, lease)) for lease, zone in leases]
    states: dict[bool, State] = {True: "planned", False: "down"}
    holders += [
        Holder.of(each, state=states[each.is_planned_at(registry.now_ms)], down=_down(each), absence=_absence(each))
        for each in fallen
    ]
    zone = lookup.latest_registered(rows).zone_name if rows else fallen[0].zone_name
    by_id = sorted(holders, key=lambda each: each.broker_id)
    return BrokerName(name, zone, _topic_counts(registry).of[name], by_id, _wiped(registry, name))


def kv_values(registry: RegistryAt, namespace: str) -> dict[str, str]:
    """Return the values of a namespace, which may be empty, by key. Raises NotFoundError if it was never made (K4)."""
    if namespace not in registry.kv:
        raise not_found(registry, "KV namespace", namespace, registry.kv)
    return dict(sorted(registry.kv[namespace].items()))


def kv_value(registry: RegistryAt, namespace: str, key: str) -> str:
    """Return one value of the KV table."""
    values = kv_values(registry, namespace)
    if key not in values:
        raise not_found(registry, "KV value", f"{namespace}/{key}", [f"{namespace}/{each}" for each in values])
    return values[key]
