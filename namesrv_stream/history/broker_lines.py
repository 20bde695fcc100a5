"""Lines for the log: one for each broker that comes, goes or changes, and few of them after a mass event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from namesrv_stream.history.membership import recorded_rows
from namesrv_stream.history.story import changes, end_text, taken_from
from namesrv_stream.reporting.texts import duration_text
from namesrv_stream.rules.history import LEASE_ENDS
from namesrv_stream.rules.rows import QUIET_COLUMNS, BrokerEventRow

MOST_LINES = 20
"""Most lines of one publication that name a broker each. A last line counts the others."""

LEFT, REFUSED, HELD, COUNTED = "left", "was refused", "is suspect", "came or left"
_VERBS = {
    "REGISTERED": "came",
    "ID_TAKEN": "came",
    "ID_LOST": "changed",
    "CHANGED": "changed",
    **dict.fromkeys(LEASE_ENDS, LEFT),
}
_IN_DISORDER = frozenset({"CHANNEL_CLOSED", "EXPIRED", "REFUSED"})


class BrokerLine(NamedTuple):
    """One line for the log: `who` did what (`verb`), with more about it in `detail`.

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


def broker_lines(events: Sequence[BrokerEventRow], most: int = MOST_LINES) -> list[BrokerLine]:
    """Return the lines of one publication: one for each of the first `most` brokers, and one that counts the others.

    Changed topics, operators' commands and new data versions have no line: the table `broker_event` has them.
    """
    lines = [line for event in events if (line := _line(event)) is not None]
    left_out = lines[most:]
    return [*lines[:most], *([_count(left_out)] if left_out else [])]


def _count(lines: Sequence[BrokerLine]) -> BrokerLine:
    counts = Counter(line.verb for line in lines)
    counted = ", ".join(f"{count:,} {verb}" for verb, count in sorted(counts.items()))
    is_warning = any(line.is_warning for line in lines)
    detail = f"{counted}; `namesrv-stream history` lists them"
    return BrokerLine(f"{len(lines):,} more brokers", COUNTED, detail, is_warning, None)


def _line(event: BrokerEventRow) -> BrokerLine | None:
    verb, detail = _VERBS.get(event.type, ""), _detail(event)
    if _is_refusal(event):
        verb, detail = REFUSED, "the address that holds its id has a higher state version"
    elif event.type == "CHANGED" and event.cause == "SILENCE":
        verb, detail = HELD, "the guard against mass expiry keeps it in the routes"
    who = f"{event.broker_name} {event.broker_id} ({event.broker_addr})"
    return BrokerLine(who, verb, detail, verb == HELD or event.type in _IN_DISORDER, event) if verb and detail else None


def _detail(event: BrokerEventRow) -> str:
    """Return what is to be said of a change of a broker, in the words of its story; an empty text if nothing is."""
    before, after = recorded_rows(event.before), recorded_rows(event.after)
    match event.type:
        case "REGISTERED":
            return f"cluster {event.cluster_name}{taken_from(event, before)}"
        case "ID_TAKEN":
            return f"the address was alive under another id{taken_from(event, before)}"
        case "ID_LOST":
            return "another address or another id replaced this one"
        case "CHANGED":
            return ", ".join(changes(before, after, without=QUIET_COLUMNS["live"]))
        case type_ if type_ in LEASE_ENDS:
            return f"{end_text(event)}, after {duration_text(event.lease_millis or 0)}"
        case _:
            return ""


def _is_refusal(event: BrokerEventRow) -> bool:
    """Return whether the line is a refusal that ended no lease."""
    return event.type == "REFUSED" and event.lease_millis is None
