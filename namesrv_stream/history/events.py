"""Reads `broker_event` without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from namesrv_stream.history.membership import Membership
from namesrv_stream.rules.events import BEGINS, LEASE_ENDS
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import BROKER_EVENT

_PLACE = f"(epoch * {2**32} + seq)"
_MEMBER_TYPES = (*BEGINS, "ID_LOST", "CHANGED", *LEASE_ENDS)


class AsOf(NamedTuple):
    """An epoch or an event time in epoch milliseconds, what happened at it included."""

    epoch: int | None = None
    at_ms: int | None = None

    def __str__(self) -> str:
        if self.at_ms is None:
            return f"epoch {self.epoch}"
        return datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="milliseconds")

    @property
    def has_come(self) -> str:
        """SQL: the lines up to this moment."""
        if self.at_ms is None:
            return f"epoch <= {self.epoch}"
        return f"event_time <= to_timestamp_millis({self.at_ms}) AND event_month <= '{_month(self.at_ms)}'"


def newest_events(
    root: Root,
    snapshot: SnapshotRow,
    broker: str | None = None,
    since_ms: int | None = None,
    limit: int | None = 50,
) -> list[BrokerEventRow]:
    """The newest `limit` events up to a snapshot, in order of the log. `broker`: a broker name or an address."""
    concerned = "true" if broker is None else f"{quoted(broker)} IN (broker_name, broker_addr)"
    newest = "" if limit is None else f" LIMIT {limit}"
    return _lines(root, snapshot, f"{concerned} AND {_since(since_ms)} ORDER BY epoch DESC, seq DESC{newest}")[::-1]


def topic_events(root: Root, snapshot: SnapshotRow, topic: str, since_ms: int | None = None) -> list[BrokerEventRow]:
    """The events that name a topic, in order of the log. What tells only how many topics changed names none."""
    named = quoted(f'"topic":{msgspec.json.encode(topic).decode()}')
    mentioned = f"(strpos(before, {named}) > 0 OR strpos(after, {named}) > 0)"
    return _lines(root, snapshot, f"{mentioned} AND {_since(since_ms)} ORDER BY epoch, seq")


def topic_count_events(root: Root, snapshot: SnapshotRow, since_ms: int | None = None) -> list[BrokerEventRow]:
    """The events that tell only how many topics changed, in order of the log."""
    counted = """(strpos(before, '"topic":{"count":') > 0 OR strpos(after, '"topic":{"count":') > 0)"""
    return _lines(root, snapshot, f"{counted} AND {_since(since_ms)} ORDER BY epoch, seq")


def events_between(root: Root, snapshot: SnapshotRow, after: AsOf, until: AsOf) -> list[BrokerEventRow]:
    """The events after one moment, up to another one and up to a snapshot, in order of the log."""
    return _lines(root, snapshot, f"NOT ({after.has_come}) AND {until.has_come} ORDER BY epoch, seq")


def members_at(root: Root, snapshot: SnapshotRow, moment: AsOf) -> Membership:
    """Who was a member at a moment, however long ago. `snapshot`: the newest, whose history is read.

    Only the leases that had begun by then and not ended are replayed: years of history come to some lines a broker.
    """
    began = f"max({_PLACE}) FILTER (WHERE type = 'REGISTERED')"
    ended = f"coalesce(max({_PLACE}) FILTER (WHERE type IN {LEASE_ENDS} AND lease_millis IS NOT NULL), -1)"
    leases = (
        f"SELECT broker_addr, {began} AS began FROM rows WHERE {moment.has_come} GROUP BY 1 HAVING {began} > {ended}"
    )
    of_one = f"EXISTS (SELECT 1 FROM ({leases}) AS l WHERE l.broker_addr = rows.broker_addr AND {_PLACE} >= l.began)"
    lines = f"{moment.has_come} AND type IN {_MEMBER_TYPES} AND {of_one} ORDER BY epoch, seq"
    return Membership.after(_lines(root, snapshot, lines))


def _lines(root: Root, snapshot: SnapshotRow, condition: str) -> list[BrokerEventRow]:
    table = root.open(BROKER_EVENT, snapshot.versions[BROKER_EVENT.name])
    return rows_from_arrow(BROKER_EVENT, select(table, BROKER_EVENT, condition))


def _since(since_ms: int | None) -> str:
    if since_ms is None:
        return "true"
    return f"event_time >= to_timestamp_millis({since_ms}) AND event_month >= '{_month(since_ms)}'"


def _month(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m")


def quoted(text: str) -> str:
    """SQL's literal."""
    return "'" + text.replace("'", "''") + "'"
