"""The history of a topic, where the lines name it and where they have a count only."""

import json

import pytest

from namesrv_stream.history.events import topic_events
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.counted import count_topics
from tests.history.fleet import RandomHistory
from tests.tables.rows import NOW

T0 = NOW - 24 * 3_600_000


def history_of_topics(root, seed):
    history = RandomHistory(root, seed, T0, NOW)
    for _ in range(12):
        for _ in range(4):
            history.step(late_ms=300_000)
        history.publish()
    newest = RouteReader(root).snapshots.newest()
    return {topic: topic_events(root, newest, topic) for topic in "TUVW"}


def facts_of(topic, lines):
    """(epoch, broker name, seq, table) -> the topic's row before and after."""
    facts = {}
    for line in lines:
        for table in ("topic", "topic_mapping"):
            sides = [json.loads(side or "{}").get(table, []) for side in (line.before, line.after)]
            rows = [next((row for row in side if row != "count" and row["topic"] == topic), None) for side in sides]
            if rows != [None, None]:
                facts[line.epoch, line.broker_name, line.seq, table] = rows
    return facts


@pytest.mark.parametrize("seed", [1, pytest.param(0, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)])
def test_lines_with_counts_give_no_untrue_sentence_and_leave_none_out(tmp_path, monkeypatch, seed):
    """The same history, its lines with the names and with counts only."""
    named = history_of_topics(Root(str(tmp_path / "named")), seed)
    count_topics(monkeypatch, above=0)
    counted = history_of_topics(Root(str(tmp_path / "counted")), seed)
    for topic in "TUVW":
        true, sure = (facts_of(topic, found[topic].named) for found in (named, counted))
        assert sure.items() <= true.items()
        unsure = {(line.epoch, line.broker_name) for line in counted[topic].counted}
        assert {key[:2] for key in true.keys() - sure.keys()} <= unsure
        assert not named[topic].counted
