"""The verdict about a moment: which brokers are down and since when, by what they share, and what that does to topics.

docs/definitions.md has the meaning of the words. A sentence about a group of brokers is made here and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from namesrv_stream.history.definitions import (
    TOGETHER_MS,
    DownBroker,
    LostTopics,
    Past,
    TopicVerdict,
    down_brokers,
    lost_topics,
    topic_verdict,
)
from namesrv_stream.questions.subject import Fields, Seen, now_of
from namesrv_stream.reporting.recent import Recent
from namesrv_stream.reporting.texts import counted, iso_text, natural_key
from namesrv_stream.rules.lease import silence_ms
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.rules.topic_names import is_system_topic

State = Literal["alive", "late", "suspect", "down"]
Scope = Literal["all", "zone", "cluster", "some", "broker"]
_WORST_FIRST: tuple[State, ...] = ("down", "suspect", "late")
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NAMED, _TOLD = 6, 2


class BrokerId(Fields):
    """A broker that is down, suspect or late."""

    cluster_name: str
    broker_name: str
    broker_id: int
    broker_addr: str


class Cause(Fields):
    """`count` of the `total` brokers in one place that are in one state since about the same time.

    `scope`: all brokers, all of a zone or of a cluster, one broker, or `some`. `zones` and `clusters` are those of the
    brokers. A broker that is down fell out at its last sign of life if it was silent: `firstAt` and `lastAt` are the
    first and the last such time. `goneAt`: the first end of a lease, from which on clients did not get the broker.
    `endedBy`: numbers of brokers by the type of their end. `brokers` lists the first of them.
    """

    state: State
    scope: Scope
    text: str
    count: int
    total: int
    zones: list[str | None]
    clusters: list[str]
    first_at: str
    last_at: str
    gone_at: str | None
    ended_by: dict[str, int]
    brokers: list[BrokerId]


class BrokerCounts(Fields):
    """Numbers of brokers: those that are expected are up or down; of those that are up some are late or suspect."""

    expected: int
    up: int
    down: int
    late: int
    suspect: int


class TopicCounts(Fields):
    """Numbers of topics by state, without those that brokers make by themselves."""

    total: int
    writable: int
    read_only: int
    degraded: int
    not_writable: int
    without_route: int


class Verdict(Fields):
    """The sentence that tells what is wrong, with numbers. `level`: how bad it is. `causes`: the largest first."""

    level: Literal["ok", "warning", "critical"]
    text: str
    brokers: BrokerCounts
    topics: TopicCounts
    causes: list[Cause]


class Member(NamedTuple):
    """A broker that is expected. `at_ms`: when it was heard last, became suspect, or fell out."""

    cluster: str
    zone: str | None
    name: str
    broker_id: int
    address: str
    state: State
    at_ms: int
    down: DownBroker | None = None


def state_of(seen: Seen, lease: LiveRow) -> State:
    """Return the state of a lease. Nobody is late where signs of life are not known."""
    if lease.suspect_since is not None:
        return "suspect"
    if seen.is_made:
        return "alive"
    return "late" if silence_ms(lease, seen.snapshot) > lease.heartbeat_timeout_millis // 2 else "alive"


def past_of(seen: Seen) -> Past:
    """Return the history up to the moment."""
    return Past(seen.root, seen.snapshot, seen.is_made, now_of(seen.snapshot))


def down_of(seen: Seen) -> list[DownBroker]:
    """Return the brokers that are down, the latest first."""
    return down_brokers(past_of(seen), seen.tables)


def lost_of(seen: Seen, down: Sequence[DownBroker]) -> LostTopics:
    """Return the topics of the broker names that are down."""
    return lost_topics(past_of(seen), seen.tables, down)


def members(seen: Seen, down: Iterable[DownBroker]) -> list[Member]:
    """Return every broker that is expected, by natural order of the names."""
    tables = seen.tables
    found = [
        Member(each.cluster_name, each.zone_name, *each[1:3], each.broker_addr, "down", each.fell_ms, each)
        for each in down
    ]
    for name, holders in tables.brokers.items():
        for broker_id, row in holders.items():
            lease = tables.live[row.broker_addr]
            at_ms = lease.suspect_since or lease.last_update_timestamp
            state = state_of(seen, lease)
            found.append(Member(row.cluster_name, row.zone_name, name, broker_id, row.broker_addr, state, at_ms))
    return sorted(found, key=lambda each: (natural_key(each.name), each.broker_id, each.cluster))


class TopicVerdicts(NamedTuple):
    """The state of each topic, lost ones too. `system`: those that brokers make by themselves."""

    of: Mapping[str, TopicVerdict]
    system: frozenset[str]


_kept: Recent[TopicVerdicts] = Recent(most=2)


def topic_verdicts(seen: Seen, lost: LostTopics) -> TopicVerdicts:
    """Return the state of each topic of the routes and in `lost`.

    The last results are kept, because a snapshot that has only signs of life changes nothing here.
    """
    row, of_lost = seen.snapshot, frozenset(lost.items())
    key = (
        seen.root.url,
        row.run_id,
        row.versions["topic"],
        row.versions["broker"],
        seen.is_made and (row.epoch, row.event_time),
        of_lost,
    )
    return _kept.get(key, lambda: _topic_verdicts(seen.tables, lost))


def _topic_verdicts(tables: RouteTables, lost: LostTopics) -> TopicVerdicts:
    found = tables.queues.by_rows(lambda rows: topic_verdict(rows, tables))
    found |= {topic: topic_verdict(tables.queues.get(topic, ()), tables, names) for topic, names in lost.items()}
    of_brokers = {*tables.brokers, *tables.clusters, *(name for names in lost.values() for name in names)}
    return TopicVerdicts(found, frozenset(topic for topic in found if is_system_topic(topic, of_brokers)))


def verdict(brokers: Sequence[Member], topics: TopicVerdicts) -> Verdict:
    """Return the verdict about brokers and topics."""
    states = Counter(each.state for each in brokers)
    of_topics = Counter[str](each.state for each in topics.of.values())
    of_topics.subtract(topics.of[topic].state for topic in topics.system)
    up = len(brokers) - states["down"]
    counts = BrokerCounts(len(brokers), up, states["down"], states["late"], states["suspect"])
    kinds = ("writable", "read_only", "degraded", "not_writable", "without_route")
    of_kind = TopicCounts(of_topics.total(), *(of_topics[kind] for kind in kinds))
    found = causes(brokers)
    is_critical = counts.down or of_kind.not_writable or of_kind.without_route
    is_warning = counts.suspect or counts.late or of_kind.degraded
    level: Literal["ok", "warning", "critical"] = "critical" if is_critical else "warning" if is_warning else "ok"
    return Verdict(level, _text(counts, of_kind, found), counts, of_kind, found)


def _text(brokers: BrokerCounts, topics: TopicCounts, found: Sequence[Cause]) -> str:
    told = [each.text for each in found if each.state != "late"]
    parts = [*told[:_TOLD], *([f"{len(told) - _TOLD:,} more causes"] if len(told) > _TOLD else [])]
    if not brokers.expected:
        parts = ["no broker is registered"]
    elif not brokers.down:
        parts.insert(0, f"all {counted(brokers.up, 'broker')} are up" if brokers.up > 1 else "the only broker is up")
    parts += [f"{brokers.late:,} late"] if brokers.late else []
    parts += [_topics_text(topics)] if topics.total else []
    joint = ", " if len(parts) == 2 and not told else "; "
    text = joint.join(parts)
    return text[:1].upper() + text[1:] if not told else text


def _topics_text(topics: TopicCounts) -> str:
    counts = {
        "without route": topics.without_route,
        "not writable": topics.not_writable,
        "degraded": topics.degraded,
    }
    wrong = [(count, what) for what, count in counts.items() if count]
    if wrong:
        (count, what), *others = wrong
        return ", ".join([f"{counted(count, 'topic')} {what}", *(f"{count:,} {what}" for count, what in others)])
    return f"every topic is writable{f' but {topics.read_only:,} read-only' if topics.read_only else ''}"


def causes(brokers: Sequence[Member]) -> list[Cause]:
    """Return what is wrong with brokers, by what they share: the state, the time, and then the zone or the cluster."""
    found: list[Cause] = []
    for state in _WORST_FIRST:
        of_state = sorted((each for each in brokers if each.state == state), key=lambda each: each.at_ms)
        groups = _together(of_state) if state == "down" else [of_state] if of_state else []
        found += sorted((cause for group in groups for cause in _causes(group, brokers)), key=lambda each: -each.count)
    return found


def _together(fallen: Iterable[Member]) -> Iterator[list[Member]]:
    """Yield the groups of brokers that fell out together: each within a minute of the one before."""
    group: list[Member] = []
    for each in fallen:
        if group and each.at_ms - group[-1].at_ms > TOGETHER_MS:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _causes(group: Sequence[Member], brokers: Sequence[Member]) -> Iterator[Cause]:
    """Yield the zones and clusters of which all brokers are in the group, and then the rest of the group."""
    rest = list(group)
    if len(rest) > 1 and len(rest) == len(brokers):
        yield _cause("all", rest, brokers, brokers)
        return
    axes: tuple[tuple[Scope, int], ...] = (("zone", 1), ("cluster", 0))
    for scope, column in axes:
        for place in sorted({str(each[column]) for each in rest if each[column] is not None}, key=natural_key):
            of_place, around = ([each for each in some if each[column] == place] for some in (rest, brokers))
            if 1 < len(of_place) == len(around):
                yield _cause(scope, of_place, around, brokers)
                rest = [each for each in rest if each[column] != place]
    if rest:
        yield _cause("broker" if len(rest) == 1 else "some", rest, _around(rest, brokers), brokers)


def _around(group: Sequence[Member], brokers: Sequence[Member]) -> Sequence[Member]:
    """Return the brokers of the clusters and zones of a group."""
    places = [{each[column] for each in group} for column in (0, 1)]
    return [each for each in brokers if each.cluster in places[0] and each.zone in places[1]]


def _cause(scope: Scope, group: Sequence[Member], around: Sequence[Member], brokers: Sequence[Member]) -> Cause:
    times = [each.at_ms for each in group]
    gone = [each.down for each in group if each.down is not None]
    ordered = sorted(group, key=lambda each: (natural_key(each.name), each.broker_id))
    return Cause(
        state=group[0].state,
        scope=scope,
        text=cause_text(scope, group, around, brokers),
        count=len(group),
        total=len(around),
        zones=sorted({each.zone for each in group}, key=lambda zone: natural_key(zone or "")),
        clusters=sorted({each.cluster for each in group}, key=natural_key),
        first_at=iso_text(min(times)),
        last_at=iso_text(max(times)),
        gone_at=iso_text(min(each.gone_ms for each in gone)) if gone else None,
        ended_by=dict(Counter(each.ended_by for each in gone)),
        brokers=[BrokerId(each.cluster, each.name, each.broker_id, each.address) for each in ordered[:_NAMED]],
    )


def cause_text(scope: Scope, group: Sequence[Member], around: Sequence[Member], brokers: Sequence[Member]) -> str:
    """Return the sentence about brokers that share a state, without a full stop."""
    first, since = group[0], f"since {clock_text(min(each.at_ms for each in group), max(e.at_ms for e in brokers))}"
    if scope == "broker":
        return f"{first.name} {first.broker_id} of {first.cluster} ({first.address}) is {first.state} {since}"
    share = f"{len(group):,} of {counted(len(around), 'broker')}"
    of_all = f"({_percent(len(group), len(brokers))})"
    match scope:
        case "all":
            return f"all {counted(len(group), 'broker')} are {first.state} {since}"
        case "zone":
            return f"zone {first.zone} is {first.state}{_in_clusters(around, brokers)}: {share} {of_all} {since}"
        case "cluster":
            return f"{first.cluster} is {first.state}: {share} {of_all} {since}"
    return f"{share} {_place(group)} are {first.state} {of_all} {since}"


def _in_clusters(around: Iterable[Member], brokers: Iterable[Member]) -> str:
    """Return the clusters of a zone, as a part of a sentence; nothing if there is one cluster alone."""
    here, every = ({each.cluster for each in of} for of in (around, brokers))
    if len(every) == 1:
        return ""
    if here == every:
        return f" in all {_number(len(every))} clusters" if len(every) > 2 else " in both clusters"
    return f" in {min(here)}" if len(here) == 1 else f" in {_number(len(here))} of {_number(len(every))} clusters"


def _place(group: Iterable[Member]) -> str:
    """Return where a group is: of one zone, of one cluster, or in how many of both."""
    zones, clusters = {each.zone for each in group}, {each.cluster for each in group}
    of_zone = f"zone {next(iter(zones))}" if len(zones) == 1 and None not in zones else ""
    of_cluster = next(iter(clusters)) if len(clusters) == 1 else f"{_number(len(clusters))} clusters"
    if of_zone:
        return f"of {of_zone} in {of_cluster}"
    return f"in {of_cluster}" + (f" and {_number(len(zones))} zones" if len(zones) > 1 else "")


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _percent(count: int, total: int) -> str:
    percent = round(100 * count / total)
    if percent == 100 and count < total:
        return "over 99 %"
    return f"{percent} %" if percent else "under 1 %"


def clock_text(at_ms: int, now_ms: int) -> str:
    """Return a time in UTC: by the minute, with the day if it is not the day of `now_ms`."""
    at, now = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (at_ms, now_ms))
    return f"{at:%H:%M} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M} UTC"
