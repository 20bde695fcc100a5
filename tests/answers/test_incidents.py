"""Incidents, on histories by the hour and, against the views of outages, on random ones."""

import random

import pytest

from namesrv_stream.analysis.ask import ask
from namesrv_stream.answers.effects import effects
from namesrv_stream.answers.past_brokers import past_brokers
from namesrv_stream.tables.registry import Registry
from tests.answers.by_the_hour import check_history
from tests.answers.fleet import RandomHistory
from tests.answers.seeded import DAY_MS, HOUR_MS
from tests.data import data
from tests.tables.rows import NOW

START_MS = NOW - 20 * DAY_MS
GAPS_MS = (10_000, 10_000, 40_000, HOUR_MS, 2 * DAY_MS)
HISTORIES = data(__file__, "incidents.yaml")


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_incidents_say_of_a_history_what_its_row_says(root, registry, row):
    check_history(root, registry, row)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 40))])
def test_incidents_are_the_outages_of_the_views(root, seed):
    history, rng = RandomHistory(root, seed, START_MS, NOW), random.Random(seed)
    for step in range(90):
        history.step(rng.choice(GAPS_MS[: 5 if step % 9 == 0 else 4]))
    history.event_ms += 1_000  # the views have no time without a length
    history.publish()
    registry = Registry(root).newest()
    past = past_brokers(registry, START_MS)
    groups = [(ends[0].fell_ms, ends[-1].fell_ms, {named(end) for end in ends}) for ends in past.shared()]
    assert [each for each in groups if len(each[2]) > 1] == [
        (ms(first), ms(last), set(which)) for first, last, which in rows_of(root, SHARED)
    ]
    fallen = [end for end in past.ends if end.outcome != "replaced"]
    now_ms = registry.now_ms
    assert sorted((named(end), end.gone_ms, end.type, (end.until_ms or now_ms) - end.gone_ms) for end in fallen) == [
        (broker, ms(gone_at), *of_end) for broker, gone_at, *of_end in rows_of(root, OUTAGES)
    ]
    check_topics(registry, past, root)


SHARED = "SELECT first_gone_at, last_gone_at, which FROM shared_outage ORDER BY 1"
OUTAGES = """SELECT concat_ws(' ', cluster_name, broker_name, broker_id) AS broker, gone_at, ended_by, down_millis
             FROM outage ORDER BY ALL"""


def check_topics(registry, past, root):
    """A topic suffers from an incident only while it does by the views, and it does if it went with a lease of it."""
    columns = "measure, topic, gone_at, gone_at + to_milliseconds(down_millis)"
    of_topics = rows_of(root, f"SELECT {columns} FROM topic_outage WHERE broker_name IS NULL")
    now_ms = registry.now_ms
    for ends, did in zip(past.shared(), effects(registry, past.shared()), strict=True):
        since_ms, until_ms = min(end.gone_ms for end in ends), max(end.until_ms or now_ms for end in ends)
        went_ms = {end.gone_ms for end in ends if end.outcome != "replaced" and end.type != "REFUSED"}
        for measure, effect in (("route", did.without_route), ("write", did.not_writable)):
            outages = [(topic, ms(begin), ms(end)) for of, topic, begin, end in of_topics if of == measure]
            times = [(topic, min(end, until_ms) - max(begin, since_ms)) for topic, begin, end in outages]
            suffered = [(topic, time) for topic, time in times if time > 0]
            assert effect.topics >= len({topic for topic, begin, _ in outages if begin in went_ms})
            assert effect.topics <= len({topic for topic, _ in suffered})
            assert effect.longest_ms <= max((time for _, time in suffered), default=0)


def named(end):
    return " ".join(map(str, end.broker))


def ms(time):
    return round(time.timestamp() * 1000)


def rows_of(root, statement):
    return [tuple(row.values()) for row in ask(root, statement).to_pylist()]
