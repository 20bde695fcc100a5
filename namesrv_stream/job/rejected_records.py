"""Rejected records: the row that is kept of each, and their lines in the job's log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from namesrv_stream.answers.broker_lines import MAX_LINES
from namesrv_stream.kafka.record_reader import LOG_PARTITION, StoredRecord
from namesrv_stream.rules.rows import RejectedRow

log = logging.getLogger(__name__)

MAX_REJECTED_BYTES = 64 * 1024
"""Limit of the bytes that are kept of a rejected record's value."""

MAX_REJECTED_KEY_BYTES = 1024
MAX_REASON_CHARS = 200
"""Limit of the reason, which may quote the record."""


def rejected_row(stored: StoredRecord, event_time_ms: int, reason: str) -> RejectedRow:
    """Return the row that is kept of a record: the beginning of its value, because its length has no bound."""
    value = stored.value
    return RejectedRow(
        event_time_ms,
        LOG_PARTITION,
        stored.offset,
        stored.key[:MAX_REJECTED_KEY_BYTES].decode(errors="replace"),
        value[:MAX_REJECTED_BYTES] if value is not None else None,
        len(value or b""),
        reason[:MAX_REASON_CHARS],
    )


def log_rejected(rows: Sequence[RejectedRow]) -> None:
    """Log the records that one publication rejects: the first of them, and how many more there are.

    The gateway that refused a request has logged that.
    """
    rows = [row for row in rows if not row.reason.startswith("refused: ")]
    for row in rows[:MAX_LINES]:
        log.warning("record rejected at partition %d offset %d: %s", row.partition, row.offset, row.reason,
                    extra={"offset": row.offset})  # fmt: skip
    if len(rows) > MAX_LINES:
        log.warning("%d more records rejected, up to offset %d", len(rows) - MAX_LINES, rows[-1].offset)
