"""Delays of the ends of leases: in event time, which the rules decide, and until readers see them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from chaos.world import LEASE_MS
from namesrv_stream.rules.rows import BrokerEventRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import BROKER_EVENT
from namesrv_stream.tables.snapshot_reader import RouteReader


def expiry_figures(root: str) -> dict[str, float]:
    """Milliseconds from deadlines to the ticks that ended the leases, and to the snapshots that showed it."""
    reader = RouteReader(root)
    published_ms = {row.epoch: row.published_at for row in reader.snapshots.readable()}
    ended = [line for line in _lines(reader, reader.open().snapshot) if line.type == "EXPIRED"]
    deadlines = [(line, (line.last_heard_at or 0) + LEASE_MS) for line in ended]
    ticks = [line.event_time - deadline_ms for line, deadline_ms in deadlines]
    seen = [published_ms[line.epoch] - deadline_ms for line, deadline_ms in deadlines]
    return {
        "expiries": len(ended),
        "tick after deadline, p50 ms": quantile(ticks, 0.5),
        "tick after deadline, p99 ms": quantile(ticks, 0.99),
        "published after deadline, p50 ms": quantile(seen, 0.5),
        "published after deadline, p99 ms": quantile(seen, 0.99),
    }


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that is not below `part` of all; NaN of none."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)] if values else math.nan


def _lines(reader: RouteReader, snapshot: SnapshotRow) -> list[BrokerEventRow]:
    return rows_from_arrow(BROKER_EVENT, reader.table(BROKER_EVENT, snapshot))
