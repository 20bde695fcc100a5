"""The history of a topic, where the lines name it and where they have a count only."""

import json

import pytest

from namesrv_stream.history.topics import ONE_OF_SEVERAL, topic_history
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.counted import count_topics
from tests.history.fleet import RandomHistory
from tests.tables.rows import NOW
from tests.upgrade import WITH_COUNTS, extract

T0 = NOW - 24 * 3_600_000


def history_of_topics(root, seed):
    history = RandomHistory(root, seed, T0, NOW)
    for _ in range(12):
        for _ in range(4):
            history.step(late_ms=300_000)
        history.publish()
    newest = RouteReader(root).snapshots.newest()
    return {topic: topic_history(root, newest, topic) for topic in "TUVW"}


@pytest.mark.parametrize(("gone", "known", "uncertain"), [("3, 4", [2, 4, 6], []), ("2, 3, 4, 5", [], [2, 4, 6])])
def test_lines_with_counts_show_what_the_kept_snapshots_around_them_show(tmp_path, gone, known, uncertain):
    extract(WITH_COUNTS, tmp_path)
    root = Root(str(tmp_path / "registry"))
    newest, topic = RouteReader(root).snapshots.newest(), "t0"
    root.open(SNAPSHOT).delete(f"epoch IN ({gone})")
    found = topic_history(root, newest, topic)
    assert [line.epoch for line in found.lines if line.broker_name == "broker-1"] == known
    assert [line.epoch for line in found.uncertain] == uncertain


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
        true, found = facts_of(topic, named[topic].lines), counted[topic]
        sure = facts_of(topic, [line for line in found.lines if line.cause != ONE_OF_SEVERAL])
        unsure = [*found.uncertain, *(line for line in found.lines if line.cause == ONE_OF_SEVERAL)]
        assert sure.items() <= true.items()
        assert {key[:2] for key in true.keys() - sure.keys()} <= {(line.epoch, line.broker_name) for line in unsure}
        assert sure or topic == "W"
