"""What a publication means to people: its lines in the job's log, and what is kept of each rejected record."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from namesrv_stream.history.broker_lines import HELD, LEFT, MOST_LINES, REFUSED, BrokerLine, broker_lines
from namesrv_stream.kafka.record_reader import LOG_PARTITION, StoredRecord
from namesrv_stream.rules.rows import BrokerEventRow, RejectedRow

log = logging.getLogger(__name__)

MAX_REJECTED_BYTES = 64 * 1024
"""Limit of the bytes that are kept of a rejected record's value."""

MAX_REJECTED_KEY_BYTES = 1024
MAX_REASON_CHARS = 200
"""Limit of the reason, which may quote the record."""


def log_brokers(events: Sequence[BrokerEventRow], epoch: int) -> None:
    """Log who came, went and changed with one publication. A lost connection, an expiry and a refusal are warnings."""
    for line in broker_lines(events):
        facts: dict[str, object] = {"epoch": epoch}
        if line.event is not None:
            facts |= {"offset": line.event.offset, "address": line.event.broker_addr}
        if line.is_warning:
            _warn(line, facts)
        else:
            log.info("%s", line.text, extra=facts)


def _warn(line: BrokerLine, facts: dict[str, object]) -> None:
    match line.verb:
        case verb if verb == LEFT:
            log.warning("%s left: %s", line.who, line.detail, extra=facts)
        case verb if verb == REFUSED:
            log.warning("%s was refused: %s", line.who, line.detail, extra=facts)
        case verb if verb == HELD:
            log.warning("%s is suspect: %s", line.who, line.detail, extra=facts)
        case _:
            log.warning("%s came or left: %s", line.who, line.detail, extra=facts)


def rejected_row(stored: StoredRecord, event_time_ms: int, reason: str) -> RejectedRow:
    """Return what is kept of a record, whose length has no bound."""
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
    """Log the records that one publication rejects: the first of them, and how many more there are."""
    for row in rows[:MOST_LINES]:
        log.warning("record rejected at partition %d offset %d: %s", row.partition, row.offset, row.reason,
                    extra={"offset": row.offset})  # fmt: skip
    if len(rows) > MOST_LINES:
        log.warning("%d more records rejected, up to offset %d", len(rows) - MOST_LINES, rows[-1].offset)
