"""The job's log lines about brokers, made from the lines of history that it publishes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from namesrv_stream.history.broker_lines import HELD, LEFT, REFUSED, BrokerLine, broker_lines
from namesrv_stream.rules.rows import BrokerEventRow

log = logging.getLogger(__name__)


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
