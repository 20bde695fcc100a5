"""The job's log lines about brokers: one for each that registers, ends or changes, and only few after a mass event."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from namesrv_stream.answers.sentences import changes, end_text, taken_from
from namesrv_stream.reporting.texts import broker_text, counted, duration_text
from namesrv_stream.rules.history import LEASE_ENDS, rows_before_and_after
from namesrv_stream.rules.rows import QUIET_COLUMNS, BrokerEventRow

MAX_LINES = 20
"""Most brokers of one publication that have a line each. A last line counts the others."""

_OFFLINE, _REJECTED, _SUSPECT, _COUNTED = "went offline", "was rejected", "is suspect", "changed state"
_IN_DISORDER = frozenset({"CHANNEL_CLOSED", "EXPIRED", "REFUSED"})

log = logging.getLogger(__name__)


class BrokerLine(NamedTuple):
    """One line for the log: `who` is the broker, `verb` its action, `detail` more about it.

    `is_warning`: somebody may have to act. `event` is None for the line that counts the brokers left out.
    """

    who: str
    verb: str
    detail: str
    is_warning: bool
    event: BrokerEventRow | None

    @property
    def text(self) -> str:
        """The line as it is logged."""
        return f"{self.who} {self.verb}: {self.detail}"


def log_brokers(events: Sequence[BrokerEventRow], epoch: int) -> None:
    """Log the brokers that came online, went offline or changed in one publication.

    Lost connection, expiry and refusal are warnings.
    """
    for line in broker_lines(events):
        facts: dict[str, object] = {"epoch": epoch}
        if line.event is not None:
            facts |= {"offset": line.event.offset, "address": line.event.broker_addr}
        match line.verb if line.is_warning else None:
            case None:
                log.info("%s", line.text, extra=facts)
            case verb if verb == _OFFLINE:
                log.warning("%s went offline: %s", line.who, line.detail, extra=facts)
            case verb if verb == _REJECTED:
                log.warning("%s was rejected: %s", line.who, line.detail, extra=facts)
            case verb if verb == _SUSPECT:
                log.warning("%s is suspect: %s", line.who, line.detail, extra=facts)
            case _:
                log.warning("%s changed state: %s", line.who, line.detail, extra=facts)


def broker_lines(events: Sequence[BrokerEventRow], most: int = MAX_LINES) -> list[BrokerLine]:
    """Return the lines of one publication: one for each of the first `most` brokers, and one that counts the others.

    Changed topics, operators' commands and new data versions have no line: the table `broker_event` has them.
    """
    lines = [line for event in events if (line := _line(event)) is not None]
    left_out = lines[most:]
    return [*lines[:most], *([_count(left_out)] if left_out else [])]


def _count(lines: Sequence[BrokerLine]) -> BrokerLine:
    counts = Counter(line.verb for line in lines)
    told = ", ".join(f"{count:,} {verb}" for verb, count in sorted(counts.items()))
    is_warning = any(line.is_warning for line in lines)
    detail = f"{told}; `namesrv-stream history` lists them"
    return BrokerLine(counted(len(lines), "more broker"), _COUNTED, detail, is_warning, None)


def _line(event: BrokerEventRow) -> BrokerLine | None:
    verb, detail = _said(event)
    who = f"{broker_text(event.broker_name, event.broker_id)} ({event.broker_addr})"
    is_warning = verb == _SUSPECT or event.type in _IN_DISORDER
    return BrokerLine(who, verb, detail, is_warning, event) if detail else None


def _said(event: BrokerEventRow) -> tuple[str, str]:
    """Return the verb and the detail of an event, in the words of the broker's story; empty texts if it has no line."""
    before, after = rows_before_and_after(event)
    match event.type:
        case "REGISTERED":
            return "came online", f"cluster {event.cluster_name}{taken_from(event, before)}"
        case "ID_TAKEN":
            return "came online", f"the address was already up in another role{taken_from(event, before)}"
        case "ID_LOST":
            return "changed", "another address or role replaced it"
        case "CHANGED" if event.cause == "SILENCE":
            return _SUSPECT, "the mass-expiry guard keeps it in the routes"
        case "CHANGED":
            return "changed", ", ".join(changes(before, after, without=QUIET_COLUMNS["live"]))
        case "REFUSED" if event.lease_millis is None:  # which ended no lease
            return _REJECTED, "the address that is registered so has a higher state version"
        case kind if kind in LEASE_ENDS:
            ended = end_text(event).replace(": ", ", ")
            return _OFFLINE, f"{ended} (had been up for {duration_text(event.lease_millis or 0)})"
    return "", ""
