"""The definitions in SQL and those for rows in memory agree with a registry that is watched step by step."""

import random
from datetime import UTC, datetime

import pytest

from namesrv_stream.analysis.ask import ask
from namesrv_stream.answers.accounts import why
from namesrv_stream.answers.broker_page import broker_page
from namesrv_stream.answers.causes import clock_text
from namesrv_stream.answers.definitions import EXPECTED_MS, down_brokers, lost_topics, topic_verdict
from namesrv_stream.answers.events import EVERYTHING, Span, newest_events, with_changes
from namesrv_stream.answers.lists import brokers, clusters
from namesrv_stream.answers.overview import overview
from namesrv_stream.answers.periods import churn, timeline
from namesrv_stream.answers.subject import NotFoundError, Seen
from namesrv_stream.answers.topics import route, topics
from namesrv_stream.answers.verdict import TopicVerdicts, left_of
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.history import UNPLANNED
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE, DeleteTopic, RetireBroker, WipeWritePerm
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tables.snapshots import Snapshots
from tests.history.fleet import RandomHistory
from tests.history.seeded import DAY_MS, HOUR_MS, MINUTE_MS, SeededRegistry
from tests.tables.rows import NOW

START_MS = (NOW // DAY_MS - 60) * DAY_MS
GAPS_MS = (20_000, MINUTE_MS, HOUR_MS, 7 * HOUR_MS, DAY_MS, 3 * DAY_MS)
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 40))]
A, B, C, D = (f"10.0.0.{number}:10911" for number in range(1, 5))
WIPED = "WIPE_WRITE_PERM_OF_BROKER"
DELETE = DeleteTopic(topic="T", cluster_name="c2")


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
        self.snapshot = Snapshots(root).newest()
        self.seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
        self.lines = newest_events(root, self.snapshot, limit=None)
        lines = [
            line
            for line in self.lines
            if (line.topics_removed and line.cause not in ("SILENCE", "CHANNEL_CLOSED")) or line.cause == WIPED
        ]
        self.planned = [
            [line.event_time, before.topic, before.broker_name]
            for line in with_changes(root, self.snapshot, lines, "table_name = 'topic'")
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


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


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
    seen, root = watched.seen, watched.root
    counted = asked(root, "SELECT (SELECT count(*) FROM broker), (SELECT count(*) FROM broker_down)")
    shown = overview(seen)
    assert [(shown.verdict.brokers.up, shown.verdict.brokers.down)] == counted
    assert sum(each.count for each in shown.verdict.causes if each.state == "down") == shown.counts.down
    states = dict(asked(root, "SELECT topic, state FROM topic_state"))
    assert {each.topic: each.state for each in topics(seen).topics} == states
    assert {topic: route(seen, topic).state for topic in states} == states
    down = asked(root, "SELECT cluster_name, broker_name, broker_id FROM broker_down ORDER BY ALL")
    listed = [(each.cluster_name, each.broker_name, each.broker_id) for each in brokers(seen, state="down").brokers]
    assert sorted(listed) == down
    of_names = [
        (cluster.name, name.broker_name, name.holders)
        for cluster in clusters(seen).clusters
        for name in cluster.brokers
    ]
    assert sorted((*name, each.broker_id) for *name, holders in of_names for each in holders if each.down) == down
    marks = timeline(seen, watched.snapshot, Snapshots(root).event_times, 0).marks
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
        found = churn(watched.seen, since_ms)
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
    tables = RouteTables(brokers=view.brokers, queues=view.queues)
    snapshot = watched.snapshot._replace(event_time=watched.end_ms)
    seen = Seen(watched.root, snapshot, tables, NamesrvSettings())
    down = down_brokers(seen)
    rows = ask(watched.root, "FROM broker_down").to_pylist()
    columns = ("cluster_name", "broker_name", "broker_id", "zone_name", "broker_addr", "ended_by")
    times = ("last_heard_at", "gone_at")
    assert {*down} == {(*(row[name] for name in columns), *(ms(row[name]) for name in times), None) for row in rows}
    up = brokers_of(view)
    ended = {key: of_one[-1][1] for key, of_one in of_brokers.items() if key not in up}
    assert {each[:3] for each in down} == {
        key for key, ms in ended.items() if watched.broker_until(key, ms, None) > watched.end_ms
    }
    lost = lost_topics(seen)
    found = {
        topic: (each.state, each.up, each.broker_names, each.is_readable, each.is_writable)
        for topic in view.queues.keys() | lost.keys()
        for each in [topic_verdict(view.queues.get(topic, ()), tables, lost.get(topic, frozenset()))]
    }
    states = ("state", "broker_names_up", "broker_names", "is_readable", "is_writable")
    assert {topic for topic, each in found.items() if each[-1]} == {topic for topic, _ in written(view)}
    rows = ask(watched.root, "FROM topic_state").to_pylist()
    assert {row["topic"]: tuple(row[name] for name in states) for row in rows} == found


def ms(time):
    return round(time.timestamp() * 1000)


@pytest.fixture
def registry(root):
    return SeededRegistry(root, NOW)


def at(days, hours=0.0):
    return START_MS + round(days * DAY_MS + hours * HOUR_MS)


def clock(days, now=2):
    return clock_text(at(days), at(now))


def asked(root, statement):
    return [tuple(row.values()) for row in ask(root, statement).to_pylist()]


@pytest.mark.parametrize(("days", "is_down"), [(7 - 1 / 86_400_000, True), (7, False)])
def test_a_broker_is_down_until_it_is_back_or_seven_days_have_passed(root, registry, days, is_down):
    registry.register(at(0), A, "broker-a", zone="z1", topics=("T",))
    registry.expire(at(1), A)
    registry.publish(at_ms=at(1 + days))
    assert asked(root, "SELECT zone_name, broker_addr FROM broker_down") == [("z1", A)] * is_down
    assert asked(root, "SELECT topic, state FROM topic_state") == [("T", "without_route")] * is_down


def test_an_outage_has_the_zone_of_its_time_and_lasts_seven_days_at_most(root, registry):
    registry.register(at(0), A, "broker-a", zone="z1")
    registry.expire(at(1), A)
    registry.register(at(1, 2), A, "broker-a", zone="z2")
    registry.expire(at(3), A)
    registry.register(at(13), A, "broker-a", zone="z3")
    registry.publish(at_ms=at(14))
    assert asked(root, "SELECT zone_name, away_millis, down_millis FROM outage ORDER BY gone_at") == [
        ("z1", 2 * HOUR_MS, 2 * HOUR_MS),
        ("z2", None, 7 * DAY_MS),
    ]
    assert asked(root, "SELECT zone_name, repaired, mttr_millis FROM zone_outage ORDER BY 1") == [
        ("z1", 1, 2 * HOUR_MS),
        ("z2", 0, None),
    ]
    assert asked(root, "SELECT sum(expected_millis - up_millis)::BIGINT FROM broker_availability") == [
        (2 * HOUR_MS + 7 * DAY_MS,)
    ]


def test_an_outage_over_the_end_of_a_month_is_one(root, registry):
    midnight = datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000
    for address, name in zip((A, B, C, D), "abcd", strict=True):
        registry.register(round(midnight) - HOUR_MS, address, name)
    for number, address in enumerate((A, B, C, D)):
        registry.close_channel(round(midnight) + (number - 2) * 30_000, address)
    registry.publish(at_ms=round(midnight) + HOUR_MS)
    assert asked(root, "SELECT brokers, event_month FROM shared_outage") == [(4, "2026-10")]


def test_a_topic_without_a_master_is_not_writable_and_one_that_lost_a_name_is_degraded(root, registry):
    registry.register(at(0), A, "broker-a", topics=("T", "U"))
    registry.register(at(0), B, "broker-a", 1)
    registry.register(at(0), C, "broker-b", topics=("U", "V"))
    registry.register(at(0), D, "broker-d", topics=("V",))
    registry.expire(at(1), A)
    registry.expire(at(1), D)
    registry.publish(at_ms=at(2))
    states = "SELECT topic, state, broker_names_up, broker_names FROM topic_state ORDER BY topic"
    assert asked(root, states) == [("T", "not_writable", 0, 1), ("U", "degraded", 1, 2), ("V", "degraded", 1, 2)]
    assert asked(root, "SELECT sum(availability) FROM topic_availability WHERE topic = 'T'") == [(2.0,)]
    written = "SELECT availability FROM topic_write_availability WHERE topic = 'T' AND broker_name IS NULL ORDER BY day"
    assert asked(root, written) == [(1.0,), (0.0,)]


def test_a_topic_whose_masters_have_gone_is_not_writable_though_an_acting_master_lost_the_permission(root, registry):
    for number, address in enumerate((A, B)):
        registry.register(at(0), address, "broker-a", number, topics=("T",), is_acting=True)
    registry.unregister(at(1), A)
    registry.publish(at_ms=at(2))
    assert asked(root, "SELECT topic, state FROM topic_state") == [("T", "not_writable")]
    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
    assert [each.state for each in topics(seen).topics] == ["not_writable"]
    assert overview(seen).verdict.text.startswith("T takes no messages; ")


@pytest.mark.parametrize("end", [SeededRegistry.unregister, lambda registry, at_ms, _: registry.command(at_ms, DELETE)])
@pytest.mark.parametrize(("ids", "told"), [((0,), "T has no route"), ((0, 1), "T is not writable")])
def test_a_topic_is_out_since_the_last_of_its_names_went_whatever_ended_it(root, registry, end, ids, told):
    for number, address in zip(ids, (A, B), strict=False):
        registry.register(at(0), address, "broker-a", number, topics=("T",))
    registry.register(at(0), C, "broker-c", cluster="c2", topics=("T",))
    if len(ids) > 1:
        registry.register(at(0), D, "broker-c", 1, cluster="c2")
    registry.close_channel(at(1), A)
    end(registry, at(2), C)
    if len(ids) > 1:  # a slave keeps the topic, which takes no messages
        registry.unregister(at(3), D)
    registry.publish(at_ms=at(4))
    text = route(Seen.of(root, RouteReader(root).open(), NamesrvSettings()), "T").text
    assert text.startswith(f"{told} since {clock(2, 4)}: broker-a ")
    outage = f"FROM topic_outage WHERE measure = '{'route' if ids == (0,) else 'write'}' AND broker_name IS NULL"
    assert asked(root, f"SELECT epoch_ms(gone_at) {outage}") == [(at(2),)]


def test_a_topic_without_the_permission_on_one_of_its_names_is_writable_on_the_others(root, registry):
    for number, address in enumerate((A, B)):
        registry.register(at(0), address, f"broker-{number}", topics=("T",))
    registry.command(at(1), WipeWritePerm(broker_name="broker-1"))
    registry.publish(at_ms=at(2))
    found = route(Seen.of(root, RouteReader(root).open(), NamesrvSettings()), "T")
    wiped = "broker-1 has no permission to write"
    assert (found.state, found.text) == ("writable", f"T is writable on 1 of 2 broker names since {clock(1)}: {wiped}.")
    registry.expire(at(3), A)
    registry.publish(at_ms=at(4))
    found = route(Seen.of(root, RouteReader(root).open(), NamesrvSettings()), "T")
    assert found.text == f"T is not writable since {clock(3, 4)}: broker-0 is down and {wiped}."
    assert [(each.broker_name, each.why) for each in found.missing] == [
        ("broker-0", "down"),
        ("broker-1", "no write permission"),
    ]


def test_a7_a_retired_broker_and_the_topics_of_its_name_are_not_expected_until_it_is_back(root, registry):
    for number, address in enumerate((A, B)):
        registry.register(at(0), address, f"broker-{number}", topics=("T",))
    registry.expire(at(1), A)
    retirement = RetireBroker(cluster_name="c1", broker_name="broker-0", broker_id=0, reason="sold", requested_by="ann")

    def known(hour):
        registry.publish(at_ms=at(hour))
        seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
        [(outage_ms, up_ms, expected_ms)] = asked(
            root,
            "SELECT (SELECT sum(down_millis) FROM outage), sum(up_millis), sum(expected_millis) FROM "
            "broker_availability WHERE broker_name = 'broker-0'",
        )
        assert expected_ms - up_ms == outage_ms
        states = [each.state for each in topics(seen).topics], asked(root, "SELECT state FROM topic_state")
        return overview(seen).counts.down, states, outage_ms // DAY_MS

    assert known(2) == (1, (["degraded"], [("degraded",)]), 1)
    registry.command(at(3), retirement)
    assert known(4) == (0, (["writable"], [("writable",)]), 2)
    assert asked(root, "SELECT requested_by, reason FROM broker_retirement") == [("ann", "sold")]
    registry.register(at(5), A, "broker-0", topics=("T",))
    registry.command(at(6), retirement)
    assert known(7) == (0, (["writable"], [("writable",)]), 2)
    registry.expire(at(8), A)
    assert known(9) == (1, (["degraded"], [("degraded",)]), 3)


@pytest.mark.parametrize("other", [("c1", 0), ("c1", 1), ("c1", 7), ("gone", 0)])
def test_a7_a_retirement_holds_for_the_broker_that_it_names_and_not_for_its_name(root, registry, other):
    for number, address in enumerate((A, B)):
        registry.register(at(0), address, "broker-a", number, topics=("T",))
    for hours, address in enumerate((A, B)):
        registry.close_channel(at(1, hours), address)
    named = {"broker_name": "broker-a", "reason": "sold"}
    registry.command(at(2), RetireBroker(cluster_name=other[0], broker_id=other[1], **named))
    registry.publish(at_ms=at(3))
    outage = "SELECT down_millis FROM topic_outage WHERE measure = 'route'"
    assert states_of(root) == ["without_route"]
    assert asked(root, outage) == [(47 * HOUR_MS,)]
    for broker_id in (0, 1):
        registry.command(at(3), RetireBroker(cluster_name="c1", broker_id=broker_id, **named))
    registry.publish(at_ms=at(4))
    assert states_of(root) == []
    assert asked(root, outage) == [(47 * HOUR_MS,)]


@pytest.mark.parametrize("end", [SeededRegistry.close_channel, SeededRegistry.unregister])
def test_a_topic_is_expected_as_long_as_one_of_its_names_is_down(root, registry, end):
    for number, address in enumerate((A, B)):
        registry.register(at(0), address, f"broker-{number}", topics=("T",))
    registry.close_channel(at(1), A)
    end(registry, at(2), B)
    registry.command(at(3), RetireBroker(cluster_name="c1", broker_name="broker-1", broker_id=0, reason="sold"))
    registry.publish(at_ms=at(4))
    assert states_of(root) == ["without_route"]
    for_all = "WHERE broker_name IS NULL ORDER BY measure"
    assert asked(root, f"SELECT measure, down_millis FROM topic_outage {for_all}") == [
        ("route", 2 * DAY_MS),
        ("write", 2 * DAY_MS),
    ]


@pytest.mark.parametrize(
    ("end", "states"),
    [
        (lambda registry, at_ms: registry.command(at_ms, DeleteTopic(topic="T")), []),
        (lambda registry, at_ms: registry.unregister(at_ms, B), []),
        (lambda registry, at_ms: registry.command(at_ms, WipeWritePerm(broker_name="broker-a")), ["not_writable"]),
    ],
    ids=["deleted", "the slave unregisters", "the permission is taken"],
)
def test_a_topic_without_master_is_not_expected_after_a_planned_end(root, registry, end, states):
    for broker_id, address in enumerate((A, B)):
        registry.register(at(0), address, "broker-a", broker_id, topics=("T",))
    registry.close_channel(at(1), A)
    end(registry, at(2))
    registry.publish(at_ms=at(4))
    assert states_of(root) == states
    for_all = "WHERE broker_name IS NULL ORDER BY measure"
    assert asked(root, f"SELECT measure, down_millis FROM topic_outage {for_all}") == [("write", DAY_MS)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("close_channel", B), ("close_channel", A), ("register", A, ()), ("close_channel", A)], []),
        ([("close_channel", A), ("close_channel", B), ("register", B, ()), "retire", ("close_channel", B)], []),
        ([("close_channel", A), ("close_channel", B), ("register", B, ("T",)), ("close_channel", B)], ["T", "U"]),
    ],
    ids=[
        "the master was back without them",
        "the master is retired, its slave was back",
        "an acting master came with one of them",
    ],
)
def test_the_topics_of_a_name_that_is_down_are_those_since_its_master_went(root, registry, steps, expected):
    ids = {A: {}, B: {"broker_id": 1, "is_acting": True}}
    for address, topics_of in ((A, ("T", "U")), (B, ())):
        registry.register(at(0), address, "broker-a", topics=topics_of, **ids[address])
    for hours, step in enumerate(steps):
        match step:
            case "register", address, brought:
                registry.register(at(1, hours), address, "broker-a", topics=brought, **ids[address])
            case end, address:
                getattr(registry, end)(at(1, hours), address)
            case _:
                registry.command(
                    at(1, hours), RetireBroker(cluster_name="c1", broker_name="broker-a", broker_id=0, reason="sold")
                )
    registry.publish(at_ms=at(2))
    assert states_of(root) == ["without_route"] * len(expected)
    out = "FROM topic_outage WHERE measure = 'route' AND epoch_ms(until_at) = "
    assert asked(root, f"SELECT topic {out}{at(2)} ORDER BY topic") == [(topic,) for topic in expected]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([("close_channel", A), ("register", A, 0, ("T",))], [f"{A} (broker-a 0 of c1) lost", f"{A} registered as"]),
        ([("register", A, 2, ("T",))], [f"{A} is no longer broker-a 0"]),
        ([("close_channel", A), ("register", B, 0, ("T",))], [f"{A} (broker-a 0 of c1) lost", f"{B}, alive already"]),
        ([("register", C, 0, ("T",))], [f"{C} registered as broker-a 0 of c1, in the place of {A}."]),
        ([("close_channel", B), ("close_channel", A)], ["T left broker-a, because"]),
        ([("close_channel", B), ("close_channel", A), ("register", A, 0, ("U",))], ["T left broker-a, because"]),
    ],
    ids=["is back", "demoted", "a slave promoted", "replaced", "went with the topic", "went after the topic"],
)
@pytest.mark.parametrize("is_whole", [True, False])
def test_the_story_of_a_topic_has_the_masters_that_its_names_lost_and_got_while_they_had_it(
    root, registry, steps, told, is_whole
):
    registry.register(at(0), A, "broker-a", topics=("T",))
    registry.register(at(0), B, "broker-a", 1)
    for hours, (step, address, *more) in enumerate(steps):
        if more:
            registry.register(at(1, hours), address, "broker-a", more[0], topics=more[1])
        else:
            getattr(registry, step)(at(1, hours), address)
    registry.publish(at_ms=at(2))
    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
    found = why(seen, "T", EVERYTHING if is_whole else Span(at(0.5)), is_topic=True).sentences
    began = ["T came to broker-a"] if is_whole else []
    assert [each.text[: len(text)] for each, text in zip(found, [*began, *told], strict=True)] == [*began, *told]


def states_of(root):
    """Return the states of topics, on which the rows in memory agree with the views."""
    states = [each.state for each in topics(Seen.of(root, RouteReader(root).open(), NamesrvSettings())).topics]
    assert asked(root, "SELECT state FROM topic_state ORDER BY topic") == [(each,) for each in states]
    return states


def page_of(root, name="broker-a"):
    return broker_page(Seen.of(root, RouteReader(root).open(), NamesrvSettings()), name)


@pytest.mark.parametrize(
    ("end", "kind", "fell_ms"),
    [(SeededRegistry.close_channel, "CHANNEL_CLOSED", 0), (SeededRegistry.expire, "EXPIRED", 2 * MINUTE_MS)],
)
def test_a_broker_that_is_down_says_since_when_and_which_of_its_topics_suffer_and_that_it_came_back(
    root, registry, end, kind, fell_ms
):
    registry.register(at(0), A, "broker-a", topics=("T", "U"))
    registry.register(at(0), B, "broker-b", topics=("U",))
    end(registry, at(1), A)
    registry.publish(at_ms=at(2))
    found = page_of(root)
    fell = f"broker-a is down since {clock_text(at(1) - fell_ms, at(2))} ({kind})"
    assert found.text == f"{fell}; of its 2 topics 1 has no route, 1 is degraded."
    assert [(each.topic, each.write_queue_nums, each.state) for each in found.topics] == [
        ("T", 8, "without_route"),
        ("U", 8, "degraded"),
    ]
    registry.register(at(2), A, "broker-a", topics=("T", "U"))
    registry.publish(at_ms=at(2, 0.5))
    assert page_of(root).text == f"broker-a is up, 0 came back at {clock(2)} after 1d."
    assert asked(root, "SELECT away_millis FROM outage") == [(DAY_MS,)]


def test_a7_a_retired_broker_says_who_retired_it_and_its_outage_counts_from_its_end(root, registry):
    for number, address in enumerate((A, B)):
        registry.register(at(0), address, f"broker-{number}", topics=("T", f"of-{number}"))
        registry.expire(at(1), address)
    retirement = RetireBroker(cluster_name="c1", broker_name="broker-0", broker_id=0, reason="sold", requested_by="ann")
    registry.command(at(1.5), retirement)
    registry.publish(at_ms=at(2))
    found = page_of(root, A)
    assert found.text == (
        f"broker-0 is in no route, and not expected; 0, gone since {clock(1)} (EXPIRED), was retired at {clock(1.5)} "
        "by ann (reason: sold)."
    )
    assert (found.brokers, found.topics) == ([], [])
    of_topic = route(Seen.of(root, RouteReader(root).open(), NamesrvSettings()), "of-0")
    assert of_topic.state == "left"
    assert of_topic.text.endswith(f" broker-0 0 was retired at {clock(1.5)} by ann (reason: sold).")
    registry.register(at(2), A, "broker-0")
    registry.publish(at_ms=at(2, 0.5))
    assert page_of(root, A).text == f"broker-0 is up, 0 came back at {clock(2)} after 1d."
    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
    assert f"{A} registered as broker-0 0 of c1, back after 1d." in [each.text for each in overview(seen).events]


def test_topics_that_went_are_chosen_by_the_place_of_their_last_brokers_and_system_topics_are_no_loss(root, registry):
    registry.register(at(0), A, "broker-a", zone="z1", topics=("T", "broker-a", "c1", "SELF_TEST_TOPIC"))
    registry.register(at(0), B, "broker-b", cluster="c2", zone="z2", topics=("U", "c2"))
    registry.register(at(0), C, "broker-c", cluster="c3", zone="z3", topics=("c3",))
    registry.unregister(at(1), A)
    registry.unregister(at(1), B)
    registry.close_channel(at(1), C)
    registry.publish(at_ms=at(1, 0.5))
    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
    shown = overview(seen)
    assert (
        sorted(left_of(seen, TopicVerdicts({}, frozenset())).topics),
        shown.counts.topics,
        shown.counts.system_topics,
    ) == (["T", "U"], 0, 1)
    assert "2 unregistered, the last at 00:00 UTC, and are not back, 2 topics went with them" in shown.verdict.text

    def left(**place):
        page = topics(seen, state="left", with_system=False, **place)
        return [each.topic for each in page.topics], page.hidden

    assert left() == (["T", "U"], 4)
    assert left(cluster="c1") == left(zone="z1") == (["T"], 3)
    assert left(cluster="c2", zone="z1") == ([], 0)
    assert page_of(root, "broker-a").text.endswith("; its only topic has no route.")
    with pytest.raises(NotFoundError, match="there is no zone z9"):
        route(seen, "T", "z9")


def test_topics_that_went_are_those_of_a_moved_and_of_a_retired_broker_too_and_none_that_is_lost(root, registry):
    registry.register(at(0), A, "broker-a", zone="z1", topics=("Shared", "X"))
    registry.register(at(0), B, "broker-b", topics=("Shared", "Y"))
    registry.register(at(0), D, "broker-d", zone="z4", topics=("W",))
    registry.close_channel(at(1), A)
    registry.register(at(1), D, "broker-e", zone="z5")
    registry.unregister(at(1, 0.1), B)
    registry.publish(at_ms=at(1, 0.2))

    def left(**place):
        return [each.topic for each in topics(seen, state="left", **place).topics]

    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
    assert overview(seen).verdict.text.startswith("Shared and X have no route; ")
    assert overview(seen).verdict.text.endswith("1 unregistered at 00:06 UTC and is not back, 1 topic went with it")
    with pytest.raises(NotFoundError, match="Did you mean Shared"):
        route(seen, "Sharedd")
    assert (left(), left(zone="z4"), left(zone="z5")) == (["W", "Y"], ["W"], [])
    registry.command(at(2), RetireBroker(cluster_name="c1", broker_name="broker-a", broker_id=0, reason="sold"))
    registry.publish(at_ms=at(7))
    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
    assert (left(), left(zone="z1")) == (["Shared", "W", "X", "Y"], ["Shared", "X"])


@pytest.mark.parametrize(("cluster", "is_over"), [(None, True), ("c1", False)])
@pytest.mark.parametrize("elsewhere", ["U", "T"])
def test_a_topic_is_expected_no_more_on_a_name_that_is_down_once_a_command_deletes_it(
    root, registry, cluster, is_over, elsewhere
):
    registry.register(at(0), A, "broker-a", topics=("T",))
    registry.register(at(0), B, "broker-b", topics=(*{elsewhere, "U"},))
    registry.close_channel(at(1), A)
    registry.command(at(2), DeleteTopic(topic="T", cluster_name=cluster))
    registry.publish(at_ms=at(3))
    shown = topics(Seen.of(root, RouteReader(root).open(), NamesrvSettings())).topics
    states = sorted((each.topic, each.state) for each in shown)
    assert states == asked(root, "SELECT topic, state FROM topic_state ORDER BY topic")
    assert states == [*([] if is_over else [("T", "without_route")]), ("U", "writable")]
    until = asked(root, "SELECT DISTINCT epoch_ms(until_at) FROM topic_outage WHERE topic = 'T'")
    assert until == [(at(2 if is_over else 3),)]


def test_a_broker_that_unregistered_and_its_topic_say_when(root, registry):
    registry.register(at(0), A, "broker-a", topics=("T",))
    registry.unregister(at(1), A)
    registry.publish(at_ms=at(2))
    found = page_of(root, A)
    assert found.text == f"broker-a unregistered at {clock(1)} and is not back; its only topic has no route."
    assert [(each.state, each.down.ended_by) for each in found.brokers] == [("left", "UNREGISTERED")]
    found = route(Seen.of(root, RouteReader(root).open(), NamesrvSettings()), "T")
    assert found.text == f"T has no route since {clock(1)}: T left broker-a, because {A} unregistered."


def test_a_broker_name_without_its_master_says_since_when(root, registry):
    for number, address in enumerate((A, B)):
        registry.register(at(0), address, "broker-a", number, topics=("T",) if not number else ())
    registry.close_channel(at(1), A)
    registry.publish(at_ms=at(2))
    since = f"has no master since {clock(1)} (CHANNEL_CLOSED): no writes"
    assert page_of(root).text == f"broker-a {since}; its only topic takes no messages."


def test_a_broker_asked_for_by_its_address_has_the_verdict_of_its_name(root, registry):
    for number, address in enumerate((A, B)):
        registry.register(at(0), address, "broker-a", number)
    registry.publish(at_ms=at(1))
    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
    assert broker_page(seen, B).text == broker_page(seen, "broker-a").text == "broker-a is up."
    assert [each.broker_addr for each in broker_page(seen, B).brokers] == [B]


def test_brokers_of_a_moment_without_signs_of_life_can_be_sorted_by_silence(root, registry):
    registry.register(at(0), A, "broker-a")
    registry.publish(at_ms=at(1))
    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())._replace(past_moment=AsOf(1))
    assert [each.broker_addr for each in brokers(seen, order="-silent").brokers] == [A]


def test_a_command_that_deletes_a_topic_is_one_row_for_each_name_that_ever_had_it(root, registry):
    names = [f"broker-{number}" for number in range(5)]
    for number, name in enumerate(names):
        registry.register(at(0), f"10.0.1.{number}:10911", name, topics=("T",))
    registry.expire(at(1), "10.0.1.0:10911")
    registry.command(at(1.5), DeleteTopic(topic="T"))
    registry.publish(at_ms=at(2))
    assert asked(root, "SELECT broker_name FROM topic_deletion ORDER BY 1") == [(name,) for name in names]
    ends = asked(root, "SELECT broker_name, epoch_ms(deleted_at) FROM topic_session ORDER BY 1")
    assert ends == [(name, at(1.5) if name == "broker-0" else None) for name in names]
    assert asked(root, "SELECT DISTINCT epoch_ms(until_at) FROM topic_outage") == [(at(1.5),)]


def test_a_master_that_came_and_went_in_one_millisecond_hides_no_outage(root, registry):
    registry.register(at(0), A, "broker-a", topics=("T",))
    registry.close_channel(at(1), A)
    registry.register(at(1), A, "broker-a", topics=("T",))
    registry.close_channel(at(1), A)
    registry.publish(at_ms=at(2))
    assert asked(root, "SELECT sum(down_millis)::BIGINT FROM topic_outage WHERE measure = 'route'") == [(DAY_MS,)]


def test_a_topic_that_a_command_deleted_in_the_same_millisecond_as_it_was_lost_is_not_expected(root, registry):
    registry.register(at(0), A, "broker-a", topics=("T",))
    registry.expire(at(1), A)
    registry.command(at(1), DeleteTopic(topic="T"))
    registry.publish(at_ms=at(2))
    assert lost_topics(Seen.of(root, RouteReader(root).open(), NamesrvSettings())) == {}
    assert asked(root, "SELECT count(*) FROM topic_down") == asked(root, "SELECT count(*) FROM topic_outage") == [(0,)]


@pytest.mark.parametrize("is_slave_back", [True, False])
def test_a_lost_topic_is_expected_until_its_master_is_back(root, registry, is_slave_back):
    registry.register(at(0), A, "broker-a", topics=("T",))
    registry.register(at(0), B, "broker-a", 1)
    registry.expire(at(1), A)
    registry.expire(at(1), B)
    registry.register(at(2), *((B, "broker-a", 1) if is_slave_back else (A, "broker-a")))
    registry.publish(at_ms=at(3))
    seen = Seen.of(root, RouteReader(root).open(), NamesrvSettings())
    states = [("T", "without_route")] * is_slave_back
    assert [(each.topic, each.state) for each in topics(seen).topics] == states
    assert asked(root, "SELECT topic, state FROM topic_state") == states
    until = "SELECT epoch_ms(until_at) FROM topic_outage WHERE measure = 'route'"
    assert asked(root, until) == [(at(3 if is_slave_back else 2),)]
