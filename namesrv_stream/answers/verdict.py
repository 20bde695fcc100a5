"""The verdict about a moment: which brokers are down and since when, by what they share, and what that does to topics.

docs/definitions.md has the meaning of the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Self

import msgspec

from namesrv_stream.answers.causes import Cause, Member, State, causes, clock_text
from namesrv_stream.answers.definitions import (
    EXPECTED_MS,
    LEFT,
    DownBroker,
    LostTopics,
    TopicState,
    TopicVerdict,
    down_brokers,
    gone_brokers,
    last_topics,
    left_brokers,
    lost_topics,
    topic_verdict,
    wipes,
)
from namesrv_stream.answers.model import AnswerModel, not_found
from namesrv_stream.reporting.texts import SHOWN_ZONE, Time, all_of, counted, listed, natural_key
from namesrv_stream.rules.lease import is_late
from namesrv_stream.rules.record_types import MASTER_ID, is_system_topic
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.schemas import BROKER, TOPIC

_TOLD, _FEW = 2, 3
LATELY_MS = 3_600_000
"""Time for which the verdict names brokers that unregistered and are not back, and a broker's page its return."""
_LOST_SERVICE: dict[TopicState, tuple[str, str]] = {
    "without_route": ("has no route", "have no route"),
    "not_writable": ("takes no messages", "take no messages"),
}
SUFFERS: dict[TopicState, tuple[str, str]] = {**_LOST_SERVICE, "degraded": ("is degraded", "are degraded")}
"""State of topics -> what is said of one of them and of several."""


class BrokerCounts(AnswerModel):
    """Numbers of brokers: those that are expected are up or down; of those that are up some are late or suspect.

    `late`: null for a past moment, whose signs of life are not known. `left`: those that unregistered within an hour
    and are not back. `namesWithoutMaster`: broker names that are expected and have no master.
    """

    expected: int
    up: int
    down: int
    late: int | None
    suspect: int
    left: int
    names_without_master: int


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
    """The sentence that tells what is wrong, the gravest first. `level`: how bad it is. `causes`: the largest first.

    `unknownSince`: the verdict is of that time, because nothing newer is known; null if the job runs.
    """

    level: Literal["ok", "warning", "critical"]
    text: str
    brokers: BrokerCounts
    topics: TopicCounts
    causes: list[Cause]
    wiped_groups: list[WipedGroup] = []  # noqa: RUF012  # msgspec copies it
    unknown_since: Time | None = None


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

    def verdicts() -> TopicVerdicts:
        queues, brokers = registry.queues, registry.brokers
        found = queues.by_rows(lambda rows: topic_verdict(rows, brokers))
        found |= {topic: topic_verdict(queues.get(topic, ()), brokers, names) for topic, names in lost.items()}
        return TopicVerdicts(found, _system_among(registry, found, of_gone))

    return registry.once("topics", verdicts, TOPIC, BROKER, key=(frozenset(lost.items()), of_gone), most=2)


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
    """

    left: Left = NOBODY
    wiped: Sequence[WipedGroup] = ()
    lost_until_ms: int | None = None

    @classmethod
    def of(cls, registry: RegistryAt, topics: TopicVerdicts) -> Self:
        """Return it for a moment."""
        unknown, now_ms = registry.unknown, registry.now_ms
        lost_ms = None if unknown is None or unknown.until_millis < now_ms - EXPECTED_MS else unknown.until_millis
        return cls(left_of(registry, topics), wiped_groups(registry, topics), lost_ms)


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
    late, unmastered = None if is_past else states["late"], len(names - mastered)
    counts = BrokerCounts(len(brokers), up, states["down"], late, states["suspect"], len(left.brokers), unmastered)
    kinds = ("writable", "read_only", "degraded", "not_writable", "without_route")
    of_kind = TopicCounts(sum(map(len, of_state.values())), *(len(of_state.get(kind, ())) for kind in kinds))
    found = causes(brokers)
    is_critical = counts.down or of_kind.not_writable or of_kind.without_route
    is_warning = counts.suspect or counts.late or of_kind.degraded or not counts.expected or any(beside[1:])
    level: Literal["ok", "warning", "critical"] = "critical" if is_critical else "warning" if is_warning else "ok"
    text = _text(counts, of_kind, of_state, found, beside)
    return Verdict(level, text, counts, of_kind, found, list(beside.wiped))


def verdict_of(registry: RegistryAt, doubt: Doubt | None = None) -> Verdict:
    """Return the verdict about a moment; about the present, `doubt` is why it is not known."""

    def known() -> Verdict:
        topics = topic_verdicts(registry, lost_topics(registry))
        brokers = members(registry, down_brokers(registry))
        return verdict(brokers, topics, Beside.of(registry, topics), is_past=registry.is_historical)

    found = registry.once("verdict", known, key=str(SHOWN_ZONE.get()))
    if doubt is None or registry.is_historical:
        return found
    text = f"Not known since {_second_text(doubt.since_ms)} ({doubt.reason}): {found.text}"
    level: Literal["warning", "critical"] = "warning" if found.level == "ok" else found.level
    return msgspec.structs.replace(found, level=level, text=text, unknown_since=Time(doubt.since_ms))


def _text(
    brokers: BrokerCounts,
    topics: TopicCounts,
    of_state: Mapping[str, Sequence[str]],
    found: Sequence[Cause],
    beside: Beside,
) -> str:
    left = beside.left
    lost = [_topics_text(names, *words) for state, words in _LOST_SERVICE.items() if (names := of_state.get(state))]
    parts = [", ".join(lost)] if lost else []
    parts += _brokers_text(brokers, found, left)
    parts += [f"{brokers.late:,} late"] if brokers.late else []
    if topics.degraded:
        parts.append(f"{counted(topics.degraded, 'topic')} {SUFFERS['degraded'][topics.degraded > 1]}")
    if topics.read_only and (lost or topics.degraded):
        parts.append(f"{counted(topics.read_only, 'topic')} {'is' if topics.read_only == 1 else 'are'} read-only")
    if topics.total and not lost and not topics.degraded:
        parts.append(f"every topic is writable{f' but {topics.read_only:,} read-only' if topics.read_only else ''}")
    if beside.wiped:
        parts.append(_wiped_text(beside.wiped))
    if beside.lost_until_ms is not None:
        until = _second_text(beside.lost_until_ms)
        parts.append(f"brokers and topics that went before {until} may be missing here, because events were lost")
    is_plain = not (brokers.down or lost or left.brokers or beside.wiped)
    text = (", " if len(parts) == 2 and is_plain else "; ").join(parts)
    return text if lost or brokers.down else text[:1].upper() + text[1:]


def _wiped_text(wiped: Sequence[WipedGroup]) -> str:
    """Return which groups take no writes since a command, and what that does to their topics."""
    names = [each.broker_name for each in wiped[:_FEW]]
    more = f" and {len(wiped) - _FEW:,} more" if len(wiped) > _FEW else ""
    first = min(wiped, key=lambda each: each.since)
    since = _second_text(first.since)
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
    shown = f"{', '.join(names)}{more}" if more else listed(names)
    return f"{shown} not writable since {since}{by}: {effect}"


def _topics_text(names: Sequence[str], of_one: str, of_many: str) -> str:
    if len(names) > _FEW:
        return f"{len(names):,} topics {of_many}"
    return f"{listed(sorted(names, key=natural_key))} {of_one if len(names) == 1 else of_many}"


def _brokers_text(brokers: BrokerCounts, found: Sequence[Cause], left: Left) -> Iterator[str]:
    down = [each for each in found if each.state == "down"]
    if len(down) > 1:
        told = [each.name for each in down[:_TOLD]]
        rest = brokers.down - sum(each.count for each in down[:_TOLD])
        more = f" and {rest:,} more" if rest else ""
        yield f"{brokers.down:,} of {counted(brokers.expected, 'broker')} are down: {', '.join(told)}{more}"
    elif down:
        yield down[0].text
    elif not brokers.expected:
        yield "no broker is registered"
    elif left.brokers:
        yield f"{counted(brokers.up, 'broker')} {'are' if brokers.up > 1 else 'is'} up"
    else:
        yield f"{all_of(brokers.up, 'broker')} are up" if brokers.up > 1 else "the only broker is up"
    yield from (each.text for each in found if each.state == "suspect")
    if left.brokers:
        count, at = len(left.brokers), clock_text(left.brokers[0].gone_ms, left.brokers[0].gone_ms)
        topics = counted(len(left.topics), "topic")
        went = f", {topics} went with {'it' if count == 1 else 'them'}" if left.topics else ""
        if count == 1:
            yield f"1 unregistered at {at} and is not back{went}"
        else:
            yield f"{count:,} unregistered, the last at {at}, and are not back{went}"


def _second_text(at_ms: int) -> str:
    """Return a time in the shown zone, to the second; with the day if it is not today's."""
    at, now = datetime.fromtimestamp(at_ms / 1000, SHOWN_ZONE.get()), datetime.now(SHOWN_ZONE.get())
    return f"{at:%H:%M:%S %Z}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S %Z}"
