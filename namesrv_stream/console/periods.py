"""Answers about a stretch of time up to a snapshot: where something changed, sessions of brokers, rejected records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import convert

from namesrv_stream.console.answers import moment_fields, now_of
from namesrv_stream.console.period_models import ChurnFields, MarkFields, OutageFields, RejectedFields, SessionFields
from namesrv_stream.history.churn import (
    UNPLANNED,
    BrokerKey,
    Outage,
    Session,
    availability,
    flapping,
    outages,
    sessions,
)
from namesrv_stream.history.events import AsOf, EpochEvents, Span, events_between, events_by_epoch, members_at
from namesrv_stream.rules.history import BEGINS, LEASE_ENDS
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.rejected import newest_rejected, rejected_fields
from namesrv_stream.tables.root import Root
from namesrv_stream.texts import iso_text, natural_key

MOST_MARKS = 2_000
_MOST_REJECTED = 50
_COMMAND_KINDS = ("PUT_KV", "DELETE_KV", "WIPE_", "ADD_WRITE", "DELETE_TOPIC", "REGISTER_TOPIC", "UPDATE_NAMESRV",
                  "LIFT_EXPIRY_GUARD", "IMPORT", "RESTORE")  # fmt: skip


EpochTimes = Callable[[int, int], Mapping[int, int]]
"""Event times of snapshots by epoch, from one epoch to another."""


def timeline(  # noqa: PLR0913, PLR0917  # what a reader may choose
    root: Root, row: SnapshotRow, times: EpochTimes, since_ms: int, until_ms: int | None = None, above: int = 0
) -> list[MarkFields]:
    """Return the epochs above `above` with events after `since_ms`, as marks along a track; at most MOST_MARKS of them.

    Between two marks no route, lease or setting changed. If there are too many epochs, neighbours in time share a mark,
    and neighbours in number if all are of one moment. A mark has the time of its snapshot, as all other answers do.
    """
    span = Span(since_ms, () if until_ms is None else (AsOf(at_ms=until_ms),))
    found = [each for each in events_by_epoch(root, row, span) if each.epoch > above]
    at_ms = times(found[0].epoch, found[-1].epoch) if found else {}
    found = [each._replace(event_time=at_ms.get(each.epoch, each.event_time)) for each in found]
    if len(found) <= MOST_MARKS:
        return [_mark(each) for each in found]
    places = [each.event_time for each in found]
    if places[-1] - places[0] < MOST_MARKS:
        places = list(range(len(found)))
    return _thinned(found, places, (places[-1] - places[0]) // MOST_MARKS + 1)


def _thinned(found: Sequence[EpochEvents], places: Sequence[int], width: int) -> list[MarkFields]:
    """Return one mark for all epochs whose places are in the same stretch of `width`."""
    marks: list[MarkFields] = []
    bucket = -1
    for each, place in zip(found, places, strict=True):
        here = (place - places[0]) // width
        mark = _mark(each)
        if here == bucket and marks:
            mark = _together(marks.pop(), mark)
        marks.append(mark)
        bucket = here
    return marks


def _mark(each: EpochEvents) -> MarkFields:
    ends = sum(each.counts.get(kind, 0) for kind in LEASE_ENDS)
    begins = sum(each.counts.get(kind, 0) for kind in BEGINS)
    commands = sum(count for kind, count in each.counts.items() if kind.startswith(_COMMAND_KINDS))
    gaps = each.counts.get("LOG_GAP", 0)
    others = sum(each.counts.values()) - ends - begins - commands - gaps
    return {
        "epoch": each.epoch,
        "eventTime": iso_text(each.event_time),
        "ends": ends,
        "begins": begins,
        "commands": commands,
        "gaps": gaps,
        "others": others,
    }


def _together(one: MarkFields, other: MarkFields) -> MarkFields:
    return {
        **other,
        "ends": one["ends"] + other["ends"],
        "begins": one["begins"] + other["begins"],
        "commands": one["commands"] + other["commands"],
        "gaps": one["gaps"] + other["gaps"],
        "others": one["others"] + other["others"],
        "epochs": one.get("epochs", 1) + 1,
        "firstEpoch": one.get("firstEpoch", one["epoch"]),
    }


def churn(root: Root, row: SnapshotRow, since_ms: int, broker: str | None = None) -> ChurnFields:
    """Return the sessions of brokers from `since_ms` to the snapshot, who flapped, and outages of several at once."""
    until_ms = now_of(row)
    lines = events_between(root, row, AsOf(at_ms=since_ms), AsOf(epoch=row.epoch))
    found = sessions(members_at(root, row, AsOf(at_ms=since_ms)), lines)
    if broker is not None:
        found = [each for each in found if broker in (each.broker_name, each.address)]
        lines = [line for line in lines if broker in (line.broker_name, line.broker_addr)]
    rejected = newest_rejected(root, row, _MOST_REJECTED + 1)
    return {
        "snapshot": moment_fields(row),
        "since": iso_text(since_ms) or "",
        "sessions": [_session_fields(each) for each in found],
        "availability": {
            _broker_text(broker): round(each.up_ms / each.expected_ms, 6)
            for broker, each in sorted(availability(found, since_ms, until_ms).items())
            if each.expected_ms
        },
        "flapping": [
            {
                "broker": _broker_text(each.broker),
                "unplannedEnds": each.unplanned_ends,
                "flaps": each.flaps,
                "shortestMillis": each.shortest_ms,
            }
            for each in flapping(found)
        ],
        "outages": list(map(_outage_fields, outages(lines))),
        "rejected": convert([rejected_fields(each) for each in rejected[:_MOST_REJECTED]], list[RejectedFields]),
        "rejectedMore": len(rejected) > _MOST_REJECTED,
    }


def _outage_fields(outage: Outage) -> OutageFields:
    return {
        "firstGoneAt": iso_text(outage.first_gone_ms) or "",
        "lastGoneAt": iso_text(outage.last_gone_ms) or "",
        "count": len(outage.brokers),
        "clusters": dict(Counter(broker[0] for broker in outage.brokers)),
        "brokers": [_broker_text(broker) for broker in sorted(outage.brokers, key=_natural)],
    }


def _natural(broker: BrokerKey) -> list[tuple[bool, int, str]]:
    return natural_key(_broker_text(broker))


def _session_fields(session: Session) -> SessionFields:
    return {
        "broker": _broker_text(session.broker),
        "brokerName": session.broker_name,
        "brokerAddr": session.address,
        "from": iso_text(session.from_ms) or "",
        "to": iso_text(session.to_ms),
        "endedBy": session.ended_by,
        "unplanned": session.ended_by in UNPLANNED,
    }


def _broker_text(broker: Sequence[object]) -> str:
    return " ".join(map(str, broker))
