"""A moment at a glance: what is wrong first, then the zones of each cluster as numbers, then what happened last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from namesrv_stream.console.answers import (
    Chosen,
    clusters,
    moment_fields,
    now_of,
    paged,
    state_of,
    system_topics,
)
from namesrv_stream.console.models import (
    GoneFields,
    GonePageFields,
    GroupFields,
    OverviewFields,
    TroubleFields,
)
from namesrv_stream.console.told import sentence, told_together
from namesrv_stream.history.churn import UNPLANNED
from namesrv_stream.history.events import Span, newest_events
from namesrv_stream.history.membership import recorded_rows
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.reader import RegistryView
from namesrv_stream.tables.root import Root
from namesrv_stream.texts import iso_text, natural_key

HOUR_MS = 3_600_000
MOST_DRAWN = 60
"""Most broker names of which an overview has each broker; of more it has the numbers alone."""

_MOST_GONE_DRAWN = 100
_MOST_RECENT = 20_000
_NAMED = 6
_EVENTS = 20

Place = tuple[str, str | None]
"""A cluster and a zone."""


class _Broker(NamedTuple):
    """A broker address with what is wrong with it, since `at_ms`."""

    place: Place
    name: str
    broker_id: int
    address: str
    state: str
    at_ms: int
    ended_by: str | None = None


def overview(root: Root, view: RegistryView) -> OverviewFields:
    """Return what the page shows of a moment first."""
    row, tables = view.snapshot, view.routes
    recent = _recent(root, row)
    brokers, ends = list(_members(view)), _ends(view, recent)
    states = Counter(each.state for each in brokers)
    is_small = len(tables.brokers) <= MOST_DRAWN
    system = len(system_topics(view))
    return {
        "snapshot": moment_fields(row),
        "kind": row.kind,
        "term": row.term,
        "runId": row.run_id,
        "counts": {
            "clusters": len(tables.clusters),
            "brokerNames": len(tables.brokers),
            "alive": states["alive"],
            "late": states["late"],
            "suspect": states["suspect"],
            "gone": len(ends),
            "topics": len(tables.queues) - system,
            "systemTopics": system,
        },
        "trouble": _trouble(brokers, list(map(_gone_broker, ends))),
        "groups": _groups(brokers, list(map(_gone_broker, ends))),
        "clusters": clusters(view) if is_small else [],
        "gone": list(map(_gone_fields, ends)) if is_small and len(ends) <= _MOST_GONE_DRAWN else [],
        "lastHour": dict(Counter(line.type for line in recent)),
        "events": told_together(reversed(recent or newest_events(root, row, limit=_EVENTS)), _EVENTS),
    }


def gone_page(root: Root, view: RegistryView, limit: int, after: str, chosen: Chosen) -> GonePageFields:
    """Return a page of the addresses that left within the last hour and have no lease, newest first."""
    ends = [
        each
        for each in _ends(view, _recent(root, view.snapshot))
        if chosen.has(each.cluster_name or "", _zone(each), each.broker_name or "", each.broker_addr or "")
    ]
    page, following = paged(ends, lambda each: each.broker_addr or "", limit, after)
    shown = list(map(_gone_fields, page))
    return {"snapshot": moment_fields(view.snapshot), "total": len(ends), "gone": shown, "next": following}


def _recent(root: Root, row: SnapshotRow) -> Sequence[BrokerEventRow]:
    hour = Span(now_of(row) - HOUR_MS + 1)
    return newest_events(root, row, span=hour, limit=_MOST_RECENT, with_versions=False)


def _ends(view: RegistryView, lines: Iterable[BrokerEventRow]) -> list[BrokerEventRow]:
    """Return the ends of the last leases of the addresses that have none now, newest first."""
    ends = {line.broker_addr: line for line in lines if line.type in LEASE_ENDS and line.lease_millis is not None}
    live = view.routes.live
    return sorted((line for each, line in ends.items() if each not in live), key=lambda line: -line.event_time)


def _zone(line: BrokerEventRow) -> str | None:
    """Return the zone in which a broker was whose lease a line ends."""
    rows = recorded_rows(line.before).get("broker", ())
    return next((row.get("zone_name") for row in rows), None)


def _gone_fields(line: BrokerEventRow) -> GoneFields:
    return {
        "brokerAddr": line.broker_addr or "",
        "clusterName": line.cluster_name or "",
        "brokerName": line.broker_name or "",
        "brokerId": line.broker_id or 0,
        "zoneName": _zone(line),
        "endedBy": line.type,
        "goneAt": iso_text(line.event_time),
        "text": sentence(line),
    }


def _gone_broker(line: BrokerEventRow) -> _Broker:
    place = (line.cluster_name or "", _zone(line))
    name, broker_id, address = line.broker_name or "", line.broker_id or 0, line.broker_addr or ""
    return _Broker(place, name, broker_id, address, "gone", line.event_time, line.type)


def _members(view: RegistryView) -> Iterator[_Broker]:
    """Yield the holders of all ids."""
    for name, holders in view.routes.brokers.items():
        for broker_id, row in holders.items():
            lease = view.routes.live.get(row.broker_addr)
            at_ms = (lease.suspect_since or lease.last_update_timestamp) if lease else now_of(view.snapshot)
            place = (row.cluster_name, row.zone_name)
            yield _Broker(place, name, broker_id, row.broker_addr, state_of(view, lease), at_ms)


def _groups(brokers: Iterable[_Broker], gone: Iterable[_Broker]) -> list[GroupFields]:
    names: dict[Place, set[str]] = {}
    counts: dict[Place, Counter[str]] = {}
    for each in (*brokers, *gone):
        names.setdefault(each.place, set()).update([each.name] if each.state != "gone" else ())
        counts.setdefault(each.place, Counter())[each.state] += 1
    return [
        {
            "clusterName": place[0],
            "zoneName": place[1],
            "brokerNames": len(names[place]),
            "alive": counts[place]["alive"],
            "late": counts[place]["late"],
            "suspect": counts[place]["suspect"],
            "gone": counts[place]["gone"],
        }
        for place in sorted(counts, key=lambda place: (natural_key(place[0]), natural_key(place[1] or "")))
    ]


def _trouble(brokers: Sequence[_Broker], gone: Sequence[_Broker]) -> list[TroubleFields]:
    """Return what is wrong, unplanned ends first, then the greatest numbers."""
    totals = Counter(each.place for each in (*brokers, *gone))
    found: dict[tuple[Place, str, str | None], list[_Broker]] = {}
    for each in (*gone, *brokers):
        if each.state != "alive":
            found.setdefault((each.place, each.state, each.ended_by), []).append(each)
    shown = [_trouble_fields(of_one, totals[of_one[0].place]) for of_one in found.values()]
    return sorted(shown, key=lambda each: (not each["unplanned"], each["state"] == "late", -each["count"]))


def _trouble_fields(brokers: Sequence[_Broker], total: int) -> TroubleFields:
    first = brokers[0]
    times = [each.at_ms for each in brokers]
    by_name = sorted(brokers, key=lambda each: (natural_key(each.name), each.broker_id))
    return {
        "clusterName": first.place[0],
        "zoneName": first.place[1],
        "state": "gone" if first.state == "gone" else "suspect" if first.state == "suspect" else "late",
        "endedBy": first.ended_by,
        "unplanned": first.ended_by is None or first.ended_by in UNPLANNED,
        "count": len(brokers),
        "total": total,
        "firstAt": iso_text(min(times)),
        "lastAt": iso_text(max(times)),
        "brokers": [
            {"brokerName": each.name, "brokerId": each.broker_id, "brokerAddr": each.address}
            for each in by_name[:_NAMED]
        ],
    }
