"""The sentence about a line of the history: who did what, and why. docs/voice.md has its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import msgspec

from namesrv_stream.answers.events import COMMANDS
from namesrv_stream.config.values import java_text
from namesrv_stream.reporting.texts import (
    broker_text,
    clock_text,
    counted,
    duration_text,
    listed,
    named,
    natural_key,
    perm_text,
    zone_text,
)
from namesrv_stream.rules.history import LEASE_ENDS, Rows, rows_before_and_after
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    DeleteKvConfig,
    DeleteTopic,
    LiftExpiryGuard,
    PutKvConfig,
    RegisterTopic,
    RetireBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
    is_system_topic,
)
from namesrv_stream.rules.rows import BrokerEventRow
from namesrv_stream.tables.schemas import TOPIC

_SECOND_MS = 1_000
_PLACES = tuple(map(BrokerEventRow._fields.index, ("cluster_name", "zone_name")))
BY_OPERATORS = COMMANDS | {"IMPORT", "RESTORE", "REPAIR"}
"""Types of lines that an operator's command causes."""

WIPE, ADD, _RETIRE = (str(kind.__struct_config__.tag) for kind in (WipeWritePerm, AddWritePerm, RetireBroker))
_DELETE, _REGISTER = (str(kind.__struct_config__.tag) for kind in (DeleteTopic, RegisterTopic))
_PUT, _REMOVE = (str(kind.__struct_config__.tag) for kind in (PutKvConfig, DeleteKvConfig))
_UPDATE, _LIFT = (str(kind.__struct_config__.tag) for kind in (UpdateNamesrvConfig, LiftExpiryGuard))

_TOPIC_TABLES = {"topic": "topic", "topic_mapping": "static mapping"}
_ENDS = {
    "UNREGISTERED": "unregistered",
    "CHANNEL_CLOSED": "disconnected: its last gateway connection closed",
    "MOVED": "moved to another broker name or cluster",
    "REFUSED": "was rejected under another identity, which ended its lease",
}
_DONE = {
    "EXPIRED": ("expired", "expired"),
    "CHANNEL_CLOSED": ("disconnected", "disconnected"),
    "UNREGISTERED": ("unregistered", "unregistered"),
    "MOVED": ("moved to another broker name or cluster", "moved to other broker names or clusters"),
    "REGISTERED": ("registered", "registered"),
    "ID_TAKEN": ("took another role", "took other roles"),
    "ID_LOST": ("lost its role", "lost their roles"),
    "CHANGED": ("changed", "changed"),
    "REFUSED": ("was rejected", "were rejected"),
}
"""Type of an event -> what its broker did, and what several brokers did."""

ENDED_BY = {kind: words[0] for kind, words in _DONE.items()}
"""Type of the end of a lease -> what the broker did, in a word or two."""

EVENT_TYPES = BY_OPERATORS | _DONE.keys() | {"TOPICS_CHANGED", "LOG_GAP"}

_CAUSES = {
    "REGISTER_BROKER": "registered",
    "SILENCE": "expired",
    "UNREGISTER_BROKER": "unregistered",
    "CHANNEL_CLOSED": "disconnected",
}
_LABELS = {
    "cluster_name": "cluster",
    "zone_name": "zone",
    "enable_acting_master": "acting master",
    "ha_server_addr": "HA address",
    "broker_version": "release",
    "heartbeat_timeout_millis": "heartbeat timeout",
    "filter_server_list": "filter servers",
    "data_version": "data version",
    "suspect_since": "suspect since",
    "lease_began_at": "up since",
    "read_queue_nums": "read queues",
    "write_queue_nums": "write queues",
    "topic_sys_flag": "sys flag",
}
_TIMES = ("suspect_since", "lease_began_at")


def away_ms(
    lines: Iterable[BrokerEventRow], ends: Mapping[tuple[str, str, int], int] = MappingProxyType({})
) -> dict[tuple[int, int], int]:
    """Return how long each broker that came back had been away, by epoch and seq of its line, in order of the log.

    `ends`: when brokers went offline last, for those whose end is not among the lines.
    """
    ended: dict[tuple[str, str, int], int] = {}
    found: dict[tuple[int, int], int] = {}
    for line in lines:
        key = (line.cluster_name or "", line.broker_name or "", line.broker_id or 0)
        if line.type in LEASE_ENDS and line.held_id:
            ended[key] = line.event_time
        elif line.type == "REGISTERED":
            gone_ms = ended.get(key, ends.get(key))
            if gone_ms is not None and gone_ms <= line.event_time:
                found[line.epoch, line.seq] = line.event_time - gone_ms
    return found


def back_text(line: BrokerEventRow, away: Mapping[tuple[int, int], int]) -> str:
    """Return what a broker of a REGISTERED did, by `away_ms`."""
    gone_ms = away.get((line.epoch, line.seq))
    return "registered" if gone_ms is None else f"came back after {duration_text(gone_ms)}"


def sentence_of(line: BrokerEventRow, *, registered: str = "registered") -> str:
    """Return the sentence of a line, without the full stop. `registered`: what a broker of a REGISTERED did."""
    before, after = rows_before_and_after(line)
    place = f"{broker_text(line.broker_name, line.broker_id)} in {line.cluster_name}"
    who = f"{place} ({line.broker_addr})"
    match line.type:
        case "REGISTERED":
            return f"{who} {registered}{taken_from(line, before)}{_by(line)}"
        case "ID_TAKEN":
            return f"{line.broker_addr}, already up, is now registered as {place}{taken_from(line, before)}{_by(line)}"
        case "ID_LOST":
            return f"{line.broker_addr} is no longer registered as {place}: another address or role replaced it"
        case "CHANGED":
            return f"{who} {_changed(line, before, after)}"
        case "TOPICS_CHANGED":
            return f"{line.broker_name}: {', '.join(_topics(line, before, after)) or _lost_topics(line)}, {_when(line)}"
        case "REFUSED" if line.lease_millis is None:
            return f"{who} was rejected: the address that is registered so has a higher state version{_by(line)}"
        case "UNREGISTERED" | "CHANNEL_CLOSED" | "EXPIRED" | "MOVED" | "REFUSED":
            former = f"{line.broker_addr} (no longer registered as {place})"
            up_ms = line.lease_millis or 0
            lasted = f". It had been up for {duration_text(up_ms)}" if up_ms >= _SECOND_MS else ""
            return f"{who if line.held_id else former} {end_text(line)}{lasted}"
        case "LOG_GAP":
            return (
                f"No clock tick for {duration_text(line.gap_millis or 0)}: Kafka or all gateways were unreachable, or "
                "a clock changed. Of this time, leases counted at most tickGapMillis"
            )
        case command if command in BY_OPERATORS:
            return f"{_command(line, before, after)}{given_reason(line)}"
        case other:
            return f"Event {other}, unknown to this release, caused by {line.cause}"


def _changed(line: BrokerEventRow, before: Rows, after: Rows) -> str:
    """Return the sentence about a CHANGED line, in which the broker's lease continues."""
    changed = ", ".join(changes(before, after)) or "nothing that a lookup shows"
    match line.cause:
        case "SILENCE":
            return "is suspect: no heartbeat for its whole timeout; the mass-expiry guard keeps it in the routes"
        case "BROKER_HEARTBEAT":
            return "sent a heartbeat and is no longer suspect"
        case "RESTORE" | "REPAIR":
            return f"was changed by the {line.cause.lower()} of {asker(line)}: {changed}"
    return f"registered again and changed {changed}{_by(line)}"


def sentences_of_topic(topic: str, line: BrokerEventRow) -> Iterator[str]:
    """Yield the sentences about what a line did to a topic, one for each broker group that has it."""
    changed = False
    rows = rows_before_and_after(line)
    for table, sentence in (("topic", _topic_change), ("topic_mapping", _mapped)):
        before, after = (
            {row["broker_name"]: row for row in side.get(table, []) if row["topic"] == topic} for side in rows
        )
        for name in sorted(before.keys() | after.keys()):
            changed = True
            yield f"{sentence(topic, name, before.get(name), after.get(name))}, {_when(line)}."
    if not changed and line.type in COMMANDS:
        yield f"{_command(line, *rows)}{given_reason(line)}."


def _topic_change(topic: str, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if after is None:
        return f"{topic} removed from {name}"
    if before is None:
        read, write = (counted(after[f"{kind}_queue_nums"], f"{kind} queue") for kind in ("read", "write"))
        return f"{topic} added to {name} ({read}, {write}, {perm_text(after['perm'])})"
    return f"{topic} on {name} changed {', '.join(_field_changes(before, after))}"


def _mapped(topic: str, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    return f"static mapping of {topic} on {name} {'added' if not before else 'removed' if not after else 'changed'}"


def taken_from(line: BrokerEventRow, before: Rows) -> str:
    """Return the words that name the address from which a broker took its id; empty text if from none."""
    former = [row["broker_addr"] for row in before.get("broker", []) if row["broker_addr"] != line.broker_addr]
    return f", replacing {former[0]}" if former else ""


def _by(line: BrokerEventRow) -> str:
    if line.requested_by and line.requested_by.startswith("@"):  # the peer of a broker with an address of no use
        return f" (from {line.requested_by[1:]})"
    return f" (user {line.requested_by})" if line.requested_by else ""


def end_text(line: BrokerEventRow) -> str:
    """Return the words for the end of a lease."""
    if line.type == "EXPIRED":
        silent_ms = line.event_time - (line.last_heard_at or line.event_time)
        return f"expired: no heartbeat for {duration_text(silent_ms)}" if silent_ms >= _SECOND_MS else "expired"
    if line.type == "UNREGISTERED" and line.cause in ("RESTORE", "REPAIR"):
        return f"was removed by the {line.cause.lower()} of {line.requested_by}"
    return _ENDS[line.type]


def _command(line: BrokerEventRow, before: Rows, after: Rows) -> str:
    """Return the sentence about an operator's command: who did what, on which broker group."""
    command = msgspec.json.decode(line.command or "{}")
    topics = list(_topics(line, before, after, with_verbs=False))
    if not line.changes and any((line.topics_added, line.topics_changed, line.topics_removed)):
        topics = [_lost_topics(line)]
    named_topic = f"topic {command.get('topic') or next((each.key[0] for each in line.changes), '')}"
    done = None
    match line.type:
        case kind if kind in (WIPE, ADD):
            what = f"{', '.join(topics)} on {line.broker_name}" if topics else command.get("brokerName")
            done = f"made {what} {'read-only' if kind == WIPE else 'writable'}"
        case kind if kind == _DELETE:
            done = f"deleted {named_topic} on {line.broker_name}" if topics else f"deleted {named_topic}"
        case kind if kind == _REGISTER:
            is_new = "topic" in after and "topic" not in before
            done = f"{'added' if is_new else 'changed'} {named_topic} on {line.broker_name}"
            done = done if topics else f"registered {named_topic}"
        case kind if kind in (_PUT, _REMOVE):
            name = f"KV value {command.get('namespace')}/{command.get('key')}"
            done = f"set {name} to {command.get('value')}" if kind == _PUT else f"removed {name}"
            former = [row["value"] for row in before.get("kv_config", []) if row["key"]]
            done += f" (was {former[0]})" if former else ""
        case kind if kind == _UPDATE:
            done = f"set {', '.join(_settings(before, after))}" if line.changes else "updated the settings"
        case kind if kind == _LIFT:
            return f"{_asker_first(line)} lifted the mass-expiry guard"
        case kind if kind == _RETIRE:
            broker = f"{broker_text(line.broker_name, line.broker_id)} in {line.cluster_name}"
            rejected = f"asked to retire {broker}: rejected, because {line.broker_addr} is up"
            return f"{_asker_first(line)} {rejected if line.held_id else f'retired {broker}'}"
    if done is None:
        return f"{_asker_first(line)} {_of_tables(line, command)}"
    return f"{_asker_first(line)} {done if line.changes or topics else _sent_for_nothing(line.type, command)}"


def _sent_for_nothing(kind: str, command: Mapping[str, Any]) -> str:
    of = command.get("brokerName") or command.get("topic")
    if "key" in command:
        of = f"{command.get('namespace')}/{command['key']}"
    return f"sent {kind}{f' for {of}' if of else ''}: nothing changed"


def _of_tables(line: BrokerEventRow, command: Mapping[str, Any]) -> str:
    """Return what an import, a restore or a repair did."""
    of_epoch = f" snapshot {command['epoch']}" if "epoch" in command else ""
    if "made" in command:
        made, lost = command["made"], command["lost"]
        losses = [f"{'an unknown number of' if n is None else f'{n:,}'} rows of {name}" for name, n in lost.items()]
        rebuilt = f"{listed(made)} rebuilt from row_change, " if made else ""
        return f"repaired the tables of{of_epoch}: {rebuilt}{f'{listed(losses)} lost' if losses else 'nothing lost'}"
    rows = ", ".join(f"{table} {count:,}" for table, count in command.get("rows", {}).items())
    verb = {"IMPORT": "imported", "RESTORE": "restored"}.get(line.type, f"sent {line.type}:")
    return f"{verb}{of_epoch}{f' (rows: {rows})' if rows else ''}{'' if line.changes or rows else ': nothing changed'}"


def _command_on_many(lines: Sequence[BrokerEventRow]) -> str:
    """Return the sentence about one operator's command that has a line for each of several broker groups."""
    first = lines[0]
    topics = {str(each.key[0]) for line in lines for each in line.changes if each.table == TOPIC.name}
    what = f"topic {topics.pop()}" if len(topics) == 1 else counted(len(topics), "topic") if topics else "topics"
    groups = named(sorted({line.broker_name or "" for line in lines}, key=natural_key))
    done = {
        WIPE: f"made {what} on {groups} read-only",
        ADD: f"made {what} on {groups} writable",
        _DELETE: f"deleted {what} on {groups}",
        _REGISTER: f"registered {what} on {groups}",
    }
    return f"{_asker_first(first)} {done.get(first.type, f'sent {first.type} for {groups}')}"


def _when(line: BrokerEventRow) -> str:
    if line.cause in _CAUSES:
        return f"when {line.broker_addr} {_CAUSES[line.cause]}"
    return f"by {asker(line)} ({line.cause}{f'; reason: {line.reason}' if line.reason else ''})"


def asker(line: BrokerEventRow) -> str:
    """Return who sent a command."""
    return line.requested_by or "an operator"


def _asker_first(line: BrokerEventRow) -> str:
    return line.requested_by or "An operator"


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
        yield f"permission from {perm_text(before['perm'])} to {perm_text(after['perm'])}"
    for column, label in _LABELS.items():
        was, became = before.get(column), after.get(column)
        if was != became and column not in without:
            yield f"{label} from {_value(column, was)} to {_value(column, became)}"


def _value(column: str, value: Any) -> str:
    if column in _TIMES and value is not None:
        return clock_text(value)
    if column == "heartbeat_timeout_millis" and value is not None:
        return duration_text(value)
    if isinstance(value, dict):
        return "/".join(str(part) for part in value.values())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else java_text(value)


def _topics(line: BrokerEventRow, before: Rows, after: Rows, *, with_verbs: bool = True) -> Iterator[str]:
    """Yield how many topics and static mappings a line added, removed and changed, with the first names."""
    of_broker = {line.broker_name or ""}, {line.cluster_name or ""}
    for table, noun in _TOPIC_TABLES.items():
        was, became = ({row["topic"] for row in side.get(table, [])} for side in (before, after))
        groups = {"added": became - was, "removed": was - became, "changed": was & became}
        for verb, names in groups.items():
            system = {each for each in names if is_system_topic(each, *of_broker)}
            own, of_verb = sorted(names - system), f" {verb}" if with_verbs else ""
            parts = [f"{counted(len(own), noun)}{of_verb} ({named(own)})"] if own else []
            parts += [f"{counted(len(system), f'system {noun}')}{'' if own else of_verb}"] if system else []
            if parts:
                yield listed(parts)


def _lost_topics(line: BrokerEventRow) -> str:
    """Return the numbers of topics that a line changed, whose rows were lost."""
    counts = {"added": line.topics_added, "removed": line.topics_removed, "changed": line.topics_changed}
    known = [f"{counted(count, 'topic')} {verb}" for verb, count in counts.items() if count]
    return f"{', '.join(known) or 'static mappings changed'} (names lost)"


def _settings(before: Rows, after: Rows) -> Iterator[str]:
    """Yield the changes of settings."""
    was, became = ({row["key"]: row["value"] for row in side.get("namesrv_config", [])} for side in (before, after))
    for name in sorted(was.keys() | became.keys()):
        former = f" (was {was[name]})" if name in was else ""
        yield f"{name} to {became[name]}{former}" if name in became else f"{name} to its default{former}"


def story_of_group(lines: Sequence[BrokerEventRow], away_ms: Sequence[int] = ()) -> str:
    """Return one sentence for lines of one type, or of one operator's command.

    `away_ms`: how long each broker of lines REGISTERED had been away, empty if they came for the first time.
    """
    first = lines[0]
    away = " to ".join(dict.fromkeys(map(duration_text, (min(away_ms), max(away_ms))))) if away_ms else ""
    if len(lines) == 1:
        return f"{sentence_of(first, registered=f'came back after {away}' if away else 'registered')}."
    if first.type in BY_OPERATORS:
        return f"{_command_on_many(lines)}{given_reason(first)}."
    is_of_groups = first.type == "TOPICS_CHANGED"
    who = {str(each.broker_name) if is_of_groups else broker_text(each.broker_name, each.broker_id) for each in lines}
    one, many = _DONE.get(first.type, ("", ""))
    if away:
        one = many = f"came back after {away}"
    if len(who) == 1:
        who_did = (
            f"{_topics_done(lines).capitalize()} on {who.pop()}"
            if is_of_groups
            else f"{who.pop()}{_in_place(lines)} {one}"
        )
        return f"{who_did} {counted(len(lines), 'time')}."
    again = f", {len(lines):,} times in all" if len(lines) > len(who) else ""
    times = [line.event_time for line in lines]
    within = f" within {duration_text(max(times) - min(times))}" if max(times) - min(times) >= _SECOND_MS else ""
    did = f"{counted(len(who), 'broker')}{_in_place(lines)} {many}"
    if is_of_groups:
        did = f"{_topics_done(lines).capitalize()} on {counted(len(who), 'broker group')}{_in_place(lines)}"
    return f"{did}{again}{within}: {named(sorted(who, key=natural_key))}."


def story_of_restarts(restarts: Sequence[tuple[BrokerEventRow, BrokerEventRow]]) -> str:
    """Return one sentence for two or more restarts, each the end and the start of a broker, in order of the ends."""
    starts = [start for _, start in restarts]
    who = {(line.cluster_name, broker_text(line.broker_name, line.broker_id)) for line in starts}
    names = sorted((name for _, name in who), key=natural_key)
    away_ms = [start.event_time - end.event_time for end, start in restarts]
    each = " to ".join(dict.fromkeys(map(duration_text, (min(away_ms), max(away_ms)))))
    took_ms = max(line.event_time for line in starts) - restarts[0][0].event_time
    within = f" within {duration_text(took_ms)}" if took_ms >= _SECOND_MS and duration_text(took_ms) != each else ""
    if len(names) == 1:
        return f"{names[0]}{_in_place(starts)} restarted {counted(len(starts), 'time')}{within}, {each} each."
    in_turn = all(start.event_time <= end.event_time for (_, start), (end, _) in pairwise(restarts))
    order = ", one after the other" if in_turn else ""
    again = f", {counted(len(starts), 'time')} in all" if len(starts) > len(names) else ""
    did = f"{counted(len(names), 'broker')}{_in_place(starts)} restarted{again}{within}{order}, {each} each"
    return f"{did}: {named(names)}."


def _topics_done(lines: Iterable[BrokerEventRow]) -> str:
    """Return what happened to topics by lines TOPICS_CHANGED: `topics added and removed`."""
    counts = [(line.topics_added, line.topics_removed, line.topics_changed) for line in lines]
    done = [
        word for word, some in zip(("added", "removed", "changed"), zip(*counts, strict=True), strict=True) if any(some)
    ]
    return f"topics {listed(done) if done else 'changed'}"


def counts_text(lines: Iterable[BrokerEventRow]) -> str:
    """Return what happened in a time, in numbers of brokers, broker groups and commands; empty text for nothing."""
    of_type: dict[str, set[tuple[object, ...]]] = {}
    of_topics = []
    for line in lines:
        kind = "COMMAND" if line.type in BY_OPERATORS else line.type
        broker = line.cluster_name, line.broker_name, line.broker_id
        counted_by = {"COMMAND": line[:2], "LOG_GAP": line[:2], "TOPICS_CHANGED": broker[:2]}
        of_type.setdefault(kind, set()).add(counted_by.get(kind, broker))
        of_topics += [line] if kind == "TOPICS_CHANGED" else []
    told = [
        f"{counted(len(of_type[kind]), 'broker')} {words[len(of_type[kind]) > 1]}"
        for kind, words in _DONE.items()
        if kind in of_type
    ]
    if groups := of_type.get("TOPICS_CHANGED"):
        told.append(f"{_topics_done(of_topics)} on {counted(len(groups), 'broker group')}")
    if commands := of_type.get("COMMAND"):
        told.append(counted(len(commands), "operator command"))
    if gaps := of_type.get("LOG_GAP"):
        told.append(counted(len(gaps), "gap") + " without clock ticks")
    return ", ".join(told)


def _in_place(lines: Sequence[BrokerEventRow]) -> str:
    """Return where these brokers are: in one zone, in one cluster or in several clusters."""
    clusters, zones = ({line[column] for line in lines} for column in _PLACES)
    cluster = next(iter(clusters)) if len(clusters) == 1 else ""
    zone = next(iter(zones)) if len(zones) == 1 else None
    if zone is not None:
        return f" in {cluster}, {zone_text(str(zone))}" if cluster else f" in {zone_text(str(zone))}"
    return f" in {cluster}" if cluster else "" if None in clusters else f" in {len(clusters)} clusters"
