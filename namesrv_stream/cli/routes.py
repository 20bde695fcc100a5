"""The commands for lookups in one snapshot, of routes, topics, clusters, brokers, KV and settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click
import msgspec
from msgspec import UNSET, UnsetType
from rich.console import Group, RenderableType
from rich.text import Text

from namesrv_stream.answers import lists, topics
from namesrv_stream.answers.definitions import down_brokers, left_brokers, planned_brokers
from namesrv_stream.answers.job_status import Health
from namesrv_stream.answers.model import NotFoundError
from namesrv_stream.answers.questions import GONE, AskBrokers, AskTopic, AskTopics
from namesrv_stream.answers.sentences import ENDED_BY
from namesrv_stream.answers.verdict import verdict_of
from namesrv_stream.cli.output import LEVELS, Rows, heading, time_text
from namesrv_stream.cli.view import Answer, heading_of, reads
from namesrv_stream.config import printed_settings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.texts import counted, duration_text, perm_text, role_text, shown_of
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import TopicRouteData
from namesrv_stream.rules.record_types import MASTER_ID
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.wire import bodies
from namesrv_stream.wire.json_text import encode_json

_SECOND_MS = 1_000


@reads("topicRoute", AskTopic)
@click.argument("name", metavar="[TOPIC]", required=False)
@click.option("-t", "--topic", help="The topic; also given as the argument.")
def topic_route(
    registry: RegistryAt, health: Health | None, question: AskTopic, name: str | None, topic: str | None
) -> Answer:
    """Show the route of a topic.

    Its queues on each broker group, and the brokers there. --json prints RocketMQ's TopicRouteData.
    """
    if name and topic and name != topic:
        raise click.UsageError("-t and TOPIC exclude each other. Give one of them.")
    topic = name or topic
    if not topic:
        raise click.UsageError("Give a topic: `topicRoute TOPIC`.")
    try:
        found = topics.route(registry.of_topic(topic), topic, question)
    except NotFoundError:
        found = topics.route(registry, topic, question)  # the error names the topics that there are
    if found.route is None:
        raise NamesrvError(f"{found.text} `namesrv-stream why {topic}` shows its history.")
    title = heading_of(topic, registry, health)
    wrong = [] if found.state == "writable" else [Text(found.text, "yellow")]
    return Answer(found.route, Group(title, *wrong, *_route_shown(found.route)))


def _route_shown(route: TopicRouteData) -> Iterator[RenderableType]:
    columns = [
        "cluster:",
        "broker group:",
        "#read queues:",
        "#write queues:",
        "permission:",
        "role",
        "address",
        "zone?",
    ]
    columns.append("filter servers+?")
    yield Rows(columns, _route_rows(route))
    if route.order_topic_conf is not None:
        yield heading("order", route.order_topic_conf)
    for broker_name, mapping in (route.topic_queue_mapping_by_broker or {}).items():
        yield heading(f"static mapping of {broker_name}", encode_json(mapping).decode())


def _route_rows(route: TopicRouteData) -> Iterator[list[object]]:
    groups = {group.broker_name: group for group in route.broker_datas}
    for queue in route.queue_datas:
        group = groups.get(queue.broker_name)
        for broker_id, address in (group.broker_addrs if group else {}).items():
            filters = ", ".join(route.filter_server_table.get(address, ()))
            start = [group and group.cluster, queue.broker_name, queue.read_queue_nums, queue.write_queue_nums]
            yield [*start, perm_text(queue.perm), role_text(broker_id), address, group and group.zone_name, filters]


@reads("topicList", AskTopics, without=["after"])
def topic_list(registry: RegistryAt, health: Health | None, question: AskTopics) -> Answer:
    """List topics with their states and queues.

    --json prints RocketMQ's TopicList.
    """
    page, cluster = topics.topics(registry, question), question.cluster
    found = page.topics
    routed = [each.topic for each in found if question.state is not None or each.state != "without_route"]
    count = shown_of(len(found), page.total, "topic", "first")
    title = heading_of(f"{count} in {cluster}" if cluster else count, registry, health)
    columns = ["topic", "#read queues", "#write queues", "state", "broker groups+"]
    shown = Group(title, Rows(columns, _topic_rows(registry, question, found)))
    return Answer(bodies.TopicList(routed), shown)


def _topic_rows(registry: RegistryAt, question: AskTopics, found: list[topics.Topic]) -> Iterator[list[object]]:
    of_cluster = None if question.cluster is None else set(registry.clusters.get(question.cluster, ()))
    for each in found:
        names = (row.broker_name for row in registry.queues.get(each.topic, ()))
        shown = ", ".join(name for name in names if of_cluster is None or name in of_cluster)
        yield [
            each.topic,
            each.read_queue_nums,
            each.write_queue_nums,
            "removed" if question.state in GONE else _state(each),
            shown,
        ]


def _state(each: topics.Topic) -> str:
    """Return the state of a topic, with the number of groups that have a master if it is degraded."""
    of = f", {each.broker_names_up} of {each.broker_names}" if each.state == "degraded" else ""
    if each.state == "read_only":
        return "read-only" if each.is_readable else "no permission"
    return {"without_route": "no route"}.get(each.state, each.state.replace("_", " ")) + of


@reads("clusterList")
def cluster_list(registry: RegistryAt, health: Health | None) -> Answer:
    """Show the health, then clusters, broker groups and brokers.

    --json prints RocketMQ's ClusterInfo.
    """
    info = lookup.cluster_info(registry.routes)
    clusters = lists.clusters(registry).clusters
    names = {name.broker_name for cluster in clusters for name in cluster.brokers}
    title = heading_of(f"{counted(len(clusters), 'cluster')}, {counted(len(names), 'broker group')}", registry, health)
    columns = ["cluster:", "broker group:", "#topics:", "role", "address", "state?"]
    rows = (
        [
            cluster.name,
            name.broker_name,
            name.topics,
            role_text(holder.broker_id),
            holder.broker_addr,
            _state_of(holder, name.wiped if holder.broker_id == MASTER_ID else UNSET),
        ]
        for cluster in clusters
        for name in cluster.brokers
        for holder in name.holders
    )
    return Answer(info, Group(title, _verdict(registry, health), Rows(columns, rows)))


def _state_of(holder: lists.Holder, wiped: lists.Wiped | UnsetType) -> str:
    """Return the state of a broker, and since when its group takes no writes if an operator has wiped them."""
    told = [_heard(holder)]
    if not isinstance(wiped, UnsetType):
        by = f" by {wiped.requested_by}" if wiped.requested_by else ""
        told.append(f"not writable since {time_text(wiped.since)} (wiped{by})")
    return ", ".join(filter(None, told))


def _verdict(registry: RegistryAt, health: Health | None) -> Text:
    """Return the verdict about the moment as a line, in the colour of its level."""
    found = verdict_of(registry, health and health.doubt)
    return Text(found.text, LEVELS[found.level])


def _heard(holder: lists.Holder) -> str:
    if holder.down:
        ended = ENDED_BY.get(holder.down.ended_by, holder.down.ended_by)
        gone = time_text(holder.down.gone_at)
        if holder.state == "left":
            return f"{ended} {gone}"
        if holder.state == "planned" and holder.absence:
            return f"in planned absence {holder.absence.text}"
        silent_ms = holder.down.gone_at - holder.down.last_heard_at if holder.down.ended_by == "EXPIRED" else 0
        silent = f": no heartbeat for {duration_text(silent_ms)}" if silent_ms >= _SECOND_MS else ""
        return f"down since {gone} ({ended}{silent})"
    if not isinstance(holder.silent_millis, int):
        return "suspect" if holder.state == "suspect" else ""
    state = "up" if holder.state == "alive" else holder.state
    return (
        f"{state}, silent {duration_text(holder.silent_millis)}" if holder.silent_millis >= _SECOND_MS else f"{state}"
    )


@reads("brokerList", AskBrokers, without=["after"])
def broker_list(registry: RegistryAt, health: Health | None, question: AskBrokers) -> Answer:
    """List the brokers that are up, and those that are down.

    A role in parentheses: the address has sent it, and is not registered as it.
    """
    page = lists.brokers(registry, question)
    found = page.brokers
    columns = ["cluster:", "broker group:", "role", "address", "state?", "timeout", "release?", "data version?"]
    words = {"left": "unregistered", "planned": "in planned absence"}
    counts = Counter(words.get(str(each.state), "down" if each.down else "up") for each in found)
    told = ", ".join(f"{counts[state]:,} {state}" for state in ("up", "down", *words.values()) if counts[state])
    title = shown_of(len(found), page.total, "broker", "first") + (f": {told}" if told else "")
    if not (registry.live or down_brokers(registry) or left_brokers(registry) or planned_brokers(registry)):
        title = "no broker has registered yet"
    return Answer(found, Group(heading_of(title, registry, health), Rows(columns, map(_lease_row, found))))


def _lease_row(each: lists.Broker) -> list[object]:
    return [
        each.cluster_name,
        each.broker_name,
        role_text(each.broker_id) if each.holds_id or each.down else f"({role_text(each.broker_id)})",
        each.broker_addr,
        _state_of(each, each.wiped),
        duration_text(each.heartbeat_timeout_millis) if each.heartbeat_timeout_millis else "",
        each.broker_version or "",
        "/".join(map(str, msgspec.structs.astuple(each.data_version))) if each.data_version else "",
    ]


@reads("getKvConfig")
@click.option("-s", "--namespace", required=True)
@click.option("-k", "--key", required=True)
def get_kv_config(registry: RegistryAt, _health: Health | None, namespace: str, key: str) -> Answer:
    """Print one value of the KV table."""
    value = lists.kv_value(registry, namespace, key)
    return Answer({"value": value}, Text(value))


@reads("listKvConfig")
@click.option("-s", "--namespace", required=True)
def list_kv_config(registry: RegistryAt, health: Health | None, namespace: str) -> Answer:
    """List all keys of a KV namespace.

    --json prints RocketMQ's KVTable.
    """
    values = lists.kv_values(registry, namespace)
    title = heading_of(f"{namespace}: {counted(len(values), 'key')}", registry, health)
    return Answer(bodies.KVTable(values), Group(title, Rows(["key", "value+"], values.items())))


@reads("getNamesrvConfig")
def get_namesrv_config(registry: RegistryAt, _health: Health | None) -> Answer:
    """Print all settings in force.

    They include those that UPDATE_NAMESRV_CONFIG changed for all processes.
    """
    settings = registry.settings
    return Answer(settings.properties(), Text(printed_settings(settings).rstrip("\n")))
