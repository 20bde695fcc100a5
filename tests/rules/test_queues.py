"""The packed queues against plain dictionaries: whatever changes, each snapshot goes on showing what it showed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.rules import queues as queues_module
from namesrv_stream.rules.queues import QueueSettings, TopicQueues
from namesrv_stream.rules.rows import TopicRow
from tests.examples import examples

INT32 = st.integers(-(2**31), 2**31 - 1)
SETTINGS = st.builds(QueueSettings, *[st.sampled_from([0, 6]) | INT32] * 4)
TOPICS = st.integers(0, 60).map("topic-{}".format) | st.text(max_size=3)
NAMES = st.sampled_from(["broker-a", "broker-b", "broker-c", "ü", "broker"])
CHANGES = st.dictionaries(TOPICS, st.dictionaries(NAMES, st.none() | SETTINGS, min_size=1), max_size=40)


@pytest.fixture(autouse=True, scope="module")
def small_pages():
    """Few topics make many pages, which split, shrink and vanish."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues_module, "PAGE_TOPICS", 4)
        yield


def after(model, changes):
    changed = {(topic, name): settings for topic, names in changes.items() for name, settings in names.items()}
    return {key: settings for key, settings in (model | changed).items() if settings is not None}


def rows_of(model):
    return [TopicRow(*key, *settings) for key, settings in sorted(model.items())]


def assert_shows(queues, model):
    rows = rows_of(model)
    assert [row for topic in queues for row in queues[topic]] == rows
    assert list(queues) == sorted({row.topic for row in rows})
    assert len(queues) == len(list(queues))
    assert queues.topic_counts == Counter(row.broker_name for row in rows)
    assert dict(queues.flags()) == {row.topic: row.topic_sys_flag for row in reversed(rows)}
    asked = {"broker-a", "ü", "nobody"}
    topics = ["none", *(row.topic for row in rows), "none"]
    for name in asked:
        assert list(queues.settings_on(name, topics)) == [model.get((topic, name)) for topic in topics]
    counted = Counter(row.broker_name for row in rows if row.topic != rows[0].topic)
    assert queues.counts_of([*[*queues][1:], "none"]) == counted
    assert queues.topics_on(asked) == sorted({row.topic for row in rows if row.broker_name in asked})


@pytest.mark.long
@examples(50)
@given(steps=st.lists(CHANGES, max_size=5))
def test_every_snapshot_shows_its_own_rows_after_all_later_changes(steps):
    snapshots = [(TopicQueues(), {})]
    for changes in steps:
        queues, model = snapshots[-1]
        snapshots.append((queues.changed(changes), after(model, changes)))
    for queues, model in snapshots:
        assert_shows(queues, model)


@pytest.mark.long
@examples(50)
@given(changes=CHANGES)
def test_rows_in_any_order_are_packed_in_order(changes):
    model = after({}, changes)
    assert_shows(TopicQueues.of(reversed(rows_of(model))), model)


@pytest.mark.parametrize(("topics", "pages"), [(7, 1), (8, 2), (9, 3)])
def test_a_page_is_split_once_it_has_topics_for_two(topics, pages):
    rows = [TopicRow(f"topic-{number}", "broker-a", 8, 8, 6, 0) for number in range(topics)]
    assert len(TopicQueues.of(rows).pages) == pages


def test_an_unknown_topic_has_no_queues():
    queues = TopicQueues.of([TopicRow("t", "broker-a", 8, 8, 6, 0)])
    for unknown in ("", "s", "u"):
        assert unknown not in queues
        assert queues.get(unknown) is None
    assert "t" not in TopicQueues()


def test_a_change_of_one_topic_copies_one_page_and_shares_the_others():
    before = TopicQueues.of([TopicRow(f"topic-{number}", "broker-a", 8, 8, 6, 0) for number in range(40)])
    changed = before.changed({"topic-7": {"broker-a": QueueSettings(4, 4, 6, 0)}})
    shared = [page is former for page, former in zip(changed.pages, before.pages, strict=True)]
    assert shared.count(False) == 1
    assert len(shared) > 5
