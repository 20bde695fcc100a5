"""Write sentences about a broker or a topic, from the lines of the history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import dropwhile
from typing import Any, Self

import msgspec

from namesrv_stream.answers.events import (
    COMMANDS,
    Span,
    event_condition,
    has_topic,
    master_events,
    newest_of,
    topic_events,
    with_changes,
)
from namesrv_stream.answers.model import AnswerModel
from namesrv_stream.config.values import java_text
from namesrv_stream.reporting.texts import Time, counted, duration_text, listed, natural_key, perm_text
from namesrv_stream.rules.history import Rows, rows_before_and_after
from namesrv_stream.rules.record_types import PERM_WRITE, AddWritePerm, RetireBroker, WipeWritePerm
from namesrv_stream.rules.rows import BrokerEventRow, TopicRow
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.schemas import TOPIC

_NAMED = 5
_SECOND_MS = 1_000
_PLACES = tuple(map(BrokerEventRow._fields.index, ("cluster_name", "zone_name")))
BY_OPERATORS = COMMANDS | {"IMPORT", "RESTORE", "REPAIR"}
"""Types of lines that an operator's command causes."""

_WIPE, _ADD, _RETIRE = (str(kind.__struct_config__.tag) for kind in (WipeWritePerm, AddWritePerm, RetireBroker))
_NOT_SHOWN = ("type", "requestedBy", "reason")
"""AnswerModel of a command that a sentence shows in other words."""

_TOPIC_TABLES = {"topic": "topic", "topic_mapping": "static mapping"}
_SETTING_TABLES: dict[str, tuple[str, ...]] = {"kv_config": ("namespace", "key"), "namesrv_config": ("key",)}
_ENDS = {
    "UNREGISTERED": "unregistered in order",
    "CHANNEL_CLOSED": "lost its last connection",
    "MOVED": "left, to register under another name or cluster",
    "REFUSED": "was refused under another identity, which ended its lease",
}
_TOGETHER = {
    "EXPIRED": "expired",
    "CHANNEL_CLOSED": "lost the last connection",
    "UNREGISTERED": "unregistered in order",
    "MOVED": "left, to register under another name or cluster",
    "REGISTERED": "registered",
    "ID_TAKEN": "took an id",
    "ID_LOST": "lost the id",
    "CHANGED": "changed",
    "REFUSED": "got a refusal",
    "TOPICS_CHANGED": "changed topics",
}
"""Type of several lines -> what their brokers did, in words for one and for many."""

EVENT_TYPES = BY_OPERATORS | _TOGETHER.keys() | {"LOG_GAP"}

_CAUSES = {
    "REGISTER_BROKER": "registered",
    "SILENCE": "expired in silence",
    "UNREGISTER_BROKER": "unregistered",
    "CHANNEL_CLOSED": "lost its last connection",
}
_LABELS = {
    "cluster_name": "its cluster",
    "zone_name": "its zone",
    "enable_acting_master": "its acting flag",
    "ha_server_addr": "its HA address",
    "broker_version": "its release",
    "heartbeat_timeout_millis": "its lease (ms)",
    "filter_server_list": "its filter servers",
    "data_version": "its data version",
    "suspect_since": "its suspicion",
    "lease_began_at": "the beginning of its lease",
    "read_queue_nums": "read queues",
    "write_queue_nums": "write queues",
    "topic_sys_flag": "sys flag",
}


class StorySentence(AnswerModel):
    """One sentence of a story, about an event of a type."""

    epoch: int
    event_time: Time
    type: str
    text: str

    @classmethod
    def about(cls, line: BrokerEventRow, text: str) -> Self:
        """Return a sentence about a line of the history."""
        return cls(line.epoch, Time(line.event_time), line.type, text)


def broker_story(registry: RegistryAt, name: str, span: Span, *, with_versions: bool) -> list[StorySentence]:
    """Return the story of a broker name or a broker address.

    `with_versions`: also registrations that changed nothing but the data version.
    """
    chosen = event_condition(name, span, with_versions=with_versions, with_gaps=True)
    lines = [*dropwhile(lambda line: line.type == "LOG_GAP", newest_of(registry, chosen, None))]
    return story_of_broker(with_changes(registry, lines))


def topic_story(registry: RegistryAt, topic: str, span: Span) -> list[StorySentence] | None:
    """Return the story of a topic and of the masters of its broker names; None if neither history nor tables have it.

    It is the topic's even if a broker has the same name.
    """
    since = Span(span.since_ms)
    names = {row.broker_name for row in registry.of_topic(topic).queues.get(topic, ())}
    changed = topic_events(registry, topic, since)
    if not changed and not has_topic(registry, topic):
        return None
    told = [(line, each) for line in changed for each in story_of_topic(topic, [line])]
    masters = _changes_of_masters(registry, since, changed, names)
    told += zip(masters, story_of_broker(masters), strict=True)
    told.sort(key=lambda each: each[0][:2])
    return [sentence for line, sentence in told if span.holds(line)]


def _changes_of_masters(
    registry: RegistryAt, since: Span, changed: Sequence[BrokerEventRow], names: Set[str]
) -> Sequence[BrokerEventRow]:
    """Return the lines by which a broker name lost, got or changed its master while it had a topic.

    `changed`: the lines that changed the topic. They tell by themselves of a master with which the topic changed.
    `names`: those that have the topic now.
    """
    rows = [(line, str(each.key[1]), each) for line in changed for each in line.changes if each.table == TOPIC.name]
    had = {name: each.before is not None for _, name, each in reversed(rows)}
    told = {(line.epoch, line.event_time, name) for line, name, _ in rows}
    found = ((line, line.broker_name or "", None) for line in master_events(registry, names | had.keys(), since))
    has_topic, kept = {name for name in names | had.keys() if had.get(name, True)}, []
    for line, name, change in sorted([*rows, *found], key=lambda turn: turn[0][:2]):
        if change is not None:
            (has_topic.discard if change.after is None else has_topic.add)(name)
        elif name in has_topic and (line.epoch, line.event_time, name) not in told:
            kept.append(line)
    return with_changes(registry, kept)


def story_of_broker(lines: Sequence[BrokerEventRow]) -> list[StorySentence]:
    """Return a sentence for each of the lines that concern a broker name or an address, in order of the log."""
    wipes: dict[str, BrokerEventRow] = {}
    return [StorySentence.about(line, f"{_of_broker(line)}{_undone_wipe(line, wipes)}.") for line in lines]


def story_of_group(lines: Sequence[BrokerEventRow], away_ms: Sequence[int] = ()) -> str:
    """Return one sentence for lines of one type, or of one operator's command.

    `away_ms`: how long each broker of lines REGISTERED had been away, empty if they came for the first time.
    """
    first = lines[0]
    if first.type in BY_OPERATORS:
        topics = {str(each.key[0]) for line in lines for each in line.changes if each.table == "topic"}
        about = f" of {topics.pop()}" if len(topics) == 1 else ""
        names = _some(sorted({line.broker_name or "" for line in lines}, key=natural_key))
        return f"{asker(first)} asked for {first.type}{about} on {names}{given_reason(first)}."
    of_place = _of_place(lines)
    verb = "came back" if away_ms else _TOGETHER.get(first.type, f"had the event {first.type}")
    is_of_names = first.type == "TOPICS_CHANGED"
    brokers = sorted({f"{e.broker_name}{'' if is_of_names else f' {e.broker_id}'}" for e in lines}, key=natural_key)
    if len(brokers) == 1:
        return f"{brokers[0]}{of_place} {verb} {counted(len(lines), 'time')}."
    again = f", {len(lines):,} times in all" if len(lines) > len(brokers) else ""
    noun = "broker name" if is_of_names else "broker"
    times = [line.event_time for line in lines]
    within = f" within {duration_text(max(times) - min(times))}" if max(times) - min(times) >= _SECOND_MS else ""
    away = " to ".join(dict.fromkeys(map(duration_text, (min(away_ms), max(away_ms))))) if away_ms else ""
    after = f" after {away}" if away else ""
    return f"{counted(len(brokers), noun)}{of_place} {verb}{again}{within}{after}: {_some(brokers)}."


def _of_place(lines: Sequence[BrokerEventRow]) -> str:
    """Return which brokers these are: of one zone, of one cluster or of several clusters."""
    clusters, zones = ({line[column] for line in lines} for column in _PLACES)
    cluster = next(iter(clusters)) if len(clusters) == 1 else ""
    if len(zones) == 1 and None not in zones:
        return f" of zone {next(iter(zones))}" + (f" in {cluster}" if cluster else "")
    return f" of {cluster}" if cluster else "" if None in clusters else f" of {len(clusters)} clusters"


def _undone_wipe(line: BrokerEventRow, wipes: dict[str, BrokerEventRow]) -> str:
    """Return the sentence about a line that gives a broker name back a write permission that was wiped.

    `wipes`: the wipe in force for each broker name, which this keeps up to date.
    """
    name = line.broker_name or ""
    if line.type == _WIPE and line.changes:
        wipes[name] = line
    elif line.type == _ADD:
        wipes.pop(name, None)
    elif (
        line.type == "TOPICS_CHANGED"
        and name in wipes
        and any(_is_writable(each.after) and not _is_writable(each.before) for each in line.changes)
    ):
        wipe = wipes.pop(name)
        return f"; this undid the {_WIPE} of epoch {wipe.epoch} by {asker(wipe)}"
    return ""


def _is_writable(row: object) -> bool:
    return isinstance(row, TopicRow) and bool(row.perm & PERM_WRITE)


def story_of_topic(topic: str, lines: Sequence[BrokerEventRow]) -> list[StorySentence]:
    """Return the sentences of lines that concern a topic."""
    return [StorySentence.about(line, text) for line in lines for text in _of_topic(topic, line)]


def _of_broker(line: BrokerEventRow) -> str:
    """Return the sentence of a line, without the full stop."""
    before, after = rows_before_and_after(line)
    who = f"{line.broker_addr} ({_identity(line)})"
    match line.type:
        case "REGISTERED":
            return f"{line.broker_addr} registered as {_identity(line)}{taken_from(line, before)}{_by(line)}"
        case "ID_TAKEN":
            return f"{line.broker_addr}, alive already, is {_identity(line)} now{taken_from(line, before)}{_by(line)}"
        case "ID_LOST":
            return f"{line.broker_addr} is no longer {_identity(line)}, which another address or another id replaced"
        case "CHANGED":
            return f"{who} {_changed(line, before, after)}"
        case "TOPICS_CHANGED":
            return f"{line.broker_name}: {', '.join(_topics(before, after)) or _lost_topics(line)}, {_because(line)}"
        case "REFUSED" if line.lease_millis is None:
            return f"{who} was refused: the address that holds this id has a higher state version{_by(line)}"
        case "UNREGISTERED" | "CHANNEL_CLOSED" | "EXPIRED" | "MOVED" | "REFUSED":
            lost = f"{line.broker_addr}, which was {_identity(line)} no longer,"
            up_ms = _up_ms(line)
            lasted = f"; it had been alive for {duration_text(up_ms)}" if up_ms >= _SECOND_MS else ""
            return f"{who if line.held_id else lost} {end_text(line)}{lasted}"
        case "LOG_GAP":
            return (
                f"no tick for {duration_text(line.gap_millis or 0)}: Kafka or all gateways were away, or a clock "
                "stepped. Leases counted no more than tickGapMillis of it"
            )
        case command if command in BY_OPERATORS:
            return f"{asker(line)} asked for {line.type}{_effect(line, before, after)}{given_reason(line)}"
        case other:
            return f"{other}, which this release does not know, because of {line.cause}"


def _up_ms(line: BrokerEventRow) -> int:
    """Return how long a broker whose lease ended had been alive: of a silent one up to its last heartbeat."""
    silent_ms = line.event_time - (line.last_heard_at or line.event_time) if line.type == "EXPIRED" else 0
    return (line.lease_millis or 0) - silent_ms


def _changed(line: BrokerEventRow, before: Rows, after: Rows) -> str:
    """Return the sentence about a CHANGED line, in which the broker's lease goes on."""
    match line.cause:
        case "SILENCE":
            return "was silent for its whole lease and is suspect: the guard against mass expiry keeps it in the routes"
        case "BROKER_HEARTBEAT":
            return "gave a sign of life and is no longer suspect"
        case "RESTORE" | "REPAIR":
            what = ", ".join(changes(before, after)) or "nothing that a lookup shows"
            return f"was changed by the {line.cause.lower()} that {asker(line)} asked for: {what}"
    changed = ", ".join(changes(before, after)) or "nothing that a lookup shows"
    return f"registered again and changed {changed}{_by(line)}"


def _of_topic(topic: str, line: BrokerEventRow) -> Iterator[str]:
    changed = False
    for table, sentence in (("topic", _topic_change), ("topic_mapping", _mapped)):
        before, after = (
            {row["broker_name"]: row for row in side.get(table, []) if row["topic"] == topic}
            for side in rows_before_and_after(line)
        )
        for name in sorted(before.keys() | after.keys()):
            changed = True
            yield f"{sentence(topic, name, before.get(name), after.get(name))}, {_because(line)}."
    if not changed and line.type in COMMANDS:
        yield f"{asker(line)} asked for {line.type} of {topic}: nothing changed{given_reason(line)}."


def _topic_change(topic: str, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if after is None:
        return f"{topic} left {name}"
    if before is None:
        queues = f"{after['read_queue_nums']} read and {after['write_queue_nums']} write queues"
        return f"{topic} came to {name} with {queues}, {perm_text(after['perm'])}"
    return f"{topic} on {name} changed {', '.join(_field_changes(before, after))}"


def _mapped(topic: str, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    verb = "came" if not before else "went" if not after else "changed"
    return f"the static mapping of {topic} on {name} {verb}"


def _identity(line: BrokerEventRow) -> str:
    return f"{line.broker_name} {line.broker_id} of {line.cluster_name}"


def taken_from(line: BrokerEventRow, before: Rows) -> str:
    """Return the words that name the address from which a broker took its id; empty text if from none."""
    former = [row["broker_addr"] for row in before.get("broker", []) if row["broker_addr"] != line.broker_addr]
    return f", in the place of {former[0]}" if former else ""


def _by(line: BrokerEventRow) -> str:
    return f", as {line.requested_by}" if line.requested_by else ""


def end_text(line: BrokerEventRow) -> str:
    """Return the words for the end of a lease."""
    if line.type == "EXPIRED":
        silence = duration_text(line.event_time - (line.last_heard_at or line.event_time))
        return f"gave no sign of life for {silence} and expired"
    if line.type == "UNREGISTERED" and line.cause in ("RESTORE", "REPAIR"):
        return f"was taken out by the {line.cause.lower()} that {line.requested_by} asked for"
    return _ENDS[line.type]


def _effect(line: BrokerEventRow, before: Rows, after: Rows) -> str:
    """Return what a command changed, and on which broker name. If it changed nothing, return its subject."""
    command = msgspec.json.decode(line.command or "{}")
    if "made" in command:
        made, lost = command["made"], command["lost"]
        losses = [f"{'an unknown number of' if n is None else f'{n:,}'} rows of {name}" for name, n in lost.items()]
        parts = f"{listed(made)} made from row_change, " if made else ""
        return f" of epoch {command['epoch']}: {parts}{f'{listed(losses)} lost' if losses else 'nothing lost'}"
    if not line.changes and (line.topics_added or line.topics_changed or line.topics_removed):
        return f" on {line.broker_name}: {_lost_topics(line)}"
    if topics := list(_topics(before, after)):
        return f" on {line.broker_name}: {', '.join(topics)}"
    if settings := list(_settings(before, after)):
        return f": {', '.join(settings)}"
    if command.get("type") == _RETIRE:
        broker = f" of {line.broker_name} {line.broker_id} of {line.cluster_name}"
        return f"{broker}: refused, because {line.broker_addr} held it" if line.held_id else broker
    if rows := command.get("rows"):
        return f" of epoch {command['epoch']}: {', '.join(f'{table} {count}' for table, count in rows.items())}"
    about = [f"{key}={text}" for key, text in command.items() if isinstance(text, str) and key not in _NOT_SHOWN]
    return ": nothing changed" + (f" ({', '.join(about)})" if about else "")


def _because(line: BrokerEventRow) -> str:
    if line.cause in _CAUSES:
        return f"because {line.broker_addr} {_CAUSES[line.cause]}"
    return f"because {asker(line)} asked for {line.cause}{given_reason(line)}"


def asker(line: BrokerEventRow) -> str:
    """Return who sent a command."""
    return line.requested_by or "an operator without a name"


def given_reason(line: BrokerEventRow) -> str:
    """Return why a command was sent, as a part of a sentence; nothing if it does not say."""
    return f" (reason: {line.reason})" if line.reason else ""


def changes(before: Rows, after: Rows, *, without: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the changed fields of one address, except the columns in `without`.

    Its `filter` row may exist only before or only after.
    """
    for table in ("broker", "live", "filter"):
        was, became = (side.get(table, [{}])[-1] for side in (before, after))
        if was or became:
            yield from _field_changes(was, became, without)


def _field_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], without: frozenset[str] = frozenset()
) -> Iterator[str]:
    if before.get("perm") != after.get("perm"):
        yield f"its permission {perm_text(before['perm'])} to {perm_text(after['perm'])}"
    for column, label in _LABELS.items():
        was, became = before.get(column), after.get(column)
        if was != became and column not in without:
            yield f"{label} {_value(was)} to {_value(became)}"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "/".join(str(part) for part in value.values())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else java_text(value)


def _topics(before: Rows, after: Rows) -> Iterator[str]:
    for table, noun in _TOPIC_TABLES.items():
        was, became = ({row["topic"] for row in side.get(table, [])} for side in (before, after))
        groups = {"came": became - was, "went": was - became, "changed": was & became}
        for verb, names in groups.items():
            if names:
                yield f"{counted(len(names), noun)} {verb} ({_some(sorted(names))})"


def _lost_topics(line: BrokerEventRow) -> str:
    """Return the numbers of topics that a line changed, whose rows were lost."""
    counts = {"came": line.topics_added, "went": line.topics_removed, "changed": line.topics_changed}
    known = [f"{counted(count, 'topic')} {verb}" for verb, count in counts.items() if count]
    return f"{', '.join(known) or 'static mappings changed'} (the names were lost)"


def _settings(before: Rows, after: Rows) -> Iterator[str]:
    """Yield the changes of KV values and settings. The row that records a new namespace has no sentence of its own."""
    for table, key in _SETTING_TABLES.items():
        was, became = (
            {"/".join(row[column] for column in key): row["value"] for row in side.get(table, []) if row["key"]}
            for side in (before, after)
        )
        for name in sorted(was.keys() | became.keys()):
            if name not in became:
                yield f"{name} was removed, which was {was[name]}"
            else:
                former = f" instead of {was[name]}" if name in was else ""
                yield f"{name} was set to {became[name]}{former}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
