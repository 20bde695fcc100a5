"""A moment at a glance: the verdict, the zones of each cluster as numbers, and the last events, an outage
and its end in one sentence each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from operator import itemgetter
from typing import Any

from namesrv_stream.answers.absences import Absence, holding
from namesrv_stream.answers.causes import STRAYS, Member
from namesrv_stream.answers.definitions import (
    BACK_SOON_MS,
    TOGETHER_MS,
    TopicState,
    down_brokers,
    last_ends,
    lost_topics,
    together,
)
from namesrv_stream.answers.events import Span, event_condition, newest_of, with_changes
from namesrv_stream.answers.lists import Cluster, clusters
from namesrv_stream.answers.model import AnswerModel, Moment
from namesrv_stream.answers.sentences import BY_OPERATORS, away_ms, counts_text, story_of_group, story_of_restarts
from namesrv_stream.answers.verdict import SUFFERS, Doubt, TopicVerdicts, Verdict, members, topic_verdicts, verdict_of
from namesrv_stream.reporting.texts import Time, natural_key
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.rows import BrokerEventRow
from namesrv_stream.tables.moment import Place, RegistryAt

_FEW = 3
"""More lines of one type and time than this share one sentence."""

RESTARTED = "RESTARTED"
_SECOND_MS = 1_000
HOUR_MS = 3_600_000
MAX_DRAWN = 60
"""Most broker names for which an overview lists each broker. For more it has only numbers."""

_MAX_RECENT = 20_000
_EVENTS = 20
_WORST = 10


class Headline(AnswerModel):
    """A line of history, or `count` lines of one type that follow each other within a minute, with a sentence.

    `type`: that of the lines, or RESTARTED for `count` restarts, each of which has two lines: a broker unregistered and
    registered again within ten minutes. `eventTime` is that of the last line.
    """

    epoch: int
    event_time: Time
    type: str
    text: str
    count: int


def group_events(registry: RegistryAt, lines: Sequence[BrokerEventRow], limit: int) -> list[Headline]:
    """Return the newest of lines in order of the log, newest first; those that happened together are one.

    The events of two zones, or clusters if there are no zones, happened together if their times overlap. Of one time
    the changes of topics come last, because most of them follow from an event of a broker. The rows that lines changed
    are read for those alone whose sentence names them.
    """
    ends = {each[:3]: each.gone_ms for each in last_ends(registry) if each.ended_by in LEASE_ENDS}
    away = away_ms(lines, ends)
    kinds: dict[tuple[object, ...], list[BrokerEventRow]] = {}
    restarts = _restarts(lines)
    in_restarts = {_place(line) for of_part in restarts for pair in of_part for line in pair}
    for line in lines:
        if _place(line) in in_restarts:
            continue
        of_command = line.type in BY_OPERATORS
        kind = line.offset if of_command else line.cause if line.type == "TOPICS_CHANGED" else _place(line) in away
        kinds.setdefault((line.type, kind), []).append(line)
    found = [
        part
        for of_kind in kinds.values()
        for each in together(of_kind, lambda line: line.event_time)
        for at_once in _apart(each)
        for part in _by_place(at_once)
    ]
    restarts_to = {_place(part[-1][1]): part for part in restarts}
    found += [[start for _, start in part] for part in restarts]
    found.sort(key=lambda each: (each[-1].event_time, each[-1].epoch, each[-1].type != "TOPICS_CHANGED", each[-1].seq))
    found = found[: -limit - 1 : -1]
    named = [line for each in found if len(each) == 1 or each[0].type in BY_OPERATORS for line in each]
    changed = {_place(line): line for line in with_changes(registry, named)}
    return [
        _restarted(restarts_to[place])
        if (place := _place(each[-1])) in restarts_to
        else _told([changed.get(_place(line), line) for line in each], away)
        for each in found
    ]


def _place(line: BrokerEventRow) -> Place:
    return line.epoch, line.seq


_Restart = tuple[BrokerEventRow, BrokerEventRow]
"""The line of a broker that unregistered, and that with which it registered again."""


def _restarts(lines: Iterable[BrokerEventRow]) -> list[list[_Restart]]:
    """Return the restarts that happened together, two or more, each group in order of the starts.

    A restart is together with those before it if it began at most a minute after the last of them ended.
    """
    ended: dict[tuple[object, ...], BrokerEventRow] = {}
    end_of: dict[Place, BrokerEventRow] = {}
    found = []
    for line in lines:
        broker = line.cluster_name, line.broker_name, line.broker_id
        if line.type in LEASE_ENDS and line.held_id:
            ended.pop(broker, None)
            if line.cause == "UNREGISTER_BROKER":
                ended[broker] = line
        elif line.type == "REGISTERED":
            end = ended.pop(broker, None)
            if end is not None and line.event_time - end.event_time <= BACK_SOON_MS:
                found.append(line)
                end_of[_place(line)] = end

    def began_ms(line: BrokerEventRow) -> int:
        return end_of[_place(line)].event_time

    groups: list[list[BrokerEventRow]] = []
    until_ms = 0
    for line in sorted(found, key=began_ms):
        if not groups or began_ms(line) - until_ms > TOGETHER_MS:
            groups.append([])
        groups[-1].append(line)
        until_ms = max(until_ms, line.event_time)
    parts = [part for group in groups for at_once in _apart(group, began_ms) for part in _by_place(at_once, few=1)]
    return [[(end_of[_place(line)], line) for line in part] for part in parts if len(part) > 1]


def _restarted(restarts: Sequence[_Restart]) -> Headline:
    text = story_of_restarts(sorted(restarts, key=lambda each: _place(each[0])))
    return Headline.of(restarts[-1][1], type=RESTARTED, text=text, count=len(restarts))


def _apart(
    lines: Sequence[BrokerEventRow], began_ms: Callable[[BrokerEventRow], int] = lambda line: line.event_time
) -> Iterator[list[BrokerEventRow]]:
    """Yield the lines in parts of which none has a second with another; a zone, or a cluster, is in one part."""
    column = "zone_name" if any(line.zone_name for line in lines) else "cluster_name"
    of_place: dict[str | None, list[BrokerEventRow]] = {}
    for line in lines:
        of_place.setdefault(getattr(line, column), []).append(line)
    spans = [
        (min(map(began_ms, of)) // _SECOND_MS, max(line.event_time for line in of) // _SECOND_MS, of)
        for of in of_place.values()
    ]
    part: list[BrokerEventRow] = []
    until_s = 0
    for first_s, last_s, of in sorted(spans, key=itemgetter(0)):
        if part and first_s > until_s:
            yield sorted(part, key=_place)
            part = []
        part += of
        until_s = max(until_s, last_s)
    yield sorted(part, key=_place)


def _by_place(lines: list[BrokerEventRow], few: int = _FEW) -> Iterator[list[BrokerEventRow]]:
    """Yield the lines of a zone or a cluster that has most of them, then the others; few lines one by one."""
    if lines[0].type in BY_OPERATORS:
        yield lines
        return
    while len(lines) > few:
        part = _most(lines, "zone_name") or _most(lines, "cluster_name") or lines
        yield part
        told = set(map(_place, part))
        lines = [line for line in lines if _place(line) not in told]
    yield from ([line] for line in lines)


def _most(lines: Sequence[BrokerEventRow], column: str) -> list[BrokerEventRow]:
    """Return the lines of one place if they are most of them, else none."""
    [(place, count)] = Counter(getattr(line, column) for line in lines).most_common(1)
    is_most = place is not None and count >= STRAYS * len(lines)
    return [line for line in lines if getattr(line, column) == place] if is_most else []


def _told(lines: Sequence[BrokerEventRow], away: Mapping[Place, int]) -> Headline:
    away_ms = [away[_place(line)] for line in lines if _place(line) in away]
    return Headline.of(lines[-1], text=story_of_group(lines, away_ms), count=len(lines))


class Counts(AnswerModel):
    """Numbers of a moment, of brokers by state. `brokerNames`: those that are up or down. `late`: null for the past."""

    clusters: int
    broker_names: int
    alive: int
    late: int | None
    suspect: int
    down: int
    topics: int
    system_topics: int
    planned: int = 0


class Group(AnswerModel):
    """The expected brokers in one zone of one cluster, as numbers. `late`: null for the past."""

    cluster_name: str
    zone_name: str | None
    broker_names: int
    alive: int
    late: int | None
    suspect: int
    down: int


class ClusterCounts(AnswerModel):
    """The expected brokers of one cluster, as numbers. A broker group of several zones counts once in `brokerNames`.

    `late`: null for the past.
    """

    cluster_name: str
    broker_names: int
    alive: int
    late: int | None
    suspect: int
    down: int


class WorstTopic(AnswerModel):
    """A topic that suffers. `missing`: the first of its broker groups that are down or have no master.

    `missingMore`: how many more there are.
    """

    topic: str
    state: TopicState
    broker_names: int
    broker_names_up: int
    missing: list[str]
    missing_more: int


class Overview(AnswerModel):
    """A moment at a glance. `clusters` is empty for very many brokers: see /v1/brokers.

    `lastHour`: numbers of events by type. `lastHourText`: what happened then, in numbers of brokers and groups.
    `worstTopics`: the topics that suffer most, ten at most, without system topics. `plannedAbsences`: those that hold
    or are to come.
    """

    snapshot: Moment
    kind: str | None
    term: int
    run_id: str
    verdict: Verdict
    counts: Counts
    groups: list[Group]
    cluster_counts: list[ClusterCounts]
    clusters: list[Cluster]
    last_hour: dict[str, int]
    events: list[Headline]
    last_hour_text: str
    worst_topics: list[WorstTopic]
    planned_absences: list[Absence]


def overview(registry: RegistryAt, doubt: Doubt | None = None) -> Overview:
    """Return the overview of a moment, which the page shows first. `doubt`: why the present is not known."""
    down, hour = down_brokers(registry), Span(registry.now_ms - HOUR_MS + 1)
    recent = _events_of(registry, hour)
    brokers, topics = members(registry, down), topic_verdicts(registry, lost_topics(registry))
    states, names = Counter(each.state for each in brokers), {each.name for each in brokers}
    by_place, by_cluster = (_numbers(brokers, columns, registry.is_historical) for columns in (2, 1))
    told = verdict_of(registry, doubt)
    counts = Counts(
        clusters=len({each.cluster for each in brokers}),
        broker_names=len(names),
        alive=states["alive"],
        late=told.brokers.late,
        suspect=states["suspect"],
        down=states["down"],
        topics=len(topics.of) - len(topics.system),
        system_topics=len(topics.system),
        planned=told.brokers.planned,
    )
    return Overview.of(
        registry.snapshot,
        snapshot=Moment.of(registry.snapshot),
        verdict=told,
        counts=counts,
        groups=[Group(*place, **numbers) for place, numbers in by_place],
        cluster_counts=[ClusterCounts(cluster, **numbers) for (cluster,), numbers in by_cluster],
        clusters=clusters(registry).clusters if len(names) <= MAX_DRAWN else [],
        last_hour=dict(Counter(line.type for line in recent)),
        events=group_events(registry, recent or _last_events(registry), _EVENTS),
        last_hour_text=counts_text(recent),
        worst_topics=_worst_topics(topics),
        planned_absences=holding(registry),
    )


def _events_of(registry: RegistryAt, span: Span) -> list[BrokerEventRow]:
    return newest_of(registry, event_condition(span=span, with_versions=False), _MAX_RECENT)


def _last_events(registry: RegistryAt) -> list[BrokerEventRow]:
    """Return the newest events and all of the hour before, so that what happened together is told whole."""
    last = newest_of(registry, event_condition(with_versions=False), 1)
    return _events_of(registry, Span(last[0].event_time - HOUR_MS + 1)) if last else []


def _worst_topics(topics: TopicVerdicts) -> list[WorstTopic]:
    """Return the topics that suffer most: by state, then by the groups that each lacks, then by name."""
    gravest = [*SUFFERS]
    suffer = (
        (gravest.index(each.state), each.up - each.broker_names, natural_key(topic), topic)
        for topic, each in topics.of.items()
        if each.state in SUFFERS and topic not in topics.system
    )
    found = [(topic, topics.of[topic]) for *_, topic in nsmallest(_WORST, suffer)]
    return [
        WorstTopic(topic, each.state, each.broker_names, each.up, [*each.missing[:_FEW]], len(each.missing[_FEW:]))
        for topic, each in found
    ]


def _numbers(brokers: Iterable[Member], columns: int, is_past: bool) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return the numbers of each place, by natural order. A place has the first `columns` of cluster and zone."""
    of_place: dict[tuple[Any, ...], list[Member]] = {}
    for each in brokers:
        of_place.setdefault(each[:columns], []).append(each)
    found = []
    for place in sorted(of_place, key=lambda place: [natural_key(name or "") for name in place]):
        states = Counter({"alive": 0, "late": 0, "suspect": 0, "down": 0})
        states.update(each.state for each in of_place[place])
        names = len({each.name for each in of_place[place]})
        found.append((place, {"broker_names": names, **states} | ({"late": None} if is_past else {})))
    return found
