"""The commands for lookups in one snapshot, of routes, topics, clusters, brokers, KV and settings; and `status`."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec
from deltalake.exceptions import DeltaError
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from namesrv_stream.cli.output import Rows, heading, print_answer, say, time_text
from namesrv_stream.cli.view import Answer, Looked, View, reads, root_of, show, view_options
from namesrv_stream.config import Invocation, NamesrvSettings, to_properties_text
from namesrv_stream.errors import NamesrvError, masked
from namesrv_stream.questions import lists, topics
from namesrv_stream.questions.job_status import NOT_ASKED, FromKafka, Status, facts_from_kafka
from namesrv_stream.questions.job_status import status as job_status
from namesrv_stream.questions.overview import verdict_of
from namesrv_stream.reporting.texts import counted, duration_text, perm_text
from namesrv_stream.rules import lookup
from namesrv_stream.wire import bodies
from namesrv_stream.wire.json_text import encode_json


@reads("topicRoute")
@click.option("-t", "--topic", required=True)
@click.option("--zone", metavar="NAME", help="Show the route that a client in this zone gets in zone mode.")
def topic_route(looked: Looked, topic: str, zone: str | None) -> Answer:
    """Show the route of a topic: its queues on each broker name, and the addresses of these brokers.

    --json prints RocketMQ's TopicRouteData.
    """
    found = topics.route(looked.seen, topic, zone)
    if found.route is None:
        raise NamesrvError(f"{found.text} `namesrv-stream why {topic}` shows since when.")
    wrong = [] if found.state in ("writable", "read_only") else [Text(found.text, "yellow")]
    return Answer(found.route, Group(looked.heading(topic), *wrong, *_route_shown(found.route)))


def _route_shown(route: bodies.TopicRouteData) -> Iterator[RenderableType]:
    columns = ["cluster:", "broker:", "#read:", "#write:", "perm:", "#id", "address", "zone?", "filter servers+?"]
    yield Rows(columns, _route_rows(route))
    if route.order_topic_conf is not None:
        yield heading("order", route.order_topic_conf)
    for broker_name, mapping in (route.topic_queue_mapping_by_broker or {}).items():
        yield heading(f"static mapping of {broker_name}", encode_json(mapping).decode())


def _route_rows(route: bodies.TopicRouteData) -> Iterator[list[object]]:
    groups = {group.broker_name: group for group in route.broker_datas}
    for queue in route.queue_datas:
        group = groups.get(queue.broker_name)
        for broker_id, address in (group.broker_addrs if group else {}).items():
            filters = ", ".join(route.filter_server_table.get(address, ()))
            start = [group and group.cluster, queue.broker_name, queue.read_queue_nums, queue.write_queue_nums]
            yield [*start, perm_text(queue.perm), broker_id, address, group and group.zone_name, filters]


@reads("topicList")
@click.option("-c", "--cluster", help="List only topics on brokers of this cluster.")
def topic_list(looked: Looked, cluster: str | None) -> Answer:
    """List all topics with their states and numbers of queues over all brokers. --json prints RocketMQ's TopicList."""
    found = topics.topics(looked.seen, cluster).topics
    routed = [each.topic for each in found if each.state != "without_route"]
    title = looked.heading(counted(len(found), "topic") + (f" of {cluster}" if cluster else ""))
    shown = Group(title, Rows(["topic", "#read", "#write", "state", "brokers+"], _topic_rows(looked, cluster, found)))
    return Answer(bodies.TopicList(routed), shown)


def _topic_rows(looked: Looked, cluster: str | None, found: list[topics.Topic]) -> Iterator[list[object]]:
    tables = looked.seen.tables
    of_cluster = None if cluster is None else set(tables.clusters[cluster])
    for each in found:
        names = (row.broker_name for row in tables.queues.get(each.topic, ()))
        shown = ", ".join(name for name in names if of_cluster is None or name in of_cluster)
        yield [each.topic, each.read_queue_nums, each.write_queue_nums, _state(each), shown]


def _state(each: topics.Topic) -> str:
    """Return the state of a topic, with the broker names that are up if it is degraded."""
    of = f", {each.broker_names_up} of {each.broker_names}" if each.state == "degraded" else ""
    return each.state.replace("_", " ") + of


@reads("clusterList")
def cluster_list(looked: Looked) -> Answer:
    """Show what is wrong, then the clusters, their broker names, and the holder of each id.

    --json prints RocketMQ's ClusterInfo.
    """
    info = bodies.cluster_info(lookup.cluster_info(looked.seen.tables))
    clusters = lists.clusters(looked.seen).clusters
    names = {name.broker_name for cluster in clusters for name in cluster.brokers}
    title = looked.heading(f"{counted(len(clusters), 'cluster')}, {counted(len(names), 'broker name')}")
    columns = ["cluster:", "broker:", "#topics:", "#id", "address", "heard?"]
    rows = (
        [
            cluster.name,
            name.broker_name,
            name.topics,
            holder.broker_id,
            holder.broker_addr,
            _heard(holder),
        ]
        for cluster in clusters
        for name in cluster.brokers
        for holder in name.holders
    )
    return Answer(info, Group(title, _verdict(looked), Rows(columns, rows)))


def _verdict(looked: Looked) -> Text:
    """Return the verdict about the moment as a line, in the colour of its level."""
    found = verdict_of(looked.seen)
    return Text(f"{found.text}.", {"ok": "green", "warning": "yellow", "critical": "bold red"}[found.level])


def _heard(holder: lists.Holder) -> str:
    if holder.down:
        return f"down, heard last {time_text(holder.down.last_heard_at)}, gone {time_text(holder.down.gone_at)}"
    if not isinstance(holder.silent_millis, int):
        return ""
    return f"{duration_text(holder.silent_millis)} ago{', suspect' if holder.state == 'suspect' else ''}"


@reads("brokerList")
def broker_list(looked: Looked) -> Answer:
    """List every broker address with a lease, and every broker that is down.

    An id in parentheses is held by another address, or by none.
    """
    found = lists.brokers(looked.seen).brokers
    found.sort(key=lambda each: (each.cluster_name, each.broker_name, each.broker_id))
    columns = ["cluster:", "broker:", "#id", "address", "heard?", "lease", "release?", "version?"]
    down = sum(bool(each.down) for each in found)
    title = looked.heading(counted(len(found) - down, "live address") + (f", {down:,} down" if down else ""))
    return Answer(found, Group(title, Rows(columns, map(_lease_row, found))))


def _lease_row(each: lists.Broker) -> list[object]:
    return [
        each.cluster_name,
        each.broker_name,
        each.broker_id if each.holds_id else f"({each.broker_id})",
        each.broker_addr,
        _heard(each),
        duration_text(each.heartbeat_timeout_millis) if each.heartbeat_timeout_millis else "",
        each.broker_version or "",
        "/".join(map(str, msgspec.structs.astuple(each.data_version))) if each.data_version else "",
    ]


@reads("getKvConfig")
@click.option("-s", "--namespace", required=True)
@click.option("-k", "--key", required=True)
def get_kv_config(looked: Looked, namespace: str, key: str) -> Answer:
    """Print one value of the KV table, alone on its line."""
    value = lists.kv_value(looked.seen, namespace, key)
    return Answer({"value": value}, Text(value))


@reads("listKvConfig")
@click.option("-s", "--namespace", required=True)
def list_kv_config(looked: Looked, namespace: str) -> Answer:
    """List all keys of a namespace. --json prints RocketMQ's KVTable."""
    values = lists.kv_values(looked.seen, namespace)
    title = looked.heading(f"{namespace}: {counted(len(values), 'key')}")
    return Answer(bodies.KVTable(values), Group(title, Rows(["key", "value+"], values.items())))


@reads("getNamesrvConfig")
def get_namesrv_config(looked: Looked) -> Answer:
    """Print all settings in force here, including those that UPDATE_NAMESRV_CONFIG changed for all processes."""
    settings = looked.seen.settings
    return Answer(settings.properties(), Text(to_properties_text(settings).rstrip("\n")))


_STATES = {
    "running": ("running", "green", 0),
    "catching up": ("catching up: {lag} of event time behind", "yellow", 3),
    "starting": ("starting since {since}", "yellow", 3),
    "stopped in order": ("stopped in order at {since}", "yellow", 4),
    "standby": ("standby: jobs wait, and none has been active since {since}", "yellow", 4),
    "waiting": ("waiting since {since}: the active job publishes nothing. Its log shows what it waits for", "red", 5),
    "no ticks": (
        "nothing has come from Kafka since {since}, no tick either: run a gateway, or set jobTicker=true",
        "yellow",
        5,
    ),
    "other log": ("reads a topic that is no longer there, or has ended by that: see Kafka below", "bold red", 1),
    "unknown": ("unknown: nothing was published since {since}, and Kafka does not answer", "red", 1),
    "dead": ("dead since {since}: nothing has been published. Start it again, and see its log", "bold red", 1),
}
"""State of the job -> its text on the screen, the colour, and the exit status."""


@click.command("status")
@click.option("--no-kafka", is_flag=True, help="Do not ask Kafka how far behind the tables are, and which jobs wait.")
@view_options(as_of=False)
@click.pass_context
def status(context: click.Context, no_kafka: bool, view: View) -> None:
    """Show the state of the job, and the served snapshot with its age and lag.

    Ends with 0 if the job runs, 3 if it starts or catches up, 4 if no job is active on purpose, 5 if it waits, else
    with 1. With --json it always prints JSON.
    """
    invocation: Invocation = context.obj
    settings = invocation.settings
    states: list[str] = []
    try:
        show(invocation, view, lambda looked: _status_answer(looked, settings, states, asks_kafka=not no_kafka))
    except (NamesrvError, DeltaError, OSError) as error:
        if not view.as_json:
            raise
        root = masked(root_of(settings).url)
        print_answer({"root": root, "state": "unknown", "error": masked(str(error))}, "", as_json=True)
        context.exit(1)
    if states:
        context.exit(_STATES[states[-1]][2])


def _status_answer(looked: Looked, settings: NamesrvSettings, states: list[str], *, asks_kafka: bool) -> Answer:
    """Return the status, and add its state to `states`."""
    assert looked.health is not None, "a status is of the present"
    seen, health = looked.seen, looked.health
    kafka = facts_from_kafka(settings, seen, health.row) if asks_kafka else NOT_ASKED
    if kafka.notice:
        say(f"warning: {kafka.notice}")
    found = job_status(seen, health, kafka)
    states.append(found.state)
    return Answer(found, Group(heading("Registry", found.root), _status_shown(looked, found, kafka, settings)))


def _status_shown(looked: Looked, found: Status, kafka: FromKafka, settings: NamesrvSettings) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in _status_lines(looked, found, kafka, settings):
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    return grid


def _status_lines(
    looked: Looked, found: Status, kafka: FromKafka, settings: NamesrvSettings
) -> Iterator[tuple[str, str | Text]]:
    text, colour, _ = _STATES[found.state]
    yield "job", Text(text.format(since=time_text(found.since), lag=duration_text(found.lag_millis or 0)), colour)
    batch = "no batch yet" if found.batch_id is None else f"batch {found.batch_id}"
    yield "", f"run {found.run_id}, term {found.term}, {batch}"
    for job in kafka.jobs or ():
        yield "", f"{'active' if job.is_active else 'waits'}: run {job.run_id} on {job.host}"
    times = f"published {time_text(found.published_at)}, event time {time_text(found.event_time)}"
    yield "serves", f"epoch {found.epoch}, {times}"
    yield "clusters", Text(", ".join(sorted(looked.seen.tables.clusters)) or "none")
    yield "brokers", f"{counted(found.broker_names, 'name')}, {counted(found.live_addresses, 'live address')}"
    yield "topics", f"{found.topics:,}"
    if found.rejected_records:
        yield "rejected", Text(f"{found.rejected_records} records: `namesrv-stream rejected` lists them", "yellow")
    if found.changed_settings:
        yield "changed", Text(", ".join(f"{key}={value}" for key, value in sorted(found.changed_settings.items())))
    if kafka.problem is not None:
        yield "Kafka", Text(f"unknown: {kafka.problem}", "yellow")
    else:
        yield "Kafka", Text(f"{settings.kafka_bootstrap_servers}, topic {settings.kafka_topic}")
