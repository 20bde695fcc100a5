"""The newest records outside the contract, which the job keeps in the table `rejected`."""

from __future__ import annotations

from namesrv_stream.rules.rows import RejectedRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import REJECTED


def newest_rejected(root: Root, snapshot: SnapshotRow, limit: int) -> list[RejectedRow]:
    """Return the newest `limit` rejected records that a snapshot has, newest first."""
    table = root.open(REJECTED, snapshot.versions[REJECTED.name])
    order = f'ORDER BY event_time DESC, "offset" DESC LIMIT {limit}'
    rows: list[RejectedRow] = rows_from_arrow(REJECTED, select(table, REJECTED, "true", order))
    return rows
