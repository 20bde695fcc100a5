"""The verdict about a moment: which brokers are down and since when, by what they share, and what that does to topics.

docs/definitions.md has the meaning of the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Literal, NamedTuple, Self

import msgspec

from namesrv_stream.answers.absences import absence_text
from namesrv_stream.answers.acknowledgements import Acknowledgement, acknowledgements
from namesrv_stream.answers.causes import Cause, Member, State, causes
from namesrv_stream.answers.claims import config_warnings
from namesrv_stream.answers.definitions import (
    EXPECTED_MS,
    LEFT,
    WENT,
    DownBroker,
    LostTopics,
    TopicState,
    TopicVerdict,
    down_brokers,
    excused_names,
    gone_brokers,
    last_topics,
    left_brokers,
    lost_topics,
    planned_brokers,
    topic_verdict,
    wipes,
)
from namesrv_stream.answers.model import AnswerModel, not_found
from namesrv_stream.reporting.texts import (
    Time,
    all_of,
    broker_text,
    clock_text,
    counted,
    listed,
    named,
    natural_key,
    today,
)
from namesrv_stream.rules.lease import is_late
from namesrv_stream.rules.record_types import MASTER_ID, is_system_topic
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.schemas import BROKER, CLUSTER, TOPIC

_TOLD, _FEW = 2, 3
LATELY_MS = 3_600_000
"""Time for which the verdict names brokers that unregistered and are not back, and a broker's page its return."""
SUFFERS: dict[TopicState, str] = {
    "without_route": "without a route",
    "not_writable": "not writable",
    "degraded": "degraded",
}
"""State of topics -> the words for it, the gravest first."""

_LOST: tuple[TopicState, ...] = ("without_route", "not_writable")
"""States in which a topic is of no use to a producer."""


class BrokerCounts(AnswerModel):
    """Numbers of brokers: those that are expected are up or down; of those that are up some are late or suspect.

    `late`: null for a past moment, whose signs of life are not known. `left`: those that unregistered within an hour
    and are not back. `namesWithoutMaster`: broker names that are expected and have no master. `planned`: those that are
    in planned absence, and so not expected.
    """

    expected: int
    up: int
    down: int
    late: int | None
    suspect: int
    left: int
    names_without_master: int
    planned: int = 0


class TopicCounts(AnswerModel):
    """Numbers of topics by state, without those that brokers make by themselves."""

    total: int
    writable: int
    read_only: int
    degraded: int
    not_writable: int
    without_route: int


class WipedGroup(AnswerModel):
    """A broker group with a master whose topics all lack the write permission since an operator's command.

    `readOnly`: those of its `topics` that no other group takes writes for.
    """

    broker_name: str
    since: Time
    requested_by: str | None
    topics: int
    read_only: int


class Verdict(AnswerModel):
    """The health line `text`: what is wrong, the gravest first. `level`: how bad it is. `causes`: the largest first.

    `headline`: the gravest part in a few words, for a title or a notice; null if nothing is wrong. `unknownSince`: the
    verdict is of that time, because nothing newer is known; null if the job runs. `isAcknowledged`: brokers are down,
    and operators have acknowledged each such cause; the level stays. `configWarnings`: brokers with one identity at
    several addresses, and addresses that other machines cannot use.
    """

    level: Literal["ok", "warning", "critical"]
    text: str
    brokers: BrokerCounts
    topics: TopicCounts
    causes: list[Cause]
    headline: str | None = None
    wiped_groups: list[WipedGroup] = []  # noqa: RUF012  # msgspec copies it
    unknown_since: Time | None = None
    is_acknowledged: bool = False
    config_warnings: list[str] = []  # noqa: RUF012  # msgspec copies it


def state_of(registry: RegistryAt, lease: LiveRow) -> State:
    """Return the state of a lease. Nobody is late where signs of life are not known."""
    if lease.suspect_since is not None:
        return "suspect"
    if registry.is_historical:
        return "alive"
    return "late" if is_late(lease, registry.snapshot) else "alive"


def check_place(
    registry: RegistryAt, cluster: str | None, zone: str | None, compared: Callable[[str], str] = lambda name: name
) -> None:
    """Raise NotFoundError for a cluster or a zone that no broker has or had in 7 days. An empty zone is none."""
    known = {(each.cluster_name, each.zone_name) for each in gone_brokers(registry)}
    known |= {(row.cluster_name, row.zone_name) for of in registry.brokers.values() for row in of.values()}
    for kind, name, names in (("cluster", cluster, {of for of, _ in known}), ("zone", zone, {of for _, of in known})):
        if name and compared(name) not in {compared(each or "") for each in names}:
            raise not_found(registry, kind, name, filter(None, names))


def members(registry: RegistryAt, down: Iterable[DownBroker]) -> list[Member]:
    """Return every broker that is expected, by natural order of the names."""
    found = [
        Member(each.cluster_name, each.zone_name, *each[1:3], each.broker_addr, "down", each.fell_ms, each)
        for each in down
    ]
    for name, holders in registry.brokers.items():
        for broker_id, row in holders.items():
            lease = registry.live[row.broker_addr]
            at_ms = lease.suspect_since or lease.last_update_timestamp
            state = state_of(registry, lease)
            found.append(Member(row.cluster_name, row.zone_name, name, broker_id, row.broker_addr, state, at_ms))
    return sorted(found, key=lambda each: (natural_key(each.name), each.broker_id, each.cluster))


class TopicVerdicts(NamedTuple):
    """The state of each topic, lost ones too. `system`: those that brokers make by themselves."""

    of: Mapping[str, TopicVerdict]
    system: frozenset[str]


_NamesOfGone = frozenset[tuple[str, str]]
"""Cluster and broker name of each broker that is gone."""


def topic_verdicts(registry: RegistryAt, lost: LostTopics) -> TopicVerdicts:
    """Return the state of each topic of the routes and in `lost`.

    A snapshot that has only signs of life changes nothing here.
    """
    of_gone = _names_of_gone(registry) if lost else frozenset()
    excused = excused_names(registry)

    def verdicts() -> TopicVerdicts:
        queues, brokers = registry.queues, registry.brokers
        found = queues.by_rows(lambda rows: topic_verdict(rows, brokers, excused=excused))
        found |= {topic: topic_verdict(queues.get(topic, ()), brokers, names, excused) for topic, names in lost.items()}
        return TopicVerdicts(found, system_topics(registry, lost))

    return registry.once(
        "topics", verdicts, TOPIC, BROKER, CLUSTER, key=(frozenset(lost.items()), of_gone, excused), most=2
    )


def system_topics(registry: RegistryAt, lost: LostTopics) -> frozenset[str]:
    """Return which topics of the routes and in `lost` brokers make by themselves."""
    of_gone = _names_of_gone(registry) if lost else frozenset()
    among = partial(_system_among, registry, chain(registry.queues, lost), of_gone)
    return registry.once("system topics", among, TOPIC, BROKER, CLUSTER, key=(frozenset(lost), of_gone), most=2)


def system_among(registry: RegistryAt, topics: Iterable[str]) -> frozenset[str]:
    """Return which of the topics brokers make by themselves, those that went in the last 7 days too."""
    return _system_among(registry, topics, _names_of_gone(registry))


def _system_among(registry: RegistryAt, topics: Iterable[str], of_gone: _NamesOfGone) -> frozenset[str]:
    clusters = {*registry.clusters, *(cluster for cluster, _ in of_gone)}
    brokers = {*registry.brokers, *(name for _, name in of_gone)}
    return frozenset(topic for topic in topics if is_system_topic(topic, brokers, clusters))


def _names_of_gone(registry: RegistryAt) -> _NamesOfGone:
    return frozenset((each.cluster_name, each.broker_name) for each in gone_brokers(registry))


class Left(NamedTuple):
    """Brokers that unregistered within an hour and are not back, and the topics without a route since.

    Those that brokers make by themselves are left out.
    """

    brokers: Sequence[DownBroker] = ()
    topics: Collection[str] = ()


NOBODY = Left()


def left_of(registry: RegistryAt, topics: TopicVerdicts) -> Left:
    """Return who unregistered within an hour before the moment and is not back, and what went with them.

    `topics`: those that have a route or are expected to.
    """
    since_ms = registry.now_ms - LATELY_MS
    left = [each for each in left_brokers(registry) if each.gone_ms > since_ms]
    last = last_topics(registry, (each.broker_name for each in left), LEFT)
    gone = {row.topic for _, row in last} - topics.of.keys()
    return Left(left, gone - system_among(registry, gone))


def away_of(registry: RegistryAt, topics: TopicVerdicts) -> Left:
    """Return who is in planned absence, and the topics that have no route meanwhile."""
    away = planned_brokers(registry)
    last = last_topics(registry, (each.broker_name for each in away), WENT) if away else []
    gone = {row.topic for _, row in last} - topics.of.keys()
    return Left(away, gone - system_among(registry, gone) if gone else gone)


def wiped_groups(registry: RegistryAt, topics: TopicVerdicts) -> list[WipedGroup]:
    """Return the groups that take no writes since an operator's command, by name."""
    found = []
    for name, line in wipes(registry).items():
        of_name = [topic for topic in registry.queues.topics_on({name}) if topic not in topics.system]
        read_only = sum(not topics.of[topic].is_writable for topic in of_name)
        found.append(WipedGroup(name, Time(line.event_time), line.requested_by, len(of_name), read_only))
    return found


class Doubt(NamedTuple):
    """Why the present is not known, and up to when it was."""

    since_ms: int
    reason: str


class Beside(NamedTuple):
    """The facts of a verdict about neither expected brokers nor topics that exist.

    `lost_until_ms`: events up to then were lost in the last 7 days, so that who fell before is not known.
    `acknowledged`: by the id of the cause.
    """

    left: Left = NOBODY
    wiped: Sequence[WipedGroup] = ()
    lost_until_ms: int | None = None
    acknowledged: Mapping[str, Acknowledgement] = MappingProxyType({})
    away: Left = NOBODY
    config: Sequence[str] = ()
    excused: frozenset[str] = frozenset()

    @classmethod
    def of(cls, registry: RegistryAt, topics: TopicVerdicts) -> Self:
        """Return it for a moment."""
        unknown, now_ms = registry.unknown, registry.now_ms
        lost_ms = None if unknown is None or unknown.until_millis < now_ms - EXPECTED_MS else unknown.until_millis
        left, away = left_of(registry, topics), away_of(registry, topics)
        known = acknowledgements(registry)
        config = list(config_warnings(registry))
        return cls(left, wiped_groups(registry, topics), lost_ms, known, away, config, excused_names(registry))


NOTHING_BESIDE = Beside()


def verdict(
    brokers: Sequence[Member], topics: TopicVerdicts, beside: Beside = NOTHING_BESIDE, *, is_past: bool = False
) -> Verdict:
    """Return the verdict about brokers and topics."""
    states = Counter(each.state for each in brokers)
    of_state: dict[str, list[str]] = {}
    for topic, each in topics.of.items():
        if topic not in topics.system:
            of_state.setdefault(each.state, []).append(topic)
    up, left = len(brokers) - states["down"], beside.left
    names = {each.name for each in brokers}
    mastered = {each.name for each in brokers if each.broker_id == MASTER_ID and each.state != "down"}
    late, unmastered = None if is_past else states["late"], len(names - mastered - beside.excused)
    of_beside = len(left.brokers), unmastered, len(beside.away.brokers)
    counts = BrokerCounts(len(brokers), up, states["down"], late, states["suspect"], *of_beside)
    kinds = ("writable", "read_only", "degraded", "not_writable", "without_route")
    of_kind = TopicCounts(sum(map(len, of_state.values())), *(len(of_state.get(kind, ())) for kind in kinds))
    found = [msgspec.structs.replace(each, acknowledged=beside.acknowledged.get(each.id)) for each in causes(brokers)]
    is_critical = counts.down or of_kind.not_writable or of_kind.without_route
    is_known_of = counts.expected or counts.planned
    is_warning = counts.suspect or counts.late or of_kind.degraded or not is_known_of or left.topics
    is_warning = is_warning or any(beside[1:4]) or beside.config
    level: Literal["ok", "warning", "critical"] = "critical" if is_critical else "warning" if is_warning else "ok"
    told = Verdict(
        level, "", counts, of_kind, found, wiped_groups=list(beside.wiped), config_warnings=list(beside.config)
    )
    parts = list(_parts(told, of_state, beside, brokers))
    text = "; ".join(parts)
    if text.startswith(("all ", "both ", "no ")):  # what else is first is a number or a name, which stays as it is
        text = text[:1].upper() + text[1:]
    headline = None if level == "ok" else _headline(told, of_state, left)
    down = [each for each in found if each.state == "down"]
    is_known = bool(down) and all(each.acknowledged for each in down)
    return msgspec.structs.replace(told, text=f"{text}.", headline=headline, is_acknowledged=is_known)


def verdict_of(registry: RegistryAt, doubt: Doubt | None = None) -> Verdict:
    """Return the verdict about a moment; about the present, `doubt` is why it is not known."""

    def known() -> Verdict:
        topics = topic_verdicts(registry, lost_topics(registry))
        brokers = members(registry, down_brokers(registry))
        return verdict(brokers, topics, Beside.of(registry, topics), is_past=registry.is_historical)

    found = registry.once("verdict", known, key=today())
    if doubt is None or registry.is_historical:
        return found
    text = f"Not known since {clock_text(doubt.since_ms)} ({doubt.reason}). Last known: {found.text}"
    level: Literal["warning", "critical"] = "warning" if found.level == "ok" else found.level
    return msgspec.structs.replace(found, level=level, text=text, unknown_since=Time(doubt.since_ms))


def _parts(
    told: Verdict, of_state: Mapping[str, Sequence[str]], beside: Beside, brokers: Sequence[Member]
) -> Iterator[str]:
    """Yield the parts of the health line: what topics have lost, then why, then what is degraded."""
    topics = told.topics
    lost = [_lost_text(names, SUFFERS[state]) for state in _LOST if (names := of_state.get(state))]
    if lost:
        yield ", ".join(lost)
    yield from _brokers_text(told, beside.left, brokers)
    if told.brokers.late:
        yield f"{told.brokers.late:,} late"
    if beside.away.brokers:
        yield _away_text(beside.away)
    if rest := list(_other_topics(topics, of_state, has_lost=bool(lost))):
        yield ", ".join(rest)
    if beside.wiped:
        yield _wiped_text(beside.wiped)
    if beside.config:
        yield beside.config[0] + (f"; {len(beside.config) - 1:,} more such" if len(beside.config) > 1 else "")
    if beside.lost_until_ms is not None:
        until = clock_text(beside.lost_until_ms)
        yield f"events until {until} were lost, so brokers and topics removed before it may be missing here"


def _other_topics(topics: TopicCounts, of_state: Mapping[str, Sequence[str]], *, has_lost: bool) -> Iterator[str]:
    """Yield how many topics are degraded or writable, and how many read-only; behind others as numbers alone."""
    if topics.degraded:
        yield f"{topics.degraded:,} degraded" if has_lost else f"{counted(topics.degraded, 'topic')} degraded"
    elif topics.writable and not has_lost:
        yield _writable_text(topics, of_state)
    if topics.read_only:
        is_behind = has_lost or topics.degraded or topics.writable
        yield f"{topics.read_only:,} read-only" if is_behind else f"{counted(topics.read_only, 'topic')} read-only"


def _writable_text(topics: TopicCounts, of_state: Mapping[str, Sequence[str]]) -> str:
    if topics.total == 1:
        return f"{of_state['writable'][0]} writable"
    if topics.read_only:
        return f"{counted(topics.writable, 'topic')} writable"
    return f"{all_of(topics.total, 'topic')} writable"


def _headline(told: Verdict, of_state: Mapping[str, Sequence[str]], left: Left) -> str:
    """Return the gravest part of a health line in a few words."""
    suffering = [
        (names, words)
        for state, words in SUFFERS.items()
        if (names := of_state.get(state)) and (state in _LOST or not told.causes)
    ]
    if left.topics and not told.brokers.down:
        suffering.insert(sum(state in of_state for state in _LOST), (sorted(left.topics), "removed"))
    for names, words in suffering:
        return f"{names[0] if len(names) == 1 else counted(len(names), 'topic')} {words}"
    if not told.causes:
        wiped = [each.broker_name for each in told.wiped_groups]
        if wiped or told.config_warnings:
            return f"{named(wiped, 1)} not writable" if wiped else "wrong configuration"
        return "events lost" if told.brokers.expected else "no brokers"
    of_gravest = [each for each in told.causes if each.state == told.causes[0].state]
    first = of_gravest[0]
    count = sum(each.count for each in of_gravest)
    is_place = len(of_gravest) == 1 and first.scope != "some"
    return f"{first.name if is_place and first.scope != 'all' else counted(count, 'broker')} {first.state}"


def _wiped_text(wiped: Sequence[WipedGroup]) -> str:
    """Return which groups take no writes since a command, and what that does to their topics."""
    since = clock_text(min(each.since for each in wiped))
    who = sorted({each.requested_by for each in wiped if each.requested_by})
    by = f" (wiped by {listed(who)})" if who else " (wiped)"
    topics, read_only = sum(each.topics for each in wiped), sum(each.read_only for each in wiped)
    effect = counted(topics, "topic") + (
        " read-only"
        if read_only == topics
        else f", {read_only:,} of them read-only"
        if read_only
        else " writable only on other broker groups"
    )
    return f"{named([each.broker_name for each in wiped], _FEW)} not writable since {since}{by}: {effect}"


def _lost_text(names: Sequence[str], state: str) -> str:
    """Return which topics are in a state; of one its name, of many how many, with the first of them."""
    if len(names) == 1:
        return f"{names[0]} {state}"
    return f"{counted(len(names), 'topic')} {state} ({named(sorted(names, key=natural_key), _FEW)})"


def _removed_text(topics: Collection[str]) -> str:
    """Return which topics were removed: `topic A removed`, `topics A, B, C and 7 more removed`."""
    return f"topic{'s' * (len(topics) > 1)} {named(sorted(topics, key=natural_key), _FEW)} removed"


def _away_text(away: Left) -> str:
    """Return who is in planned absence until when, and which topics have no route meanwhile."""
    text = absence_text(len(away.brokers), (each.absence for each in away.brokers if each.absence))
    return f"{text}; {_lost_text(sorted(away.topics), 'without a route meanwhile')}" if away.topics else text


def _with_acknowledgement(cause: Cause) -> str:
    return f"{cause.text} ({cause.acknowledged.text})" if cause.acknowledged else cause.text


def _brokers_text(told: Verdict, left: Left, brokers: Sequence[Member]) -> Iterator[str]:
    down = [each for each in told.causes if each.state == "down"]
    counts = told.brokers
    if len(down) > 1:
        names = [f"{each.name}{' (acknowledged)' if each.acknowledged else ''}" for each in down[:_TOLD]]
        rest = counts.down - sum(each.count for each in down[:_TOLD])
        places = ", ".join(names) + (f" and {rest:,} more" if rest else "")
        yield f"{counts.down:,} of {counted(counts.expected, 'broker')} down: {places}"
    elif down:
        yield _with_acknowledgement(down[0])
    elif not brokers:
        yield "no brokers up" if counts.planned else "no brokers registered"
    elif counts.suspect == counts.up:
        pass  # the next part names them
    elif len(brokers) == 1:
        yield f"{broker_text(brokers[0].name, brokers[0].broker_id)} up"
    else:
        yield f"{counted(counts.up, 'broker') if left.brokers else all_of(counts.up, 'broker')} up"
    yield from (_with_acknowledgement(each) for each in told.causes if each.state == "suspect")
    if left.brokers:
        first, count = left.brokers[0], len(left.brokers)
        at = clock_text(first.gone_ms)
        who = f"{broker_text(first.broker_name, first.broker_id)} unregistered at {at} and has not returned"
        many = f"{count:,} brokers unregistered, the last at {at}, and have not returned"
        removed = f" ({_removed_text(left.topics)} with {'it' if count == 1 else 'them'})" if left.topics else ""
        yield f"{who if count == 1 else many}{removed}"
