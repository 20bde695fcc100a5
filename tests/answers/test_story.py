"""Each line of history as a sentence, and no sentence that is untrue."""

import pytest

from namesrv_stream.answers.broker_lines import broker_lines
from namesrv_stream.answers.overview import overview
from namesrv_stream.answers.sentences import story_of_group, story_of_restarts
from namesrv_stream.answers.story import story_of_broker, story_of_topic
from namesrv_stream.rules.history import log_gap_line
from namesrv_stream.rules.rows import BrokerEventRow, LogPosition, RowChange, TopicRow
from namesrv_stream.tables.registry import Registry
from tests.answers.fleet import RandomLife
from tests.answers.lives import ADDRESSES, Life
from tests.data import data, require_known
from tests.registry import PublishedRegistry
from tests.tables.rows import NOW

ROWS = data(__file__, "stories.yaml")


def texts(sentences):
    return [sentence.text for sentence in sentences]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["told"][-1])
def test_what_brokers_and_operators_do_has_a_sentence(row):
    require_known(row, "given when topic told logged")
    life = Life()
    life.happens(row.get("given", ()))
    lines = life.happens(row["when"])
    if topic := row.get("topic"):
        told = texts(story_of_topic(topic, [line for line in lines if names(topic, line)]))
    else:
        told = texts(story_of_broker(lines))
    assert told == filled(row["told"])
    logged = [f"{'! ' * line.is_warning}{line.text}" for line in broker_lines(lines)]
    assert logged == filled(row.get("logged", logged))


def filled(rows):
    return [text.format(nobody="an operator without a name", **ADDRESSES) for text in rows]


def names(topic, line):
    """A line that changed a topic, or is a command about it."""
    return f"'{topic}'" in str([each.key for each in line.changes]) or f'"topic":"{topic}"' in (line.command or "")


@pytest.mark.parametrize(
    ("brokers", "last"), [(20, "broker-19 master "), (21, "1 more broker "), (900, "880 more brokers")]
)
def test_a_mass_event_names_the_first_twenty_brokers_in_the_log_and_counts_the_others(brokers, last):
    come = [{"register": f"10.0.0.1:{number}", "broker_name": f"broker-{number}"} for number in range(brokers)]
    found = [line.text for line in broker_lines(Life().happens(come))]
    assert (len(found), found[-1].startswith(last)) == (min(brokers, 21), True)
    assert found[-1].endswith("cluster c1" if brokers == 20 else " came online; `namesrv-stream history` lists them")


@pytest.mark.parametrize("seed", range(10))
def test_every_line_has_a_sentence_and_nothing_changed_only_if_it_has_no_row(seed):
    life = RandomLife(seed, 0)
    for _ in range(200):
        life.step()
    for line in life.rules.take_changes().events:
        [sentence] = story_of_broker([line])
        changed = line.changes
        assert ("nothing changed" in sentence.text) is (
            not changed and line.type not in ("REFUSED", "ID_LOST", "RETIRE_BROKER")
        )
        for topic in "TUV":
            if names(topic, line):
                story = texts(story_of_topic(topic, [line]))
                assert story
                assert all(("nothing changed" in text) is (not changed) for text in story)


def test_a_line_of_a_later_release_is_told_by_its_type_and_asked_for_by_nobody():
    line = log_gap_line(LogPosition(1_000, 0, 1), 1)._replace(type="MOON_FELL", cause="MOON")
    assert texts(story_of_broker([line])) == ["Event MOON_FELL, unknown to this release, caused by MOON."]


def line_of(kind, name, broker_id=0, **more):
    fields = {"epoch": 1, "event_time": 0, "cluster_name": "cluster-b", "changes": (), "broker_id": broker_id}
    return BrokerEventRow(**dict.fromkeys(BrokerEventRow._fields) | fields | {"type": kind, "broker_name": name} | more)


def deletion(name):
    changes = (RowChange("topic", ("T", name), TopicRow("T", name, 8, 8, 6, 0), None),)
    return line_of("DELETE_TOPIC_IN_NAMESRV", name, requested_by="ann@desk", reason="retired", changes=changes)


@pytest.mark.parametrize(
    ("lines", "told"),
    [([line_of("EXPIRED", "b-2")] * 8, "b-2 master in cluster-b expired 8 times."),
     ([line_of("EXPIRED", "b-2"), line_of("EXPIRED", "b-2", 1)],
      "2 brokers in cluster-b expired: b-2 master, b-2 slave 1."),
     ([line_of("REGISTERED", f"b-{number % 7}") for number in range(9)],
      "7 brokers in cluster-b registered, 9 times in all: "
      "b-0 master, b-1 master, b-2 master, b-3 master, b-4 master and 2 more."),
     ([deletion(f"b-{number}") for number in range(8)],
      "ann@desk deleted topic T on b-0, b-1, b-2, b-3, b-4 and 3 more (reason: retired).")],
)  # fmt: skip
def test_one_sentence_is_for_a_group_and_names_what_it_has(lines, told):
    assert story_of_group(lines) == told


def restart(name, end_s, start_s):
    times = {"UNREGISTERED": end_s, "REGISTERED": start_s}
    return tuple(line_of(kind, name, event_time=at_s * 1_000) for kind, at_s in times.items())


@pytest.mark.parametrize(
    ("restarts", "told"),
    [([restart("b-2", 0, 3), restart("b-1", 3, 8)],
      "2 brokers in cluster-b restarted within 8s, one after the other, 3s to 5s each: b-1 master, b-2 master."),
     ([restart("b-2", 0, 3), restart("b-1", 2, 5)],
      "2 brokers in cluster-b restarted within 5s, 3s each: b-1 master, b-2 master."),
     ([restart("b-2", 0, 3), restart("b-1", 0, 3)],
      "2 brokers in cluster-b restarted, 3s each: b-1 master, b-2 master."),
     ([restart("b-2", 0, 3), restart("b-1", 3, 6), restart("b-2", 60, 63)],
      "2 brokers in cluster-b restarted, 3 times in all within 1m 3s, one after the other, 3s each: "
      "b-1 master, b-2 master."),
     ([restart("b-2", 0, 3), restart("b-2", 60, 63)],
      "b-2 master in cluster-b restarted 2 times within 1m 3s, 3s each.")],
)  # fmt: skip
def test_restarts_are_one_sentence_and_one_after_the_other_if_no_two_were_away_at_once(restarts, told):
    assert story_of_restarts(restarts) == told


def test_the_last_events_are_told_whole_however_long_ago_and_many_they_are(root):
    registry = PublishedRegistry(root, NOW)
    for number in range(60):
        registry.register(f"10.2.0.{number}:1", "c9", f"many-{number}", publish=False)
    registry.publish()
    registry.now_ms += 86_400_000
    for number in range(60):
        registry.expire(f"10.2.0.{number}:1", publish=False)
    registry.now_ms += 7_200_000
    registry.publish()
    found = overview(Registry(registry.root).newest())
    assert found.last_hour == {}
    assert [each.count for each in found.events if each.type == "EXPIRED"] == [60]
