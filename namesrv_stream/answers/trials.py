"""Try out that brokers are gone: which ones a question names, and what topics lose by the rules.

A topic loses its route, its writes, or one of several broker groups with a master. Brokers that are down already are
gone before and after, so what they take adds up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, NamedTuple

from namesrv_stream.answers.absences import Kind, Planned, absence_at, absences
from namesrv_stream.answers.causes import Member
from namesrv_stream.answers.definitions import (
    Brokers,
    LostTopics,
    TopicVerdict,
    down_brokers,
    excused_names,
    gone_brokers,
    lost_topics,
    planned_brokers,
    topic_verdict,
)
from namesrv_stream.answers.model import fact, not_found
from namesrv_stream.answers.questions import OfPlaces
from namesrv_stream.answers.verdict import members, system_among
from namesrv_stream.reporting.texts import broker_text, counted, zone_text
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE
from namesrv_stream.rules.rows import TopicRow
from namesrv_stream.rules.trial import Trial, without_leases
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.schemas import BROKER, LIVE, TOPIC

Loss = Literal["route", "writes", "group"]
LOSSES: tuple[Loss, ...] = ("route", "writes", "group")
"""What a topic may lose, the gravest first."""


NOTHING_NAMED = "nothing is named. Give a broker group, an address, a zone or a cluster."


class Subject(NamedTuple):
    """What a question names, and its brokers that are expected; those that are down too."""

    kind: Kind
    asked: str
    brokers: Sequence[Member]

    @property
    def name(self) -> str:
        """What it is called in a sentence."""
        if self.kind != "zone":
            return self.asked
        return zone_text(self.asked) if self.asked else "brokers without a zone"


_PLACES: dict[Kind, Callable[[Member], str]] = {
    "broker": lambda each: broker_text(each.name, each.broker_id),
    "group": lambda each: each.name,
    "zone": lambda each: each.zone or "",
    "cluster": lambda each: each.cluster,
}


def is_up(broker: Member) -> bool:
    """Return whether a broker is up: neither down nor in planned absence."""
    return broker.state not in ("down", "planned")


def _named(registry: RegistryAt) -> list[Member]:
    """Return the brokers that a question can name: expected ones, and those in planned absence."""
    away = (
        Member(each.cluster_name, each.zone_name, *each[1:3], each.broker_addr, "planned", each.fell_ms, each)
        for each in planned_brokers(registry)
    )
    return [*members(registry, down_brokers(registry)), *away]


def named_subjects(registry: RegistryAt, asked: OfPlaces) -> list[Subject]:
    """Return the subjects that a question names. Raises NotFoundError."""
    every = _named(registry) if asked.brokers or asked.zones or asked.clusters else []
    found = [_named_broker(registry, every, name) for name in asked.brokers]
    of_places: dict[Kind, list[str]] = {"zone": asked.zones, "cluster": asked.clusters}
    for kind, names in of_places.items():
        place_of = _PLACES[kind]
        for name in names:
            of_place = [each for each in every if place_of(each) == name]
            if not of_place:
                raise not_found(registry, kind, name, filter(None, map(place_of, every)))
            found.append(Subject(kind, name, of_place))
    return found


def _named_broker(registry: RegistryAt, every: Sequence[Member], name: str) -> Subject:
    """Return a broker group, or one broker by its address or its role. One that has left in order has no broker."""
    if of_group := [each for each in every if each.name == name]:
        return Subject("group", name, of_group)
    for each in sorted(every, key=is_up, reverse=True):  # an address of one that is down may have another
        if name in (each.address, broker_text(each.name, each.broker_id), f"{each.name}/{each.broker_id}"):
            return Subject("broker", broker_text(each.name, each.broker_id), [each])
    gone = [(each.broker_addr, each.broker_name) for each in gone_brokers(registry)]
    if name in registry.live or any(name in each for each in gone):
        return Subject("broker", name, [])
    known = {text for each in every for text in (each.name, each.address)}
    raise not_found(registry, "broker", name, known)


def every_subject(registry: RegistryAt, kind: Kind) -> list[Subject]:
    """Return each broker, broker group, zone or cluster that has a broker that is up."""
    found: dict[tuple[str, str], list[Member]] = {}
    for each in _named(registry):
        place = each.cluster if kind == "broker" else ""  # clusters may have brokers of one name
        found.setdefault((place, _PLACES[kind](each)), []).append(each)
    return [Subject(kind, name, of) for (_, name), of in found.items() if any(map(is_up, of))]


Alike = tuple[Sequence[TopicRow], Sequence[str]]
"""Rows that name no topic, and the topics that have these rows."""


@fact
def planned_to_go(registry: RegistryAt) -> frozenset[str]:
    """Return the addresses of brokers that are up, and may be away now by plan."""
    if not absences(registry):
        return frozenset()
    up = filter(is_up, members(registry, down_brokers(registry)))
    return frozenset(each.address for each in up if absence_at(registry, Planned(*each[:4]), registry.now_ms))


def planned_routes(registry: RegistryAt, chosen: Collection[Member]) -> RouteTables:
    """Return the routes without brokers that are up, and may be away now by plan; the chosen ones stay."""
    away = planned_to_go(registry) - {each.address for each in chosen}
    if not away:
        return registry.routes
    make = lambda: without_leases(registry.routes, away).routes(registry.routes)  # noqa: E731
    return registry.once("planned routes", make, TOPIC, BROKER, LIVE, key=away)


def topics_on(registry: RegistryAt, routes: RouteTables, broker_names: Iterable[str]) -> list[Alike]:
    """Return the topics on broker groups, without system topics; those of which groups are lost each by itself."""
    lost = lost_topics(registry)
    concerned = routes.queues.alike({*broker_names})
    system = system_among(registry, (topic for _, topics in concerned for topic in topics))
    found: list[Alike] = []
    for rows, topics in concerned:
        told = [topic for topic in topics if topic not in system]
        of_lost = [topic for topic in told if topic in lost] if lost else []
        apart = {*of_lost}
        found += [(rows, [topic]) for topic in of_lost]
        if rest := [topic for topic in told if topic not in apart] if apart else told:
            found.append((rows, rest))
    return found


class Losses:
    """What topics of routes lose by a trial. `of`: the topics by loss, in order of name, with their rows.

    `counts`: how many. `brokers`: the holders that would be left.
    """

    def __init__(self, registry: RegistryAt, routes: RouteTables, topics: Iterable[Alike], trial: Trial) -> None:
        self.routes = routes
        self._lost: LostTopics = lost_topics(registry)
        self._excused = excused_names(registry)
        self.trial = trial
        self.brokers: Brokers = trial.brokers(routes)
        self.of: dict[Loss, list[tuple[str, Sequence[TopicRow]]]] = {loss: [] for loss in LOSSES}
        for rows, alike in topics:
            before, after = self.verdicts(alike[0], rows)
            if (loss := _loss(before, after)) is not None:
                self.of[loss] += [(topic, rows) for topic in alike]
        for of_loss in self.of.values():
            of_loss.sort(key=lambda each: each[0])
        self.counts = Counter({loss: len(of_loss) for loss, of_loss in self.of.items()})

    @property
    def is_safe(self) -> bool:
        """True if no topic loses its route or its writes."""
        return not self.counts["route"] + self.counts["writes"]

    def verdicts(self, topic: str, rows: Sequence[TopicRow]) -> tuple[TopicVerdict, TopicVerdict]:
        """Return the verdict about a topic before and after."""
        lost = self._lost.get(topic, frozenset())
        went = {row.broker_name for row in rows if row.broker_name in self.trial.gone}
        before = topic_verdict(rows, self.routes.brokers, lost, self._excused)
        return before, topic_verdict(self.trial.rows(rows), self.brokers, lost | went, self._excused)


def _loss(before: TopicVerdict, after: TopicVerdict) -> Loss | None:
    if after.state == "without_route" != before.state:
        return "route"
    if before.is_writable and not after.is_writable:
        return "writes"
    return "group" if after.up < before.up or after.writable_on < before.writable_on else None


def loses_master(routes: RouteTables, trial: Trial, broker_name: str) -> bool:
    """Return whether a broker group has a master in these routes, and none after the trial."""
    return MASTER_ID in routes.brokers.get(broker_name, ()) and MASTER_ID not in trial.holders[broker_name]


def is_writable_row(row: TopicRow, brokers: Brokers) -> bool:
    """Return whether producers use the queues of a topic on one broker group: it has a master and the permission."""
    return bool(row.perm & PERM_WRITE) and MASTER_ID in brokers.get(row.broker_name, ())


def write_queues(rows: Iterable[TopicRow], brokers: Brokers) -> int:
    """Return the number of write queues of a topic that producers use: those of groups with a master."""
    return sum(row.write_queue_nums for row in rows if is_writable_row(row, brokers))


def all_writable(registry: RegistryAt, routes: RouteTables) -> bool:
    """Return whether every topic of these routes is writable."""
    return not lost_topics(registry) and all(
        topic_verdict(rows, routes.brokers).is_writable for rows, _ in routes.queues.alike(routes.queues.topic_counts)
    )


def losses_text(losses: Losses, is_writable: Callable[[], bool]) -> str:
    """Return what topics lose, in a sentence: of one its name, of many how many.

    `is_writable`: whether every topic is writable now; it is asked only if none loses writes.
    """
    route, writes, group = (losses.counts[loss] for loss in LOSSES)
    parts = []
    if route:
        parts.append(f"{_topics(losses.of['route'])} {'loses its' if route == 1 else 'lose their'} route")
    if writes:
        which = f"{writes:,}" if route > 1 else _topics(losses.of["writes"])
        parts.append(f"{which} {'loses' if writes == 1 else 'lose'} writes")
    if parts:
        return f"{', '.join(parts)}{f'; {group:,} more degraded' if group else ''}."
    kept = "every topic stays writable" if is_writable() else "no topic loses writes or its route"
    return f"Safe: {kept}{f'; {_topics(losses.of[LOSSES[-1]])} degraded' if group else ''}."


def _topics(found: Sequence[tuple[str, Sequence[TopicRow]]]) -> str:
    return found[0][0] if len(found) == 1 else counted(len(found), "topic")
