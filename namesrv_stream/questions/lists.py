"""Lookups in one snapshot: topics, routes, clusters, brokers and their leases, KV values.

Each answer follows from the tables alone, so the same question about the same snapshot always gets the same answer.
Whether a broker is late is decided by the log's clock at the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, UnsetType

from namesrv_stream.errors import did_you_mean
from namesrv_stream.history.events import recorded_names
from namesrv_stream.questions.subject import BadQuestionError, Fields, Moment, Page, Seen, paged
from namesrv_stream.reporting.texts import natural_key
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lease import silence_ms
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.rules.topic_names import is_system_topic
from namesrv_stream.wire.bodies import TopicRouteData, topic_route_data

State = Literal["alive", "late", "suspect"]


class Chosen(NamedTuple):
    """A choice of brokers. An empty `zone` chooses brokers without one, None all zones."""

    cluster: str | None = None
    zone: str | None = None
    containing: str = ""

    def has(self, cluster: str, zone: str | None, *names: str) -> bool:
        """Return whether a broker is chosen. One of its `names` has to contain the text."""
        is_near = self.cluster in (None, cluster) and self.zone in (None, zone or "")
        return is_near and any(self.containing.lower() in name.lower() for name in names)


EVERY_BROKER = Chosen()


class Holder(Fields):
    """Holder of a broker id. `silentMillis`: time by the log's clock since its last sign of life.

    `late`: silent for more than half its lease. `suspect`: its lease is over, and the guard against mass expiry holds
    it. A holder that is taken from the events has no state, no sign of life and no data version.
    """

    broker_addr: str
    broker_id: int
    state: State | UnsetType
    silent_millis: int | UnsetType
    lease_began_at: str | None


class Broker(Holder):
    """A broker address with a lease. Another address may hold its id."""

    cluster_name: str
    broker_name: str
    holds_id: bool
    zone_name: str | None
    suspect_since: str | None
    heartbeat_timeout_millis: int
    last_update_timestamp: str | UnsetType | None
    ha_server_addr: str
    broker_version: str | None
    data_version: DataVersion | UnsetType
    filter_server_list: list[str]
    topics: int | UnsetType


class Brokers(Page):
    """A page of brokers, by address."""

    brokers: list[Broker]


class BrokerPage(Page):
    """The leases of a broker name or address, and a page of its topics."""

    broker_name: str
    brokers: list[Broker]
    topics: list[TopicOfBroker]


class TopicOfBroker(Fields):
    """A topic on one broker name."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int


class BrokerName(Fields):
    """A broker name and the holders of its ids."""

    broker_name: str
    zone_name: str | None
    topics: int
    holders: list[Holder]


class Cluster(Fields):
    """A cluster and its broker names."""

    name: str
    brokers: list[BrokerName]


class Clusters(Fields):
    """All clusters."""

    snapshot: Moment
    clusters: list[Cluster]


class Topic(Fields):
    """A topic, its queues over all broker names, and the number of these names."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    broker_names: int
    is_system: bool


class Topics(Page):
    """A page of topics, by name. `hidden`: how many more there are that brokers have made by themselves."""

    hidden: int
    topics: list[Topic]


class Route(Fields):
    """The route of a topic: RocketMQ's TopicRouteData, and the leases of its brokers."""

    snapshot: Moment
    topic: str
    route: TopicRouteData
    brokers: list[Broker]


def broker(seen: Seen, lease: LiveRow) -> Broker:
    """Return a lease as an answer shows it."""
    tables = seen.tables
    holder = tables.brokers.get(lease.broker_name, {}).get(lease.broker_id)
    holds_id = holder is not None and holder.broker_addr == lease.broker_addr
    more = {
        "holds_id": holds_id,
        "zone_name": holder.zone_name if holder and holds_id else None,
        "filter_server_list": list(tables.filters.get(lease.broker_addr, ())),
        "topics": tables.queues.topic_counts.get(lease.broker_name, 0),
    }
    return Broker.of(lease, **more | _heard(seen, lease))


def _heard(seen: Seen, lease: LiveRow) -> dict[str, Any]:
    """Return the fields that follow from a lease's signs of life. Times are unset where these are not known."""
    if seen.is_made:
        return {"state": state_of(seen, lease), "silent_millis": UNSET, "last_update_timestamp": UNSET}
    return {"state": state_of(seen, lease), "silent_millis": silence_ms(lease, seen.snapshot)}


def state_of(seen: Seen, lease: LiveRow) -> State:
    """Return the state of a lease. Nobody is late where signs of life are not known."""
    if lease.suspect_since is not None:
        return "suspect"
    if seen.is_made:
        return "alive"
    return "late" if silence_ms(lease, seen.snapshot) > lease.heartbeat_timeout_millis // 2 else "alive"


_ORDERS: dict[str, Callable[[Broker], Any]] = {
    "address": lambda _: 0,
    "name": lambda each: (natural_key(each.broker_name), each.broker_id),
    "cluster": lambda each: natural_key(each.cluster_name),
    "zone": lambda each: natural_key(each.zone_name or ""),
    "state": lambda each: ("suspect", "late", "alive").index(str(each.state)),
    "silent": lambda each: each.silent_millis,
    "since": lambda each: each.lease_began_at or "",
    "topics": lambda each: each.topics,
}
ORDERS = ", ".join(_ORDERS)


def brokers(  # noqa: PLR0913  # what a reader may choose
    seen: Seen,
    chosen: Chosen = EVERY_BROKER,
    state: State | None = None,
    order: str = "address",
    *,
    limit: int | None = None,
    after: str = "",
) -> Brokers:
    """Return a page of the chosen leases in an order; `-` before the order's name reverses it."""
    found = [
        each
        for each in (broker(seen, lease) for lease in seen.tables.live.values())
        if chosen.has(each.cluster_name, each.zone_name, each.broker_name, each.broker_addr)
        and state in (None, each.state)
    ]
    found.sort(key=lambda each: natural_key(each.broker_addr))
    found.sort(key=_order(order), reverse=order.startswith("-"))
    page, following = paged(found, lambda each: each.broker_addr, limit, after)
    return Brokers(seen.moment, len(found), following, page)


def _order(text: str) -> Callable[[Broker], Any]:
    name = text.removeprefix("-")
    if name not in _ORDERS:
        advice = did_you_mean(name, _ORDERS)
        raise BadQuestionError(f"sort={text[:100]}: {advice}accepted are {ORDERS}, with - the other way.")
    return _ORDERS[name]


def brokers_of(seen: Seen, names: Iterable[str]) -> list[Broker]:
    """Return the leases of broker names, by address."""
    wanted = frozenset(names)
    leases = [lease for lease in seen.tables.live.values() if lease.broker_name in wanted]
    return [broker(seen, lease) for lease in sorted(leases, key=lambda each: natural_key(each.broker_addr))]


def broker_page(seen: Seen, name: str, *, limit: int | None = None, after: str = "") -> BrokerPage:
    """Return the leases of a broker name or address, and its topics. A broker that is gone has neither."""
    lease, queues = seen.tables.live.get(name), seen.tables.queues
    broker_name = lease.broker_name if lease else name
    shown = [each for each in brokers_of(seen, [broker_name]) if lease is None or each.broker_addr == name]
    if not shown and broker_name not in seen.tables.brokers:
        check_known(seen, name)
    topics = queues.topics_on({broker_name})
    page, following = _names_behind(topics, after, limit)
    of_broker = [TopicOfBroker.of(row) for topic in page for row in queues[topic] if row.broker_name == broker_name]
    return BrokerPage(seen.moment, len(topics), following, broker_name, shown, of_broker)


def _names_behind(names: Sequence[str], after: str, limit: int | None) -> tuple[list[str], str | None]:
    """Return the names after `after`, which may be gone, and the last one if more follow. `names` are in order."""
    page = [name for name in names if name > after][:limit]
    return page, page[-1] if page and page[-1] != names[-1] else None


def check_known(seen: Seen, name: str) -> None:
    """Raise NotFoundError if the history has no such broker name or address."""
    if name not in (ever := recorded_names(seen.root, seen.snapshot)):
        raise seen.not_found("broker", name, ever)


def clusters(seen: Seen) -> Clusters:
    """Return the clusters, their broker names, and the holder of each id."""
    found = [
        Cluster(cluster, [_broker_name(seen, cluster, name) for name in sorted(names, key=natural_key)])
        for cluster, names in sorted(seen.tables.clusters.items())
    ]
    return Clusters(seen.moment, found)


def _broker_name(seen: Seen, cluster: str, name: str) -> BrokerName:
    tables = seen.tables
    rows = [row for _, row in sorted(tables.brokers[name].items())]
    leases = [tables.live[row.broker_addr] for row in rows if row.cluster_name == cluster]
    holders = [Holder.of(lease, **_heard(seen, lease)) for lease in leases]
    return BrokerName(name, lookup.latest_registered(rows).zone_name, tables.queues.topic_counts.get(name, 0), holders)


def system_topics(seen: Seen) -> frozenset[str]:
    """Return the topics that brokers have made by themselves."""
    of_brokers = seen.tables.brokers.keys() | seen.tables.clusters.keys()
    return frozenset(topic for topic in seen.tables.queues if is_system_topic(topic, of_brokers))


def topics(  # noqa: PLR0913  # what a reader may choose
    seen: Seen,
    cluster: str | None = None,
    *,
    containing: str = "",
    with_system: bool = True,
    limit: int | None = None,
    after: str = "",
) -> Topics:
    """Return topics in order of their names, with their queues over all brokers, or over those of a cluster."""
    tables, system = seen.tables, system_topics(seen)
    if cluster is not None and cluster not in tables.clusters:
        raise seen.not_found("cluster", cluster, tables.clusters)
    found = list(tables.queues) if cluster is None else sorted(lookup.topics_by_cluster(tables, cluster))
    named = [topic for topic in found if containing.lower() in topic.lower()] if containing else found
    names = named if with_system else [topic for topic in named if topic not in system]
    page, following = _names_behind(names, after, limit)
    of_cluster = None if cluster is None else frozenset(tables.clusters[cluster])
    shown = [_topic(seen, topic, of_cluster, topic in system) for topic in page]
    return Topics(seen.moment, len(names), following, len(named) - len(names), shown)


def _topic(seen: Seen, topic: str, broker_names: frozenset[str] | None, is_system: bool) -> Topic:
    rows = [row for row in seen.tables.queues[topic] if broker_names is None or row.broker_name in broker_names]
    read, write = sum(row.read_queue_nums for row in rows), sum(row.write_queue_nums for row in rows)
    return Topic(topic, read, write, len(rows), is_system)


def route(seen: Seen, topic: str, zone: str | None = None) -> Route:
    """Return the route of a topic as clients get it, those of a zone if one is given."""
    found = lookup.route(seen.tables, topic, seen.settings, zone)
    if found is None:
        raise seen.not_found("topic", topic, seen.tables.queues)
    leases = brokers_of(seen, (row.broker_name for row in seen.tables.queues[topic]))
    return Route(seen.moment, topic, topic_route_data(found), leases)


def kv_values(seen: Seen, namespace: str) -> dict[str, str]:
    """Return the values of a namespace, which may be empty, by key. Raises NotFoundError if it was never made (K4)."""
    if namespace not in seen.tables.kv:
        raise seen.not_found("namespace", namespace, seen.tables.kv)
    return dict(sorted(seen.tables.kv[namespace].items()))


def kv_value(seen: Seen, namespace: str, key: str) -> str:
    """Return one value of the KV table."""
    values = kv_values(seen, namespace)
    if key not in values:
        raise seen.not_found(f"key in namespace {namespace}", key, values)
    return values[key]
