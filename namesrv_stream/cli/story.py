"""What happened to a broker or a topic, as sentences: one or more a line of history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from namesrv_stream.cli.output import counted, duration_text, perm_text
from namesrv_stream.history.membership import Rows, counts_told, rows_told
from namesrv_stream.rules.rows import BrokerEventRow

_NAMED = 5
_LABELS = {
    "zone_name": "its zone",
    "enable_acting_master": "its acting flag",
    "ha_server_addr": "its HA address",
    "heartbeat_timeout_millis": "its lease (ms)",
    "filter_server_list": "its filter servers",
    "data_version": "its data version",
    "read_queue_nums": "read queues",
    "write_queue_nums": "write queues",
    "topic_sys_flag": "sys flag",
}


class Sentence(NamedTuple):
    """`event_time` in epoch milliseconds."""

    epoch: int
    event_time: int
    text: str


def story_of_broker(lines: Sequence[BrokerEventRow]) -> list[Sentence]:
    """Of the lines that concern a broker name or an address."""
    return [Sentence(line.epoch, line.event_time, text) for line in lines for text in _of_broker(line)]


def story_of_topic(
    topic: str, lines: Sequence[BrokerEventRow], untold: Sequence[BrokerEventRow] = ()
) -> list[Sentence]:
    """Of the lines that name a topic; those in `untold` have a number of topics alone, and this one may be in it."""
    told = [Sentence(line.epoch, line.event_time, text) for line in lines for text in _of_topic(topic, line)]
    if untold:
        told.append(Sentence(untold[-1].epoch, untold[-1].event_time, _maybe(topic, untold)))
    return sorted(told, key=lambda sentence: sentence.epoch)


def _maybe(topic: str, untold: Sequence[BrokerEventRow]) -> str:
    names = _some(sorted({line.broker_name or "" for line in untold}))
    return (
        f"Up to here {counted(len(untold), 'change')} of very many topics at once, on {names}, named none of them, and "
        f"no snapshot was asked what they did to {topic}: it is past snapshot.retention, or one of too many."
    )


def _of_broker(line: BrokerEventRow) -> Iterator[str]:
    before, after = rows_told(line.before), rows_told(line.after)
    who = _who(line)
    match line.type:
        case "REGISTERED":
            yield f"{line.broker_addr} registered as {_identity(line)}{_taken_from(line, before)}."
        case "ID_TAKEN":
            yield f"{line.broker_addr}, alive already, is {_identity(line)} now{_taken_from(line, before)}."
        case "ID_LOST":
            yield f"{line.broker_addr} is no longer {_identity(line)}, which another address or another id replaced."
        case "CHANGED":
            changes = ", ".join(_changes(before, after)) or "nothing that a lookup shows"
            yield f"{who} registered again and changed {changes}."
        case "TOPICS_CHANGED":
            yield f"{line.broker_name}: {_topics(line, before, after)}, because {_because(line)}."
        case "REFUSED" if line.lease_millis is None:
            yield f"{who} was refused: the address that holds this id has a higher state version."
        case "UNREGISTERED" | "CHANNEL_CLOSED" | "EXPIRED" | "MOVED" | "REFUSED":
            lost = f"{line.broker_addr}, which was {_identity(line)} no longer,"
            lasted = duration_text(line.lease_millis or 0)
            yield f"{who if 'broker' in before else lost} {_end(line)}; it had been alive for {lasted}."
        case _:
            effect = _topics(line, before, after) if line.before else "nothing changed"
            yield f"{_asker(line)} asked for {line.type}: {effect}."


def _of_topic(topic: str, line: BrokerEventRow) -> Iterator[str]:
    before, after = ({row["broker_name"]: row for row in _rows_of(topic, side)} for side in (line.before, line.after))
    for name in sorted(before.keys() | after.keys()):
        yield f"{_topic_change(topic, name, before.get(name), after.get(name))}, because {_because(line)}."
    if not before and not after:
        yield f"{_asker(line)} asked for {line.type} of {topic}: nothing changed."


def _topic_change(topic: str, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if after is None:
        return f"{topic} left {name}"
    if before is None:
        queues = f"{after['read_queue_nums']} read and {after['write_queue_nums']} write queues"
        return f"{topic} came to {name} with {queues}, {perm_text(after['perm'])}"
    return f"{topic} on {name} changed {', '.join(_field_changes(before, after))}"


def _rows_of(topic: str, side: str | None) -> list[dict[str, Any]]:
    return [row for row in rows_told(side).get("topic", []) if row["topic"] == topic]


def _who(line: BrokerEventRow) -> str:
    return f"{line.broker_addr} ({_identity(line)})"


def _identity(line: BrokerEventRow) -> str:
    return f"{line.broker_name} {line.broker_id} of {line.cluster_name}"


def _taken_from(line: BrokerEventRow, before: Rows) -> str:
    former = [row["broker_addr"] for row in before.get("broker", []) if row["broker_addr"] != line.broker_addr]
    return f", in the place of {former[0]}" if former else ""


def _end(line: BrokerEventRow) -> str:
    match line.type:
        case "EXPIRED":
            silence = duration_text(line.event_time - (line.last_heard_at or line.event_time))
            return f"was not heard for {silence} and expired"
        case "UNREGISTERED":
            return "unregistered in order"
        case "CHANNEL_CLOSED":
            return "lost its last connection"
        case "MOVED":
            return "left, to register under another name or cluster"
        case _:
            return "was refused under another identity, which ended its lease"


def _because(line: BrokerEventRow) -> str:
    match line.cause:
        case "REGISTER_BROKER":
            return f"{line.broker_addr} registered"
        case "SILENCE":
            return f"{line.broker_addr} expired in silence"
        case "UNREGISTER_BROKER":
            return f"{line.broker_addr} unregistered"
        case "CHANNEL_CLOSED":
            return f"{line.broker_addr} lost its last connection"
        case _:
            return f"{_asker(line)} asked for {line.cause}"


def _asker(line: BrokerEventRow) -> str:
    return line.requested_by or "an operator without a name"


def _changes(before: Rows, after: Rows) -> Iterator[str]:
    """A table's rows of one address, before and after; a filter row may be on one side alone."""
    for table in ("broker", "live", "filter"):
        was, became = (side.get(table, [{}])[-1] for side in (before, after))
        if was or became:
            yield from _field_changes(was, became)


def _field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if before.get("perm") != after.get("perm"):
        yield f"its permission {perm_text(before['perm'])} to {perm_text(after['perm'])}"
    for column, label in _LABELS.items():
        was, became = before.get(column), after.get(column)
        if was != became:
            yield f"{label} {_value(was)} to {_value(became)}"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "/".join(str(part) for part in value.values())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


def _topics(line: BrokerEventRow, before: Rows, after: Rows) -> str:
    counted_only = max(counts_told(line.before), counts_told(line.after))
    was, became = ({row["topic"]: row for row in side.get("topic", [])} for side in (before, after))
    groups = {
        "came": sorted(became.keys() - was.keys()),
        "went": sorted(was.keys() - became.keys()),
        "changed": sorted(was.keys() & became.keys()),
    }
    parts = [f"{counted(len(names), 'topic')} {verb} ({_some(names)})" for verb, names in groups.items() if names]
    if counted_only:
        verb = "came" if not line.before else "went" if not line.after else "changed"
        parts.append(f"{counted(counted_only, 'topic')} {verb}")
    return ", ".join(parts) or "static mappings or settings changed"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
