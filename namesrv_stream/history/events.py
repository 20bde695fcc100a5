"""Reads `broker_event` without Spark."""

from __future__ import annotations

from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import BROKER_EVENT


def newest_events(
    root: Root, snapshot: SnapshotRow, broker: str | None = None, since_ms: int | None = None, limit: int = 50
) -> list[BrokerEventRow]:
    """The newest `limit` events up to a snapshot, in order of the log. `broker`: a broker name or an address."""
    conditions = ["true"]
    if broker is not None:
        quoted = broker.replace("'", "''")
        conditions.append(f"'{quoted}' IN (broker_name, broker_addr)")
    if since_ms is not None:
        since = f"to_timestamp_millis({since_ms})"
        conditions.append(f"event_time >= {since} AND event_month >= to_char({since}, '%Y-%m')")
    where = f"{' AND '.join(conditions)} ORDER BY epoch DESC, seq DESC LIMIT {limit}"
    table = root.open(BROKER_EVENT, snapshot.versions[BROKER_EVENT.name])
    return rows_from_arrow(BROKER_EVENT, select(table, BROKER_EVENT, where))[::-1]
