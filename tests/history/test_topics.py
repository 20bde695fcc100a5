"""The history of a topic, where the lines name it and where they have a count only."""

from namesrv_stream.answers.events import topic_events
from namesrv_stream.rules.history import rows_before_and_after
from namesrv_stream.tables.snapshot_reader import RouteReader
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
            sides = [side.get(table, []) for side in rows_before_and_after(line)]
            rows = [next((row for row in side if row["topic"] == topic), None) for side in sides]
            if rows != [None, None]:
                facts[line.epoch, line.broker_name, line.seq, table] = rows
    return facts
