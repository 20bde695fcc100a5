"""`topicRoute`, `topicList`, `clusterList`, `brokerList`: lookups of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec
from rich.console import Group, RenderableType

from namesrv_stream.cli.output import counted, duration_text, heading, iso_text, perm_text, table
from namesrv_stream.cli.view import BROKERS_ALONE, Answer, NotFoundError, Served, View, show, view_options
from namesrv_stream.config import Invocation
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lease import silence_ms
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire import bodies
from namesrv_stream.wire.json_text import encode_json


@click.command("topicRoute")
@click.option("-t", "--topic", required=True)
@click.option("--zone", metavar="NAME", help="Show the route that a client in this zone gets in zone mode.")
@view_options()
@click.pass_obj
def topic_route(invocation: Invocation, topic: str, zone: str | None, view: View) -> None:
    """Show the route of a topic: its queues on each broker name, and the addresses of these brokers.

    --json prints RocketMQ's TopicRouteData.
    """
    show(invocation, view, lambda served: _route(served, topic, zone))


def _route(served: Served, topic: str, zone: str | None) -> Answer:
    found = lookup.route(served.tables, topic, served.settings, zone)
    if found is None:
        raise NotFoundError("topic", topic, served.tables.queues, served.snapshot.epoch)
    return Answer(bodies.encode_body(bodies.topic_route_data(found)), lambda plain: _route_shown(served, found, plain))


def _route_shown(served: Served, found: lookup.TopicRoute, plain: bool) -> RenderableType:
    columns = ["cluster:", "broker:", "#read:", "#write:", "perm:", "#id", "address", "zone?", "filter servers+?"]
    parts: list[RenderableType] = [served.heading(found.topic), table(columns, _route_rows(found), plain=plain)]
    if found.order_topic_conf is not None:
        parts.append(heading("order", found.order_topic_conf))
    for broker_name, mapping in (found.topic_queue_mappings or {}).items():
        parts.append(heading(f"static mapping of {broker_name}", mapping))
    return Group(*parts)


def _route_rows(found: lookup.TopicRoute) -> Iterator[list[object]]:
    groups = {group.broker_name: group for group in found.broker_datas}
    for queue in found.queue_datas:
        group = groups.get(queue.broker_name)
        for broker_id, address in (group.broker_addrs if group else {}).items():
            filters = ", ".join(found.filter_server_table.get(address, ()))
            start = [group and group.cluster, queue.broker_name, queue.read_queue_nums, queue.write_queue_nums]
            yield [*start, perm_text(queue.perm), broker_id, address, group and group.zone_name, filters]


@click.command("topicList")
@click.option("-c", "--cluster", help="List only topics on brokers of this cluster.")
@view_options()
@click.pass_obj
def topic_list(invocation: Invocation, cluster: str | None, view: View) -> None:
    """List all topics with their numbers of queues over all brokers. --json prints RocketMQ's TopicList."""
    show(invocation, view, lambda served: _topics(served, cluster))


def _topics(served: Served, cluster: str | None) -> Answer:
    tables = served.tables
    if cluster is not None and cluster not in tables.clusters:
        raise NotFoundError("cluster", cluster, tables.clusters, served.snapshot.epoch)
    topics = sorted(lookup.topic_list(tables) if cluster is None else lookup.topics_by_cluster(tables, cluster))
    return Answer(
        bodies.encode_body(bodies.TopicList(topics)), lambda plain: _topics_shown(served, cluster, topics, plain)
    )


def _topics_shown(served: Served, cluster: str | None, topics: list[str], plain: bool) -> RenderableType:
    names = None if cluster is None else set(served.tables.clusters[cluster])
    rows = []
    for topic in topics:
        queues = [row for row in served.tables.queues[topic] if names is None or row.broker_name in names]
        read, write = sum(row.read_queue_nums for row in queues), sum(row.write_queue_nums for row in queues)
        rows.append([topic, read, write, ", ".join(row.broker_name for row in queues)])
    title = counted(len(topics), "topic") + (f" of {cluster}" if cluster else "")
    return Group(served.heading(title), table(["topic", "#read", "#write", "brokers+"], rows, plain=plain))


@click.command("clusterList")
@view_options()
@click.pass_obj
def cluster_list(invocation: Invocation, view: View) -> None:
    """List clusters, their broker names, and the holder of each id. --json prints RocketMQ's ClusterInfo."""
    show(invocation, view, _clusters, remembers=BROKERS_ALONE)


def _clusters(served: Served) -> Answer:
    info = lookup.cluster_info(served.tables)
    return Answer(bodies.encode_body(bodies.cluster_info(info)), lambda plain: _clusters_shown(served, info, plain))


def _clusters_shown(served: Served, info: lookup.ClusterInfo, plain: bool) -> RenderableType:
    topic_counts = served.tables.queues.topic_counts
    rows = [
        [
            cluster,
            name,
            None if served.remembered else topic_counts.get(name, 0),
            broker_id,
            address,
            _heard(served, address),
        ]
        for cluster, names in sorted(info.clusters.items())
        for name in sorted(names)
        for broker_id, address in info.brokers[name].broker_addrs.items()
        if served.tables.brokers[name][broker_id].cluster_name == cluster
    ]
    title = f"{counted(len(info.clusters), 'cluster')}, {counted(len(info.brokers), 'broker name')}"
    topics = "#topics:?" if served.remembered else "#topics:"
    columns = ["cluster:", "broker:", topics, "#id", "address", "heard?"]
    return Group(served.heading(title), table(columns, rows, plain=plain))


def _heard(served: Served, address: str) -> str:
    lease = None if served.remembered else served.tables.live.get(address)
    if lease is None:
        return ""
    suspicion = "" if lease.suspect_since is None else ", suspect"
    return f"{duration_text(silence_ms(lease, served.snapshot))} ago{suspicion}"


@click.command("brokerList")
@view_options()
@click.pass_obj
def broker_list(invocation: Invocation, view: View) -> None:
    """List every broker address with a lease. An id in parentheses is held by another address."""
    show(invocation, view, _brokers, remembers=BROKERS_ALONE)


def _brokers(served: Served) -> Answer:
    leases = sorted(served.tables.live.values(), key=lambda row: (row.cluster_name, row.broker_name, row.broker_id))
    return Answer(
        encode_json([_lease_fields(served, lease) for lease in leases]),
        lambda plain: _leases_shown(served, leases, plain),
    )


def _holds_id(served: Served, lease: LiveRow) -> bool:
    holder = served.tables.brokers.get(lease.broker_name, {}).get(lease.broker_id)
    return holder is not None and holder.broker_addr == lease.broker_addr


def _lease_fields(served: Served, lease: LiveRow) -> dict[str, object]:
    fields = _all_lease_fields(served, lease)
    if lease.suspect_since is not None:
        fields["suspectSince"] = iso_text(lease.suspect_since)
    unknown = ("lastUpdateTimestamp", "dataVersion") if served.remembered else ()
    return {name: value for name, value in fields.items() if name not in unknown}


def _all_lease_fields(served: Served, lease: LiveRow) -> dict[str, object]:
    return {
        "brokerAddr": lease.broker_addr,
        "clusterName": lease.cluster_name,
        "brokerName": lease.broker_name,
        "brokerId": lease.broker_id,
        "holdsId": _holds_id(served, lease),
        "lastUpdateTimestamp": iso_text(lease.last_update_timestamp),
        "heartbeatTimeoutMillis": lease.heartbeat_timeout_millis,
        "dataVersion": lease.data_version,
        "haServerAddr": lease.ha_server_addr,
        "filterServerList": served.tables.filters.get(lease.broker_addr, ()),
    }


def _leases_shown(served: Served, leases: list[LiveRow], plain: bool) -> RenderableType:
    rows = [
        [
            lease.cluster_name,
            lease.broker_name,
            lease.broker_id if _holds_id(served, lease) else f"({lease.broker_id})",
            lease.broker_addr,
            _heard(served, lease.broker_addr),
            duration_text(lease.heartbeat_timeout_millis),
            "" if served.remembered else "/".join(map(str, msgspec.structs.astuple(lease.data_version))),
        ]
        for lease in leases
    ]
    columns = ["cluster:", "broker:", "#id", "address", "heard?", "lease", "version?"]
    return Group(served.heading(counted(len(leases), "live address")), table(columns, rows, plain=plain))
