"""The newest records outside the contract, which the job keeps in the table `rejected`."""

from __future__ import annotations

from namesrv_stream.rules.rows import RejectedRow, SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import REJECTED
from namesrv_stream.texts import iso_text

_SHOWN_VALUE_BYTES = 300


def newest_rejected(root: Root, snapshot: SnapshotRow, limit: int) -> list[RejectedRow]:
    """Return the newest `limit` rejected records that a snapshot has, newest first."""
    table = root.open(REJECTED, snapshot.versions[REJECTED.name])
    order = f'ORDER BY event_time DESC, "offset" DESC LIMIT {limit}'
    rows: list[RejectedRow] = rows_from_arrow(REJECTED, select(table, REJECTED, "true", order))
    return rows


def rejected_fields(row: RejectedRow) -> dict[str, object]:
    """Return a rejected record as JSON has it. `text` is the beginning of its value, `length` that of the whole."""
    return {
        "eventTime": iso_text(row.event_time),
        "partition": row.partition,
        "offset": row.offset,
        "key": row.key,
        "length": row.length,
        "reason": row.reason,
        "text": (row.value or b"")[:_SHOWN_VALUE_BYTES].decode(errors="replace"),
    }
