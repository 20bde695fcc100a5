"""The definitions in SQL and those for rows in memory agree with a registry that is watched step by step."""

import random

import pytest

from namesrv_stream.analysis.ask import ask
from namesrv_stream.answers.definitions import EXPECTED_MS, down_brokers, lost_topics, topic_verdict
from namesrv_stream.answers.events import newest_of, with_changes
from namesrv_stream.answers.lists import brokers, clusters
from namesrv_stream.answers.model import MAX_LISTED
from namesrv_stream.answers.overview import overview
from namesrv_stream.answers.periods import churn, timeline
from namesrv_stream.answers.questions import AskBrokers, AskChurn, AskTimeline, AskTopic, AskTopics
from namesrv_stream.answers.topics import route, topics
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.history import UNPLANNED
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import SnapshotTable
from tests.answers.by_the_hour import check_history
from tests.answers.fleet import RandomHistory
from tests.answers.seeded import DAY_MS, HOUR_MS, MINUTE_MS
from tests.data import data
from tests.tables.rows import NOW

START_MS = (NOW // DAY_MS - 60) * DAY_MS
GAPS_MS = (20_000, MINUTE_MS, HOUR_MS, 7 * HOUR_MS, DAY_MS, 3 * DAY_MS)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 40))]
WIPED = "WIPE_WRITE_PERM_OF_BROKER"
HISTORIES = data(__file__, "definitions.yaml")


class Watched:
    """A random history, and what was up and writable after each of its steps."""

    def __init__(self, root, seed, steps=90):
        history, rng = RandomHistory(root, seed, START_MS, NOW), random.Random(seed)
        self.moments, self.alive = [], {}
        for step in range(steps):
            history.step(rng.choice(GAPS_MS))
            view = history.rules.view()
            self.moments.append((history.event_ms, brokers_of(view), written(view)))
            if step % 30 == 29:
                self.alive[history.publish()] = len(brokers_of(view))
        self.root, self.end_ms, self.view = root, history.event_ms, view
        self.snapshot = SnapshotTable(root).newest()
        self.registry = Registry(root).newest()
        self.lines = newest_of(self.registry, "true", None)
        lines = [
            line
            for line in self.lines
            if (line.topics_removed and line.cause not in ("SILENCE", "CHANNEL_CLOSED")) or line.cause == WIPED
        ]
        self.planned = [
            [line.event_time, before.topic, before.broker_name]
            for line in with_changes(self.registry, lines, "table_name = 'topic'")
            for _, _, before, after in line.changes
            if after is None or line.cause == WIPED
        ]
        self.of_brokers = self.stretches(0, self.broker_until)

    def stretches(self, index, expected_until):
        """Subject -> (from, up until, expected until) of each stretch, followed step by step."""
        began, found = {}, {}
        for at_ms, *states in self.moments:
            now_up = states[index]
            for subject in sorted(began.keys() - now_up, key=lambda each: each[-1] is None):  # a topic after its names
                until_ms = max(at_ms, expected_until(subject, at_ms, found))
                found.setdefault(subject, []).append([began.pop(subject), at_ms, until_ms])
            for subject in now_up - began.keys():
                for stretch in found.get(subject, [])[-1:]:
                    stretch[2] = min(stretch[2], at_ms)
                began[subject] = at_ms
        for subject, from_ms in began.items():
            found.setdefault(subject, []).append([from_ms, self.end_ms, self.end_ms])
        return {each: [[a, b, min(c, self.end_ms)] for a, b, c in of_one] for each, of_one in found.items()}

    def broker_until(self, broker, at_ms, _):
        """Return until when a broker that fell is expected: an operator may retire this very one (A7)."""
        retired = (line for line in self.lines if line.type == "RETIRE_BROKER" and not line.held_id)
        times = (each.event_time for each in retired if (each.cluster_name, *each[8:10]) == broker)
        until_ms = min([at_ms + EXPECTED_MS, *(each for each in times if each >= at_ms)])
        return until_ms if self.fell_unplanned(broker, at_ms) else at_ms

    def topic_until(self, subject, at_ms, found):
        """Return until when a topic that fell is expected on a name: while a broker of it is down. Else on any name.

        Not after a master is back, nor after a planned end or a command.
        """
        topic, name = subject
        if name is None:
            return max(of_one[-1][2] for (of, name), of_one in found.items() if of == topic and name)
        of_name = (stretch for broker, of_one in self.of_brokers.items() if broker[1] == name for stretch in of_one)
        until_ms = max((until for _, fell, until in of_name if fell <= at_ms), default=at_ms)
        ends = [line.event_time for line in self.lines if line.deleted_topic == topic]
        ends += [at_ms for at_ms, *of in self.planned if of == [topic, name]]
        until_ms = min([until_ms, *(each for each in ends if each > at_ms), *self.masters_since(name, at_ms)])
        return until_ms if self.lost_unplanned(name, at_ms) else at_ms

    def masters_since(self, name, at_ms):
        of_name = (self.of_brokers.get((cluster, name, MASTER_ID), ()) for cluster in ("c1", "c2"))
        return [from_ms for stretches in of_name for from_ms, *_ in stretches if from_ms >= at_ms]

    def fell_unplanned(self, broker, at_ms, unplanned=UNPLANNED):
        types = [
            line.type
            for line in self.lines
            if line.event_time == at_ms and (line.cluster_name, line.broker_name, line.broker_id) == broker
        ]
        return "ID_LOST" not in types and not {*unplanned}.isdisjoint(types)

    def lost_unplanned(self, name, at_ms):
        """Return whether a broker name lost its master with an unplanned end.

        A REFUSED master has registered elsewhere, by which its topics left.
        """
        masters = [(cluster, name, MASTER_ID) for cluster in ("c1", "c2")]
        return any(self.fell_unplanned(master, at_ms, {*UNPLANNED} - {"REFUSED"}) for master in masters)


def brokers_of(view):
    return {
        (row.cluster_name, name, broker_id)
        for name, holders in view.brokers.items()
        for broker_id, row in holders.items()
    }


def written(view):
    """Each topic that producers can write to, with each broker name on which they can, and with None."""
    found = {
        (topic, row.broker_name)
        for topic, rows in view.queues.items()
        for row in rows
        if row.perm & PERM_WRITE and MASTER_ID in view.brokers.get(row.broker_name, {})
    }
    return found | {(topic, None) for topic, _ in found}


def shares(stretches, since_ms, until_ms):
    found = {}
    for subject, of_one in stretches.items():
        up = sum(max(0, min(b, until_ms) - max(a, since_ms)) for a, b, _ in of_one)
        expected = sum(max(0, min(c, until_ms) - max(a, since_ms)) for a, _, c in of_one)
        if expected:
            found[subject] = (up, expected)
    return found


@pytest.fixture(scope="module")
def watched(request, tmp_path_factory):
    """The history of a seed; pytest runs the tests of one seed together."""
    return Watched(Root(str(tmp_path_factory.mktemp("watched") / "registry")), request.param)


@pytest.mark.parametrize("watched", SEEDS, indirect=True)
def test_views_and_rows_in_memory_agree_with_a_history_watched_step_by_step(watched):
    of_brokers = watched.of_brokers
    check_stretches(watched, of_brokers)
    check_outages(watched, of_brokers)
    check_write_availability(watched)
    check_churn(watched, of_brokers)
    check_down(watched, of_brokers)
    check_page(watched)


def check_page(watched):
    """Compare what the page and the command line show at the newest moment with the views."""
    registry, root = watched.registry, watched.root
    counted = asked(root, "SELECT (SELECT count(*) FROM broker), (SELECT count(*) FROM broker_down)")
    shown = overview(registry)
    assert [(shown.verdict.brokers.up, shown.verdict.brokers.down)] == counted
    assert sum(each.count for each in shown.verdict.causes if each.state == "down") == shown.counts.down
    states = dict(asked(root, "SELECT topic, state FROM topic_state"))
    assert {each.topic: each.state for each in topics(registry, AskTopics(limit=MAX_LISTED)).topics} == states
    assert {topic: route(registry, topic, AskTopic()).state for topic in states} == states
    down = asked(root, "SELECT cluster_name, broker_name, broker_id FROM broker_down ORDER BY ALL")
    fallen = brokers(registry, AskBrokers(state="down", limit=MAX_LISTED)).brokers
    listed = [(each.cluster_name, each.broker_name, each.broker_id) for each in fallen]
    assert sorted(listed) == down
    of_names = [
        (cluster.name, name.broker_name, name.holders)
        for cluster in clusters(registry).clusters
        for name in cluster.brokers
    ]
    assert sorted((*name, each.broker_id) for *name, holders in of_names for each in holders if each.down) == down
    snapshots, ever = SnapshotTable(root), AskTimeline(since=iso_text(0))
    marks = timeline(registry, snapshots.readable()[-1], snapshots.event_times, ever).marks
    assert {mark.epoch: mark.alive for mark in marks} == watched.alive


def broker_of(row):
    return row["cluster_name"], row["broker_name"], row["broker_id"]


def check_stretches(watched, of_brokers):
    rows = ask(watched.root, "FROM broker_stretch").to_pylist()
    found = {}
    for row in sorted(rows, key=lambda row: row["from_millis"]):
        found.setdefault(broker_of(row), []).append(
            [row[f"{each}_millis"] for each in ("from", "up_until", "expected_until")]
        )
    assert found == of_brokers
    days = "SELECT cluster_name, broker_name, broker_id, sum(up_millis)::BIGINT AS up, sum(expected_millis)::BIGINT AS "
    rows = ask(watched.root, f"{days} expected, max(availability) AS most FROM broker_availability GROUP BY ALL")
    found = {broker_of(row): (row["up"], row["expected"]) for row in rows.to_pylist()}
    assert found == shares(of_brokers, 0, watched.end_ms)
    assert max(rows["most"].to_pylist()) <= 1


def check_outages(watched, of_brokers):
    lacking = {key: expected - up for key, (up, expected) in shares(of_brokers, 0, watched.end_ms).items()}
    rows = ask(
        watched.root,
        "SELECT cluster_name, broker_name, broker_id, sum(down_millis)::BIGINT AS ms FROM outage GROUP BY ALL",
    )
    down = {broker_of(row): row["ms"] for row in rows.to_pylist()}
    assert {key: ms for key, ms in lacking.items() if ms} == {key: ms for key, ms in down.items() if ms}


def check_churn(watched, of_brokers):
    """Compare the answer of the API for times that begin anywhere, as in an outage."""
    for since_ms, *_ in watched.moments[::30]:
        found = churn(watched.registry, AskChurn(since=iso_text(since_ms)))
        wanted = shares(of_brokers, since_ms, watched.end_ms)
        assert found.availability == {
            " ".join(map(str, key)): round(up / expected, 6) for key, (up, expected) in wanted.items()
        }
        assert {each.broker for each in found.sessions} >= found.availability.keys()
        fallen = [b for key, of_one in of_brokers.items() for _, b, _ in of_one if watched.fell_unplanned(key, b)]
        assert sum(each.unplanned_ends for each in found.flapping) == sum(since_ms <= b for b in fallen)


def check_write_availability(watched):
    rows = ask(watched.root, "FROM topic_write_availability").to_pylist()
    found = {}
    for row in rows:
        up, expected = found.get((row["topic"], row["broker_name"]), (0, 0))
        found[row["topic"], row["broker_name"]] = (up + row["up_millis"], expected + row["expected_millis"])
    assert found == shares(watched.stretches(1, watched.topic_until), 0, watched.end_ms)


def check_down(watched, of_brokers):
    """Compare the views of the present with the rows in memory and with the last step."""
    view = watched.view
    snapshot = watched.snapshot._replace(event_time=watched.end_ms)
    registry = RegistryAt(Registry(watched.root), snapshot, snapshot, AsOf(snapshot.epoch))
    down = down_brokers(registry)
    rows = ask(watched.root, "FROM broker_down").to_pylist()
    columns = ("cluster_name", "broker_name", "broker_id", "zone_name", "broker_addr", "ended_by")
    times = ("last_heard_at", "gone_at")
    assert {*down} == {
        (*(row[name] for name in columns), *(ms(row[name]) for name in times), None, None) for row in rows
    }
    up = brokers_of(view)
    ended = {key: of_one[-1][1] for key, of_one in of_brokers.items() if key not in up}
    assert {each[:3] for each in down} == {
        key for key, ms in ended.items() if watched.broker_until(key, ms, None) > watched.end_ms
    }
    lost = lost_topics(registry)
    found = {
        topic: (each.state, each.up, each.broker_names, each.is_readable, each.is_writable)
        for topic in view.queues.keys() | lost.keys()
        for each in [topic_verdict(view.queues.get(topic, ()), view.brokers, lost.get(topic, frozenset()))]
    }
    states = ("state", "broker_names_up", "broker_names", "is_readable", "is_writable")
    assert {topic for topic, each in found.items() if each[-1]} == {topic for topic, _ in written(view)}
    rows = ask(watched.root, "FROM topic_state").to_pylist()
    assert {row["topic"]: tuple(row[name] for name in states) for row in rows} == found


def ms(time):
    return round(time.timestamp() * 1000)


def asked(root, statement):
    return [tuple(row.values()) for row in ask(root, statement).to_pylist()]


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_the_definitions_say_of_a_history_what_its_row_says(root, registry, row):
    check_history(root, registry, row)
