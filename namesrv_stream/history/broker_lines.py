"""Lines for the log: one for each broker that comes, goes or changes, and few of them after a mass event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from namesrv_stream.history.membership import recorded_rows
from namesrv_stream.rules.rows import QUIET_COLUMNS, BrokerEventRow
from namesrv_stream.texts import duration_text

MOST_LINES = 20
"""Most lines of one publication that name a broker each. A last line counts the others."""

_ENDS = {
    "UNREGISTERED": "unregistered",
    "CHANNEL_CLOSED": "connection lost",
    "MOVED": "it registers under another name or cluster",
    "REFUSED": "it was refused under another identity",
}
LEFT, REFUSED, HELD, COUNTED = "left", "was refused", "is suspect", "came or left"
_VERBS = {
    "REGISTERED": "came",
    "ID_TAKEN": "came",
    "ID_LOST": "changed",
    "CHANGED": "changed",
    **dict.fromkeys((*_ENDS, "EXPIRED"), LEFT),
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
    """Return what is to be said of a change of a broker; an empty text if nothing is."""
    lasted = duration_text(event.lease_millis or 0)
    match event.type:
        case "REGISTERED":
            return f"cluster {event.cluster_name}{_former_holder(event)}"
        case "ID_TAKEN":
            return f"the address was alive under another id{_former_holder(event)}"
        case "ID_LOST":
            return "another address or another id replaced this one"
        case "CHANGED":
            return ", ".join(_changed_columns(event))
        case "EXPIRED":
            silence = duration_text(event.event_time - (event.last_heard_at or event.event_time))
            return f"silent for {silence}, after {lasted}"
        case type_ if type_ in _ENDS:
            return f"{_ENDS[type_]} after {lasted}"
        case _:
            return ""


def _is_refusal(event: BrokerEventRow) -> bool:
    """Return whether the line is a refusal that ended no lease."""
    return event.type == "REFUSED" and event.lease_millis is None


def _former_holder(event: BrokerEventRow) -> str:
    holders = [row["broker_addr"] for row in recorded_rows(event.before).get("broker", [])]
    former = next((address for address in holders if address != event.broker_addr), None)
    return f", in the place of {former}" if former else ""


def _changed_columns(event: BrokerEventRow) -> list[str]:
    """Return the changed columns of `broker`, `live` and `filter`, without those that each registration changes."""
    before, after = recorded_rows(event.before), recorded_rows(event.after)
    found: dict[str, None] = {}
    for table in ("broker", "live", "filter"):
        was, became = (_row_of(event, side.get(table, [])) for side in (before, after))
        columns = (column for column in {**was, **became} if was.get(column) != became.get(column))
        found |= dict.fromkeys(column for column in columns if column not in QUIET_COLUMNS.get(table, ()))
    return list(found)


def _row_of(event: BrokerEventRow, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((row for row in rows if row.get("broker_addr") == event.broker_addr), {})
