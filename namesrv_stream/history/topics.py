"""The history of one topic. Where a line tells only how many topics changed, the snapshots around it know more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import msgspec

from namesrv_stream.history.events import quoted, topic_count_events, topic_events
from namesrv_stream.rules.events import as_json_row
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow, TopicRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import TOPIC
from namesrv_stream.tables.snapshots import Snapshots

EPOCHS_LOOKED_INTO = 50
"""The newest whose lines have a count only; each costs the reading of a row or two."""

RowsByBroker = dict[str, TopicRow]


class TopicHistory(NamedTuple):
    """`lines`: those that concern the topic, in order of the log; `before` and `after` of a line that has a count only
    are the topic's rows in the snapshots around it. `untold`: lines with a count of which no snapshot is left, or
    older than the newest EPOCHS_LOOKED_INTO: the topic may be among what they count."""

    lines: list[BrokerEventRow]
    untold: list[BrokerEventRow]


def topic_history(root: Root, snapshot: SnapshotRow, topic: str, since_ms: int | None = None) -> TopicHistory:
    """What happened to a topic up to a snapshot."""
    named = topic_events(root, snapshot, topic, since_ms)
    counting = topic_count_events(root, snapshot, since_ms)
    snapshots = Snapshots(root)
    oldest = snapshots.oldest_readable().epoch
    readable = sorted({line.epoch for line in counting if line.epoch > oldest})[-EPOCHS_LOOKED_INTO:]
    told = [line for line in counting if line.epoch in readable]
    found = _as_snapshots_tell(told, named, lambda epoch: _rows_at(root, snapshots.find(epoch), topic))
    lines = sorted([*named, *found], key=lambda line: (line.epoch, line.seq))
    return TopicHistory(lines, [line for line in counting if line.epoch not in readable])


def _as_snapshots_tell(
    counting: Iterable[BrokerEventRow], named: Iterable[BrokerEventRow], rows_at: Callable[[int], RowsByBroker]
) -> list[BrokerEventRow]:
    """One line at most an epoch and broker name, the last that counts; none where another line names the topic."""
    rows_at = cache(rows_at)
    last = {(line.epoch, line.broker_name or ""): line for line in counting}
    for line in named:
        last.pop((line.epoch, line.broker_name or ""), None)
    found = []
    for (epoch, name), line in last.items():
        before, after = rows_at(epoch - 1).get(name), rows_at(epoch).get(name)
        if before != after:
            found.append(line._replace(before=_told(before), after=_told(after)))
    return found


def _rows_at(root: Root, snapshot: SnapshotRow, topic: str) -> RowsByBroker:
    table = root.open(TOPIC, snapshot.versions[TOPIC.name])
    rows: list[TopicRow] = rows_from_arrow(TOPIC, select(table, TOPIC, f"topic = {quoted(topic)}"))
    return {row.broker_name: row for row in rows}


def _told(row: TopicRow | None) -> str | None:
    return None if row is None else msgspec.json.encode({TOPIC.name: [as_json_row(row)]}).decode()
