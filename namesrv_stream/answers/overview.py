"""A moment at a glance: the verdict, the zones of each cluster as numbers, and the last events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from namesrv_stream.answers.causes import Member
from namesrv_stream.answers.definitions import down_brokers, lost_topics
from namesrv_stream.answers.events import Span, newest_events
from namesrv_stream.answers.last_events import Headline, group_events
from namesrv_stream.answers.lists import Cluster, clusters
from namesrv_stream.answers.subject import Fields, Moment, Seen, now_of
from namesrv_stream.answers.verdict import Verdict, left_of, members, topic_verdicts, verdict
from namesrv_stream.reporting.texts import natural_key
from namesrv_stream.rules.rows import BrokerEventRow

HOUR_MS = 3_600_000
MAX_DRAWN = 60
"""Most broker names for which an overview lists each broker. For more it has only numbers."""

_MAX_RECENT = 20_000
_EVENTS = 20


class Counts(Fields):
    """Numbers of a moment, of brokers by state. `brokerNames`: those that are up or down. `late`: null for the past."""

    clusters: int
    broker_names: int
    alive: int
    late: int | None
    suspect: int
    down: int
    topics: int
    system_topics: int


class Group(Fields):
    """The expected brokers in one zone of one cluster, as numbers. `late`: null for the past."""

    cluster_name: str
    zone_name: str | None
    broker_names: int
    alive: int
    late: int | None
    suspect: int
    down: int


class Overview(Fields):
    """A moment at a glance. `clusters` is empty for very many brokers: see /v1/brokers."""

    snapshot: Moment
    kind: str | None
    term: int
    run_id: str
    verdict: Verdict
    counts: Counts
    groups: list[Group]
    clusters: list[Cluster]
    last_hour: dict[str, int]
    events: list[Headline]


def verdict_of(seen: Seen) -> Verdict:
    """Return the verdict about a moment."""
    down = down_brokers(seen)
    topics = topic_verdicts(seen, lost_topics(seen))
    return verdict(members(seen, down), topics, left_of(seen, topics), is_past=seen.is_made)


def overview(seen: Seen) -> Overview:
    """Return the overview of a moment, which the page shows first."""
    down, recent = down_brokers(seen), _recent(seen)
    brokers, topics = members(seen, down), topic_verdicts(seen, lost_topics(seen))
    states, names = Counter(each.state for each in brokers), {each.name for each in brokers}
    told = verdict(brokers, topics, left_of(seen, topics), is_past=seen.is_made)
    counts = Counts(
        clusters=len({each.cluster for each in brokers}),
        broker_names=len(names),
        alive=states["alive"],
        late=told.brokers.late,
        suspect=states["suspect"],
        down=states["down"],
        topics=len(topics.of) - len(topics.system),
        system_topics=len(topics.system),
    )
    return Overview.of(
        seen.snapshot,
        snapshot=seen.moment,
        verdict=told,
        counts=counts,
        groups=_groups(brokers, is_past=seen.is_made),
        clusters=clusters(seen).clusters if len(names) <= MAX_DRAWN else [],
        last_hour=dict(Counter(line.type for line in recent)),
        events=group_events(seen, recent or newest_events(seen.root, seen.snapshot, limit=_EVENTS), _EVENTS),
    )


def _recent(seen: Seen) -> Sequence[BrokerEventRow]:
    hour = Span(now_of(seen.snapshot) - HOUR_MS + 1)
    return newest_events(seen.root, seen.snapshot, span=hour, limit=_MAX_RECENT, with_versions=False)


def _groups(brokers: Iterable[Member], *, is_past: bool) -> list[Group]:
    of_place: dict[tuple[str, str | None], list[Member]] = {}
    for each in brokers:
        of_place.setdefault((each.cluster, each.zone), []).append(each)
    ordered = sorted(of_place, key=lambda place: (natural_key(place[0]), natural_key(place[1] or "")))
    return [_group(place, of_place[place], is_past) for place in ordered]


def _group(place: tuple[str, str | None], brokers: Sequence[Member], is_past: bool) -> Group:
    states = Counter(each.state for each in brokers)
    names = len({each.name for each in brokers})
    late = None if is_past else states["late"]
    return Group(*place, names, states["alive"], late, states["suspect"], states["down"])
