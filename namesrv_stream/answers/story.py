"""Write sentences about a broker or a topic, from the lines of the history."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import dropwhile
from typing import Self

from namesrv_stream.answers.events import (
    Span,
    event_condition,
    has_topic,
    master_events,
    newest_of,
    topic_events,
    with_changes,
)
from namesrv_stream.answers.model import AnswerModel
from namesrv_stream.answers.sentences import ADD, WIPE, asker, away_ms, back_text, sentence_of, sentences_of_topic
from namesrv_stream.reporting.texts import Time
from namesrv_stream.rules.record_types import PERM_WRITE
from namesrv_stream.rules.rows import BrokerEventRow, TopicRow
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.schemas import TOPIC


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
    away = away_ms(lines)
    return [
        StorySentence.about(line, f"{sentence_of(line, registered=back_text(line, away))}{_undone_wipe(line, wipes)}.")
        for line in lines
    ]


def _undone_wipe(line: BrokerEventRow, wipes: dict[str, BrokerEventRow]) -> str:
    """Return the sentence about a line that gives a broker name back a write permission that was wiped.

    `wipes`: the wipe in force for each broker name, which this keeps up to date.
    """
    name = line.broker_name or ""
    if line.type == WIPE and line.changes:
        wipes[name] = line
    elif line.type == ADD:
        wipes.pop(name, None)
    elif (
        line.type == "TOPICS_CHANGED"
        and name in wipes
        and any(_is_writable(each.after) and not _is_writable(each.before) for each in line.changes)
    ):
        wipe = wipes.pop(name)
        return f"; this restored the write permission that {asker(wipe)} had removed in snapshot {wipe.epoch}"
    return ""


def _is_writable(row: object) -> bool:
    return isinstance(row, TopicRow) and bool(row.perm & PERM_WRITE)


def story_of_topic(topic: str, lines: Sequence[BrokerEventRow]) -> list[StorySentence]:
    """Return the sentences of lines that concern a topic."""
    return [StorySentence.about(line, text) for line in lines for text in sentences_of_topic(topic, line)]
