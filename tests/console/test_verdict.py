"""The verdict groups brokers by what they share, and says in one sentence what is wrong."""

import pytest

from namesrv_stream.answers.causes import Member, causes
from namesrv_stream.answers.definitions import DownBroker, TopicVerdict
from namesrv_stream.answers.verdict import Left, TopicVerdicts, verdict

AT = 1_795_683_180_000  # 2026-11-26 08:53 UTC
MINUTE_MS = 60_000


def alive(number, cluster="c1", zone="z1"):
    return Member(cluster, zone, f"b-{number}", 0, f"10.0.0.{number}:1", "alive", AT + 10 * MINUTE_MS)


def down(number, cluster="c1", zone="z1", at_ms=AT):
    fallen = DownBroker(cluster, f"b-{number}", 0, zone, f"10.0.0.{number}:1", "EXPIRED", at_ms, at_ms + 120_000)
    return Member(cluster, zone, f"b-{number}", 0, f"10.0.0.{number}:1", "down", at_ms, fallen)


def topics(**counts):
    states = [state for state, count in counts.items() for _ in range(count)]
    return {f"T{index}": TopicVerdict(state, 1, 1, True, 1, ()) for index, state in enumerate(states)}


def told(brokers, **counts):
    found = verdict(brokers, TopicVerdicts(topics(**counts), frozenset()))
    return found.level, found.text


@pytest.mark.parametrize(
    ("brokers", "counts", "wanted"),
    [
        ([], {}, ("ok", "No broker is registered")),
        ([alive(1), alive(2)], {"writable": 3}, ("ok", "All 2 brokers are up, every topic is writable")),
        ([alive(1)], {"read_only": 1}, ("ok", "The only broker is up, every topic is writable but 1 read-only")),
        ([alive(1), alive(2)], {"not_writable": 1}, ("critical", "T0 takes no messages; all 2 brokers are up")),
        ([alive(1), alive(2)._replace(state="late")], {}, ("warning", "All 2 brokers are up, 1 late")),
        (
            [alive(1), down(2)],
            {"without_route": 10, "degraded": 1848},
            (
                "critical",
                "10 topics have no route; b-2 0 of c1 (10.0.0.2:1) is down since 08:53 UTC; 1,848 topics are degraded",
            ),
        ),
        ([down(1), down(2)], {}, ("critical", "all 2 brokers are down since 08:53 UTC")),
        (
            [alive(1), down(2), down(3, "c2", "z2"), down(4, "c2", "z2", AT + 9 * MINUTE_MS), alive(5, "c2", "z2")],
            {"without_route": 1, "not_writable": 2},
            (
                "critical",
                "T0 has no route, T1 and T2 take no messages; 3 of 5 brokers are down: 2 in two clusters and two "
                "zones, b-4 0 of c2",
            ),
        ),
    ],
)  # fmt: skip
def test_the_sentence_says_what_is_wrong_with_brokers_and_topics(brokers, counts, wanted):
    assert told(brokers, **counts) == wanted


def test_a_zone_that_is_down_in_all_clusters_is_one_cause_and_the_largest_is_first():
    fallen = [down(3, zone="z2"), down(4, "c2", "z2"), down(5, "c2", "z2")]
    brokers = [alive(1), alive(2, "c2"), down(9, at_ms=AT - 60 * MINUTE_MS), *fallen]
    found = causes(brokers)
    assert [(each.scope, each.count, each.total) for each in found] == [("zone", 3, 3), ("broker", 1, 2)]
    assert found[0].text == "zone z2 is down in both clusters: 3 of 3 brokers (50 %) since 08:53 UTC"
    assert found[1].text == "b-9 0 of c1 (10.0.0.9:1) is down since 07:53 UTC"


@pytest.mark.parametrize(("gap_ms", "count"), [(MINUTE_MS, 1), (MINUTE_MS + 1, 2)])
def test_brokers_that_fell_out_within_a_minute_share_a_cause(gap_ms, count):
    found = causes([alive(1), down(2), down(3, at_ms=AT + gap_ms)])
    assert len(found) == count


def test_a_part_of_a_zone_and_a_part_of_several_zones_are_counted_by_what_they_have_in_common():
    brokers = [alive(1), alive(2, zone="z2"), down(3), down(4)]
    assert causes(brokers)[0].text == "2 of 3 brokers of zone z1 in c1 are down (50 %) since 08:53 UTC"
    assert causes([*brokers, down(5, zone="z2")])[0].text == (
        "3 of 5 brokers in c1 and two zones are down (60 %) since 08:53 UTC"
    )


def test_a_stray_death_in_the_same_minute_does_not_hide_the_zone():
    fallen = [*(down(number, zone="us-b") for number in range(8)), down(90, zone="us-a"), down(91, "c2", "us-a")]
    brokers = [*fallen, *(alive(number, zone=zone) for number, zone in ((20, "us-b"), (21, "us-a")))]
    found = causes(brokers)
    assert [each.text.partition(" are down")[0] for each in found] == [
        "8 of 9 brokers of zone us-b in c1",
        "2 of 3 brokers of zone us-a in two clusters",
    ]


@pytest.mark.parametrize(("apart", "first"), [(0, ""), (1, ""), (2, ", the first since 08:51 UTC")])
def test_all_masters_of_a_cluster_that_are_gone_are_named_as_such_whenever_they_went(apart, first):
    slaves = [alive(number)._replace(broker_id=1) for number in (1, 2)]
    masters = [down(1, at_ms=AT - apart * MINUTE_MS), down(2, at_ms=AT)]
    [cause] = causes([*masters, *slaves, alive(9, "c2")])
    assert (cause.scope, cause.name, cause.count, cause.total) == ("masters", "all masters of c1", 2, 2)
    since = f"since 08:5{2 if apart == 1 else 3} UTC{first}"
    assert cause.text == f"all 2 masters of c1 are down (40 %) {since}: no writes in c1, slaves serve reads"


def test_a_cluster_or_its_masters_that_are_gone_are_told_beside_a_zone_that_is_down_too():
    out = [down(1), down(2, zone="z2"), down(3, "c2"), down(4, "c3", "z2"), down(5, "c3")]
    found = causes([*out, alive(6, "c2", "z2"), alive(7, "c3", "z2")._replace(broker_id=1)])
    assert [(each.name, each.count, each.total) for each in found] == [
        ("zone z1", 3, 3),
        ("c1", 1, 2),
        ("all masters of c3", 1, 2),
    ]
    assert found[1].text == "c1 is down: 2 of 2 brokers (29 %) since 08:53 UTC"
    assert found[2].text == "all 2 masters of c3 are down (29 %) since 08:53 UTC: no writes in c3"


@pytest.mark.parametrize(
    ("count", "gone", "end"),
    [
        (1, (), "1 broker is up; 1 unregistered at 08:55 UTC and is not back"),
        (2, ("T",), "1 broker is up; 2 unregistered, the last at 08:55 UTC, and are not back, 1 topic went with them"),
    ],
)
def test_who_unregistered_and_is_not_back_is_told_without_alarm(count, gone, end):
    left = Left([down(number).down for number in range(2, 2 + count)], gone)
    found = verdict([alive(1)], TopicVerdicts({}, frozenset()), left)
    assert (found.level, found.text, found.brokers.left) == ("ok", end, count)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (alive(9), [f"2 of 5 brokers of zone z1 in c1 are down (40 %) since 0{hour}:53 UTC" for hour in (7, 8)]),
        (alive(9, zone="z2"), ["zone z1 is down: 4 of 4 brokers (80 %) since 08:53 UTC, the first since 07:53 UTC"]),
        (
            alive(9, "c2", None),
            ["zone z1 is down in c1: 4 of 4 brokers (80 %) since 08:53 UTC, the first since 07:53 UTC"],
        ),
        (None, ["all 4 brokers are down since 08:53 UTC, the first since 07:53 UTC"]),
    ],
)
def test_brokers_that_fell_out_at_two_times_are_one_cause_if_they_are_a_whole_place(more, told):
    early, late = [down(1, at_ms=AT - 60 * MINUTE_MS), down(2, at_ms=AT - 60 * MINUTE_MS)], [down(3), down(4)]
    assert [each.text for each in causes([*early, *late, *([more] if more else [])])] == told


def test_all_but_one_are_not_100_percent():
    assert "(over 99 %)" in causes([alive(0), *(down(number) for number in range(1, 400))])[0].text


def test_a_cluster_without_zones_that_is_down_is_one_cause():
    brokers = [alive(1, "c1", None), down(2, "c2", None), down(3, "c2", None)]
    assert causes(brokers)[0].text == "c2 is down: 2 of 2 brokers (67 %) since 08:53 UTC"


def test_a_time_of_another_day_has_its_day():
    assert causes([alive(1), down(2, at_ms=AT - 24 * 60 * MINUTE_MS)])[0].text.endswith("since 2026-11-25 08:53 UTC")
