"""The table `topic` in memory: loaded whole or brought forward by `row_change`, it shows the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.rows import TopicRow
from namesrv_stream.tables import topic_queues
from namesrv_stream.tables.arrow import rows_to_arrow
from namesrv_stream.tables.publication import Batch
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import ROW_CHANGE, TOPIC
from namesrv_stream.tables.topic_queues import packed_queues
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter
from tests.tables.batches import claim, publish
from tests.tables.rows import NOW, T0, line_of, live, topic

INT32 = st.integers(-(2**31), 2**31 - 1)
ROWS = st.lists(
    st.builds(TopicRow, st.text(max_size=4), st.text(max_size=2), *[st.sampled_from([8, 6]) | INT32] * 4),
    unique_by=lambda row: row[:2],
)


@given(rows=ROWS, batch_rows=st.integers(1, 7))
def test_columns_are_packed_as_rows_are(rows, batch_rows):
    packed = packed_queues(rows_to_arrow(TOPIC, rows).to_batches(max_chunksize=batch_rows))
    one_by_one = TopicQueues.of(rows)
    assert list(packed.items()) == list(one_by_one.items())
    assert packed.topic_counts == one_by_one.topic_counts


class Followed:
    """A registry and a reader that has seen its first snapshot: `t` and `u` on two broker names."""

    def __init__(self, root):
        self.root = root
        self.publisher = claim(root)
        self.writer = RustWriter(root)
        publish(self.publisher, 0, topic=[topic(name, holder) for name in "tu" for holder in ("broker-a", "broker-b")])
        self.reader = Registry(root)
        self.before = self.latest = self.reader.follow()

    def merge(self, upserts=(), deletes=()):
        line = line_of(topic={row[:2]: row for row in upserts} | dict.fromkeys(deletes))
        self.publisher.publish(Batch("query", 1, T0, {0: 1}, {"topic": RowChanges(upserts, deletes)}, [line]), NOW)

    def assert_follows(self, changed_topics):
        """Assert that the view equals one that is opened anew, and names what has changed."""
        view, former = self.reader.follow(), self.latest
        self.latest = view
        assert view.changed_topics(former) == changed_topics
        assert view.rows("topic") == Registry(self.root).newest().rows("topic")
        return view


@pytest.fixture
def followed(root):
    return Followed(root)


def test_changed_topics_are_named_and_the_view_before_stays(followed):
    rows = followed.before.rows("topic")
    followed.merge([topic("t", perm=4), topic("new")], [("u", "broker-a"), ("u", "broker-b")])
    view = followed.assert_follows({"t", "u", "new"})
    assert list(view.routes.queues) == ["new", "t"]
    assert followed.before.rows("topic") == rows
    assert followed.before.routes.queues["t"][0].perm == 6


def test_compaction_in_between_changes_no_topic(followed):
    followed.merge([topic("v")])
    followed.root.open(TOPIC).optimize.compact()
    followed.merge([topic("w")])
    followed.publisher.compact(max_files=0)
    publish(followed.publisher, 3, live=[live("a")])
    followed.assert_follows({"v", "w"})


def test_a_restore_in_between_takes_the_rows_of_a_broken_publication_back(followed):
    publisher = followed.publisher
    half = followed.writer.merge(TOPIC, publisher.versions["topic"], RowChanges([topic("half")]), CommitTag(9, 9))
    followed.merge([topic("v")])
    assert publisher.restored == ["topic"]
    view = followed.assert_follows({"v"})
    assert view.snapshot.versions["topic"] > half
    assert "half" not in view.routes.queues


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"no Parquet")])
def test_a_table_whose_changes_cannot_be_read_is_loaded_whole(followed, damage):
    followed.merge([topic("v")])
    for file in Path(followed.root.uri(ROW_CHANGE)).rglob("*.parquet"):
        damage(file)
    followed.assert_follows(None)


def test_a_table_of_another_term_is_loaded_whole_because_a_repair_may_have_lost_rows(followed):
    followed.publisher = claim(followed.root)
    followed.merge([topic("v")])
    followed.assert_follows(None)


def test_a_change_of_a_large_part_is_loaded_whole(followed, monkeypatch):
    monkeypatch.setattr(topic_queues, "MAX_CHANGES", 1)
    followed.merge([topic("t", perm=4)])
    followed.assert_follows({"t"})
    followed.merge([topic("t", perm=2), topic("u", perm=2)])
    followed.assert_follows(None)
