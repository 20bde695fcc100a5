"""A moment at a glance: first the troubles, then the zones of each cluster as numbers, then the last events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from namesrv_stream.history.definitions import UNPLANNED
from namesrv_stream.history.events import Span, newest_events, recorded_rows
from namesrv_stream.questions.accounts import Told, sentence, told_together
from namesrv_stream.questions.lists import EVERY_BROKER, Chosen, Cluster, clusters, state_of, system_topics
from namesrv_stream.questions.subject import Fields, Moment, Page, Seen, now_of, paged
from namesrv_stream.reporting.texts import iso_text, natural_key
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.rows import BrokerEventRow

HOUR_MS = 3_600_000
MOST_DRAWN = 60
"""Most broker names for which an overview lists each broker. For more it has only numbers."""

_MOST_GONE_DRAWN = 100
_MOST_RECENT = 20_000
_NAMED = 6
_EVENTS = 20

AnyState = Literal["alive", "late", "suspect", "gone"]
Place = tuple[str, str | None]
"""A cluster and a zone."""


class Gone(Fields):
    """A broker address whose lease ended within the last hour, and which has none since."""

    broker_addr: str
    cluster_name: str
    broker_name: str
    broker_id: int
    zone_name: str | None
    ended_by: str
    gone_at: str
    text: str


class GonePage(Page):
    """A page of brokers that are gone, by address."""

    gone: list[Gone]


class Counts(Fields):
    """Numbers of a moment. `gone`: addresses that have left within the last hour."""

    clusters: int
    broker_names: int
    alive: int
    late: int
    suspect: int
    gone: int
    topics: int
    system_topics: int


class Group(Fields):
    """The holders of ids in one zone of one cluster, as numbers."""

    cluster_name: str
    zone_name: str | None
    broker_names: int
    alive: int
    late: int
    suspect: int
    gone: int


class BrokerId(Fields):
    """A broker in trouble."""

    broker_name: str
    broker_id: int
    broker_addr: str


class Trouble(Fields):
    """Trouble in one zone of one cluster: `count` addresses of `total` are late, suspect, or gone by `endedBy`.

    `brokers` lists the first of them. `firstAt` and `lastAt`: when the first and the last of them was heard for the
    last time, became suspect, or left.
    """

    cluster_name: str
    zone_name: str | None
    state: AnyState
    ended_by: str | None
    unplanned: bool
    count: int
    total: int
    first_at: str
    last_at: str
    brokers: list[BrokerId]


class Overview(Fields):
    """A moment at a glance. `clusters` and `gone` are empty for very many brokers: see /v1/brokers and /v1/gone."""

    snapshot: Moment
    kind: str | None
    term: int
    run_id: str
    counts: Counts
    trouble: list[Trouble]
    groups: list[Group]
    clusters: list[Cluster]
    gone: list[Gone]
    last_hour: dict[str, int]
    events: list[Told]


class _Broker(NamedTuple):
    """A broker address, with its trouble since `at_ms`."""

    place: Place
    name: str
    broker_id: int
    address: str
    state: AnyState
    at_ms: int
    ended_by: str | None = None

    @classmethod
    def gone(cls, line: BrokerEventRow) -> _Broker:
        """Return the broker whose lease a line ends."""
        place, name, address = (line.cluster_name or "", _zone(line)), line.broker_name or "", line.broker_addr or ""
        return cls(place, name, line.broker_id or 0, address, "gone", line.event_time, line.type)


def overview(seen: Seen) -> Overview:
    """Return the overview of a moment, which the page shows first."""
    row, tables, recent = seen.snapshot, seen.tables, _recent(seen)
    ends = _ends(seen, recent)
    brokers, system = [*map(_Broker.gone, ends), *_members(seen)], len(system_topics(seen))
    states = Counter(each.state for each in brokers)
    is_small = len(tables.brokers) <= MOST_DRAWN
    counts = Counts(
        clusters=len(tables.clusters),
        broker_names=len(tables.brokers),
        alive=states["alive"],
        late=states["late"],
        suspect=states["suspect"],
        gone=len(ends),
        topics=len(tables.queues) - system,
        system_topics=system,
    )
    return Overview.of(
        row,
        snapshot=seen.moment,
        counts=counts,
        trouble=_trouble(brokers),
        groups=_groups(brokers),
        clusters=clusters(seen).clusters if is_small else [],
        gone=list(map(_gone, ends)) if is_small and len(ends) <= _MOST_GONE_DRAWN else [],
        last_hour=dict(Counter(line.type for line in recent)),
        events=told_together(reversed(recent or newest_events(seen.root, row, limit=_EVENTS)), _EVENTS),
    )


def gone_page(seen: Seen, chosen: Chosen = EVERY_BROKER, *, limit: int | None = None, after: str = "") -> GonePage:
    """Return a page of the addresses that left within the last hour and have no lease, newest first."""
    found = list(map(_gone, _ends(seen, _recent(seen))))
    wanted = [
        each for each in found if chosen.has(each.cluster_name, each.zone_name, each.broker_name, each.broker_addr)
    ]
    page, following = paged(wanted, lambda each: each.broker_addr, limit, after)
    return GonePage(seen.moment, len(wanted), following, page)


def _recent(seen: Seen) -> Sequence[BrokerEventRow]:
    hour = Span(now_of(seen.snapshot) - HOUR_MS + 1)
    return newest_events(seen.root, seen.snapshot, span=hour, limit=_MOST_RECENT, with_versions=False)


def _ends(seen: Seen, lines: Iterable[BrokerEventRow]) -> list[BrokerEventRow]:
    """Return the end of the last lease of each address that has no lease now, newest first."""
    ends = {line.broker_addr: line for line in lines if line.type in LEASE_ENDS and line.lease_millis is not None}
    live = seen.tables.live
    return sorted((line for each, line in ends.items() if each not in live), key=lambda line: -line.event_time)


def _gone(line: BrokerEventRow) -> Gone:
    """Return the broker whose lease a line ends."""
    more = {"ended_by": line.type, "gone_at": iso_text(line.event_time), "text": sentence(line)}
    return Gone.of(line, zone_name=_zone(line), **more)


def _zone(line: BrokerEventRow) -> str | None:
    return next((row.get("zone_name") for row in recorded_rows(line.before).get("broker", ())), None)


def _members(seen: Seen) -> Iterator[_Broker]:
    """Yield the holders of all ids."""
    for name, holders in seen.tables.brokers.items():
        for broker_id, row in holders.items():
            lease, place = seen.tables.live[row.broker_addr], (row.cluster_name, row.zone_name)
            at_ms = lease.suspect_since or lease.last_update_timestamp
            yield _Broker(place, name, broker_id, row.broker_addr, state_of(seen, lease), at_ms)


def _groups(brokers: Iterable[_Broker]) -> list[Group]:
    of_place: dict[Place, list[_Broker]] = {}
    for each in brokers:
        of_place.setdefault(each.place, []).append(each)
    return [_group(place, of_place[place]) for place in sorted(of_place, key=_natural)]


def _natural(place: Place) -> tuple[object, object]:
    return natural_key(place[0]), natural_key(place[1] or "")


def _group(place: Place, brokers: Sequence[_Broker]) -> Group:
    names = {each.name for each in brokers if each.state != "gone"}
    states = Counter(each.state for each in brokers)
    return Group(*place, len(names), states["alive"], states["late"], states["suspect"], states["gone"])


def _trouble(brokers: Sequence[_Broker]) -> list[Trouble]:
    """Return the troubles: unplanned ends first, then those with the greatest numbers."""
    totals = Counter(each.place for each in brokers)
    found: dict[tuple[Place, str, str | None], list[_Broker]] = {}
    for each in brokers:
        if each.state != "alive":
            found.setdefault((each.place, each.state, each.ended_by), []).append(each)
    shown = [_one_trouble(of_one, totals[of_one[0].place]) for of_one in found.values()]
    return sorted(shown, key=lambda each: (not each.unplanned, each.state == "late", -each.count))


def _one_trouble(brokers: Sequence[_Broker], total: int) -> Trouble:
    first, times = brokers[0], [each.at_ms for each in brokers]
    by_name = sorted(brokers, key=lambda each: (natural_key(each.name), each.broker_id))
    return Trouble(
        cluster_name=first.place[0],
        zone_name=first.place[1],
        state=first.state,
        ended_by=first.ended_by,
        unplanned=first.ended_by is None or first.ended_by in UNPLANNED,
        count=len(brokers),
        total=total,
        first_at=iso_text(min(times)),
        last_at=iso_text(max(times)),
        brokers=[BrokerId(each.name, each.broker_id, each.address) for each in by_name[:_NAMED]],
    )
