"""Topics of one snapshot with their states, those without a route too, and the route of one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from namesrv_stream.answers.definitions import (
    LostTopics,
    TopicState,
    TopicVerdict,
    down_brokers,
    excused_names,
    gone_brokers,
    lost_topics,
    topic_verdict,
    topics_gone,
)
from namesrv_stream.answers.events import topic_events
from namesrv_stream.answers.lists import Broker, brokers_of
from namesrv_stream.answers.model import (
    AnswerModel,
    BadQuestionError,
    Moment,
    Page,
    names_behind,
    not_found,
    paged,
    rank_of,
)
from namesrv_stream.answers.questions import GONE, TOPIC_ORDERS, AskTopic, AskTopics
from namesrv_stream.answers.sentences import asker, given_reason
from namesrv_stream.answers.story import story_of_topic
from namesrv_stream.answers.verdict import SUFFERS, check_place, system_among, topic_verdicts
from namesrv_stream.reporting.texts import all_of, broker_text, clock_text, folded, named
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import TopicRouteData
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE
from namesrv_stream.rules.rows import RowChange, TopicRow
from namesrv_stream.tables.moment import RegistryAt

_NAMED = 3
_WHY = {
    "down": "{} down",
    "no master": "no master on {}",
    "no write permission": "no write permission on {}",
}
"""Reason for which broker groups take no writes for a topic -> what is said of them."""

_STATES: tuple[TopicState, ...] = ("without_route", "not_writable", "degraded", "read_only", "writable")


class Topic(AnswerModel):
    """A topic with its state and its queues over all broker names, of which `brokerNamesUp` have a master.

    Producers use the write queues of those with a master only.
    """

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    broker_names: int
    broker_names_up: int
    state: TopicState
    is_readable: bool
    is_writable: bool
    is_system: bool


class Topics(Page):
    """A page of topics. `hidden`: how many more there are that brokers have made by themselves."""

    hidden: int
    topics: list[Topic]


class Missing(AnswerModel):
    """A broker name of a topic that takes no messages for it."""

    broker_name: str
    why: Literal["down", "no master", "no write permission"]


class Route(AnswerModel):
    """The route of a topic: RocketMQ's TopicRouteData, null if clients get none, and the brokers of its broker names.

    `text`: the verdict about the topic. `missing`: its broker names that are down or have no master and, unless the
    topic is read-only, those on which it has lost the permission to write.
    """

    snapshot: Moment
    topic: str
    state: TopicState | Literal["left"]
    text: str
    missing: list[Missing]
    route: TopicRouteData | None
    brokers: list[Broker]


_ORDERS: dict[str, Callable[[Topic], Any]] = {
    "name": lambda each: each.topic,
    "state": lambda each: _STATES.index(each.state),
    "read": lambda each: each.read_queue_nums,
    "write": lambda each: each.write_queue_nums,
    "brokerNames": lambda each: each.broker_names,
    "brokerNamesUp": lambda each: each.broker_names_up,
}


def topics(registry: RegistryAt, asked: AskTopics) -> Topics:
    """Return topics in an order, with their queues over all broker names, or those of a cluster or a zone.

    "left": those that went within 7 days, whatever ended them, and are neither back nor expected; the clusters and
    zones are those of the broker names that had them.
    """
    cluster, zone, state, order = asked.cluster, asked.zone, asked.state, asked.sort
    names: set[str] | None = None
    gone = down_brokers(registry)
    lost = lost_topics(registry)
    verdicts, system = topic_verdicts(registry, lost)
    if state in GONE:
        gone, state = gone_brokers(registry), None
        lost = {topic: of for topic, of in topics_gone(registry).items() if topic not in verdicts}
        verdicts, system = dict.fromkeys(lost, topic_verdict((), registry.brokers)), system_among(registry, lost)
    check_place(registry, cluster, zone)
    if cluster is not None or zone is not None:
        names = _names_in(registry, cluster, zone) | {
            each.broker_name
            for each in gone
            if cluster in (None, each.cluster_name) and zone in (None, each.zone_name or "")
        }
    text = folded(asked.q)
    named = [topic for topic, each in verdicts.items() if state in (None, each.state) and text in folded(topic)]
    if names is not None:
        chosen = {*registry.queues.topics_on(names), *(each for each, of in lost.items() if of & names)}
        named = [topic for topic in named if topic in chosen]
    wanted = named if asked.system else [topic for topic in named if topic not in system]
    wanted.sort()
    if order in ("name", "match", "-match"):
        if order != "name":
            by_rank = lambda each: (each in system, rank_of(asked.q, each))  # noqa: E731
            page, following = paged(wanted, by_rank, str, asked.limit, asked.after, reverse=order == "-match")
        else:
            page, following = names_behind(wanted, asked.after, asked.limit)
        shown = [_topic(registry, topic, verdicts[topic], names, topic in system) for topic in page]
    else:
        every = [_topic(registry, topic, verdicts[topic], names, topic in system) for topic in wanted]
        by = _order(order)
        shown, following = paged(
            every, by, lambda each: each.topic, asked.limit, asked.after, reverse=order.startswith("-")
        )
    return Topics(Moment.of(registry.snapshot), len(wanted), following, len(named) - len(wanted), shown)


def _order(text: str) -> Callable[[Topic], Any]:
    name = text.removeprefix("-")
    if name not in _ORDERS:
        raise BadQuestionError(f"sort={text[:100]}: use {', '.join(TOPIC_ORDERS)}, with - in reverse order.")
    return _ORDERS[name]


def _names_in(registry: RegistryAt, cluster: str | None, zone: str | None) -> set[str]:
    """Return the broker names of a cluster and of a zone, an empty zone for those without one."""
    names = registry.brokers.keys() if cluster is None else registry.clusters.get(cluster, ())
    return {
        name
        for name in names
        if zone in (None, lookup.latest_registered(registry.brokers[name].values()).zone_name or "")
    }


def _topic(
    registry: RegistryAt, topic: str, verdict: TopicVerdict, broker_names: set[str] | None, is_system: bool
) -> Topic:
    rows = [row for row in registry.queues.get(topic, ()) if broker_names is None or row.broker_name in broker_names]
    read, write = sum(row.read_queue_nums for row in rows), sum(row.write_queue_nums for row in rows)
    names = (verdict.broker_names, verdict.up, verdict.state, verdict.is_readable, verdict.is_writable)
    return Topic(topic, read, write, *names, is_system)


def route(registry: RegistryAt, topic: str, asked: AskTopic) -> Route:
    """Return the route of a topic as clients get it, those of a zone if one is given."""
    check_place(registry, None, asked.zone, compared=str.lower)  # as lookups compare zones
    found = lookup.route(registry.routes, topic, registry.settings, asked.zone)
    lost, rows = lost_topics(registry), registry.queues.get(topic, ())
    if not rows and topic not in lost:
        return _gone(registry, topic, lost)
    verdict = topic_verdict(rows, registry.brokers, lost.get(topic, frozenset()), excused_names(registry))
    names = {row.broker_name for row in rows}
    missing = [Missing(name, "no master" if name in registry.brokers else "down") for name in verdict.missing]
    if verdict.state != "read_only":
        reached = (row for row in rows if row.broker_name not in verdict.missing)
        missing += [Missing(row.broker_name, "no write permission") for row in reached if not row.perm & PERM_WRITE]
    return Route(
        Moment.of(registry.snapshot),
        topic,
        verdict.state,
        topic_text(topic, verdict, missing, _since(registry, topic, verdict, missing)),
        missing,
        found,
        brokers_of(registry, names | {*verdict.missing}),
    )


def _gone(registry: RegistryAt, topic: str, lost: LostTopics) -> Route:
    """Return the answer about a topic that went and is not expected. Raises NotFoundError if there never was one."""
    lines = [line for line in topic_events(registry, topic) if any(_is_end(e) for e in line.changes)]
    if not lines:
        raise not_found(registry, "topic", topic, [*registry.queues, *lost])
    names = {each.key[1] for each in lines[-1].changes if _is_end(each)}
    since, why = clock_text(lines[-1].event_time), story_of_topic(topic, lines)[-1].text
    text = f"{topic} has no route (since {since}): {why}"
    for each in gone_brokers(registry):
        if each.broker_name in names and (line := each.retired):
            who, at = broker_text(each.broker_name, each.broker_id), clock_text(line.event_time)
            text += f" {who} was retired at {at} by {asker(line)}{given_reason(line)}."
    return Route(Moment.of(registry.snapshot), topic, "left", text, [], None, [])


def _is_end(each: RowChange) -> bool:
    return isinstance(each.before, TopicRow) and each.after is None


def _since(registry: RegistryAt, topic: str, verdict: TopicVerdict, missing: Sequence[Missing]) -> str:
    """Return since when a topic is in its state, as a part of a sentence; nothing if that is not known.

    It is over with the last of the broker names that carried it, also of one on which it is not expected any more.
    """
    ends = gone_brokers(registry)
    has_route, is_over = verdict.state != "without_route", verdict.state in SUFFERS and verdict.state != "degraded"
    times: list[int] = []
    for name, why in ((each.broker_name, each.why) for each in missing):
        if why == "no write permission":
            times += [] if verdict.state == "degraded" else _wiped(registry, topic, name)[-1:]
        else:
            of_name = [each for each in ends if each.broker_name == name]
            times += [each.gone_ms for each in of_name if not has_route or each.broker_id == MASTER_ID][:1]
    if not times:
        return ""
    if is_over:
        masters = {each.broker_name: each.gone_ms for each in ends if each.broker_id == MASTER_ID}
        left = _ends(registry, topic, was_writable=has_route)
        times += [min(at, masters.get(name, at)) if has_route else at for at, name in left]
    return f" (since {clock_text(max(times) if is_over else min(times))})"


def _ends(registry: RegistryAt, topic: str, *, was_writable: bool) -> list[tuple[int, str]]:
    """Return when a topic left its broker names, and each. `was_writable`: only those on which it could be written."""
    lines = topic_events(registry, topic)
    ends = ((line.event_time, each) for line in lines for each in line.changes if _is_end(each))
    return [(at, str(each.key[1])) for at, each in ends if _may_write(each.before) or not was_writable]


def _wiped(registry: RegistryAt, topic: str, name: str) -> list[int]:
    """Return the times at which a topic on a broker name got a permission without write."""
    lines = topic_events(registry, topic)
    changed = (
        (line.event_time, each.before, each.after) for line in lines for each in line.changes if name in each.key
    )
    return [at for at, before, after in changed if _may_write(before) != _may_write(after) is False]


def _may_write(row: object) -> bool | None:
    return bool(row.perm & PERM_WRITE) if isinstance(row, TopicRow) else None


def topic_text(topic: str, verdict: TopicVerdict, missing: Sequence[Missing], since: str) -> str:
    """Return the verdict about a topic, a sentence."""
    told = [
        words.format(named(names, _NAMED))
        for why, words in _WHY.items()
        if (names := [each.broker_name for each in missing if each.why == why])
    ]
    because = f": {', '.join(told)}" if told else ""
    match verdict.state:
        case "without_route":
            return f"{topic} has no route{since}{because}."
        case "not_writable":
            return f"{topic} is not writable{since}{because}."
        case "read_only":
            if verdict.is_readable:
                return f"{topic} is read-only: no broker group has it with write permission."
            return f"{topic} cannot be read or written: no broker group has it with either permission."
    groups = f"{verdict.writable_on} of {verdict.broker_names} broker groups"
    if verdict.state == "degraded":
        return f"{topic} is degraded{since}: writable on {groups}{because.replace(':', ';', 1)}."
    if verdict.writable_on < verdict.broker_names:
        return f"{topic} is writable on {groups}{since}{because}."
    return f"{topic} is writable on {'its broker group' if verdict.up == 1 else all_of(verdict.up, 'broker group')}."
