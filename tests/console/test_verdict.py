"""The verdict groups brokers by what they share, and says in one sentence what is wrong."""

import re

import pytest

from namesrv_stream.answers.causes import Member, causes
from namesrv_stream.answers.definitions import DownBroker, TopicVerdict
from namesrv_stream.answers.verdict import Left, TopicVerdicts, verdict

AT = 1_795_683_180_000  # 2026-11-26 08:53 UTC
BROKER = re.compile(r"([!~]?)([0-9]+)(s?)(?:@(\w+)/(\w*))?(?:([+-][0-9]+)(ms|))?")


def members(text):
    """Brokers: `1` is up, `!1` down, `~1` late, `1s` a slave, `1@c2/z2` elsewhere, `!1-9` down nine minutes before."""
    return [member(*BROKER.fullmatch(each).groups()) for each in text.split()]


def member(state, number, slave, cluster, zone, after, unit):
    cluster, zone = cluster or "c1", "z1" if zone is None else zone or None
    name, address = f"b-{number}", f"10.0.0.{number}:1"
    at_ms = AT + int(after or 0) * (1 if unit else 60_000)
    of = Member(cluster, zone, name, int(bool(slave)), address, {"": "alive", "~": "late"}.get(state, "down"), at_ms)
    if state != "!":
        return of._replace(at_ms=AT + 600_000)
    return of._replace(down=DownBroker(cluster, name, 0, zone, address, "EXPIRED", at_ms, at_ms + 120_000))


BESIDE_A_ZONE = "!1 !2@c1/z2 !3@c2/z1 !4@c3/z2 !5@c3/z1 6@c2/z2 7s@c3/z2"
"""A cluster, and all masters of another one, are down beside a zone."""


@pytest.mark.parametrize(
    ("brokers", "counts", "level", "text"),
    [("", {}, "warning", "No broker is registered"),
     ("1 2", {"writable": 3}, "ok", "Both brokers are up, every topic is writable"),
     ("1", {"read_only": 1}, "ok", "The only broker is up, every topic is writable but 1 read-only"),
     ("1 2", {"not_writable": 1}, "critical", "T0 takes no messages; both brokers are up"),
     ("1 ~2", {}, "warning", "Both brokers are up, 1 late"),
     ("1 !2", {"without_route": 10, "degraded": 1848}, "critical",
      "10 topics have no route; b-2 0 of c1 (10.0.0.2:1) is down since 08:53 UTC; 1,848 topics are degraded"),
     ("!1 !2", {}, "critical", "both brokers are down since 08:53 UTC"),
     ("1 !2 !3@c2/z2 !4@c2/z2+9 5@c2/z2", {"without_route": 1, "not_writable": 2}, "critical",
      "T0 has no route, T1 and T2 take no messages; 3 of 5 brokers are down: 2 in two clusters and two zones, b-4 0 of "
      "c2"),
     (BESIDE_A_ZONE, {}, "critical", "5 of 7 brokers are down: zone z1, c1 and 1 more"),
     ("!1 !2 1s 2s !9@c2/z1-30 8@c2/z1", {}, "critical", "3 of 6 brokers are down: all masters of c1, b-9 0 of c2")],
)  # fmt: skip
def test_the_sentence_says_what_is_wrong_with_brokers_and_topics(brokers, counts, level, text):
    states = [state for state, count in counts.items() for _ in range(count)]
    topics = {f"T{index}": TopicVerdict(state, 1, 1, True, 1, ()) for index, state in enumerate(states)}
    found = verdict(members(brokers), TopicVerdicts(topics, frozenset()))
    assert (found.level, found.text) == (level, text)


BOTH = "masters 2/2 both masters of c1 are down (40 % of all) since"
HALF = "2 of 5 brokers of zone z1 in c1 are down (40 % of all) since"
FOUR = "!1-60 !2-60 !3 !4"
NO_WRITES = "no writes in c1, slaves serve reads"


@pytest.mark.parametrize(
    ("brokers", "told"),
    [("1 2@c2/z1 !9-60 !3@c1/z2 !4@c2/z2 !5@c2/z2", [  # a zone in all clusters is one cause, and the largest is first
        "zone 3/3 zone z2 is down in both clusters: 3 of 3 brokers (50 % of all) since 08:53 UTC",
        "broker 1/2 b-9 0 of c1 (10.0.0.9:1) is down since 07:53 UTC"]),
     ("1 !2 !3+60000ms", ["some 2/3 2 of 3 brokers of zone z1 in c1 are down (67 % of all) since 08:53 UTC"]),
     ("1 !2 !3+60001ms", ["broker 1/3 b-2 0 of c1 (10.0.0.2:1) is down since 08:53 UTC",
                          "broker 1/3 b-3 0 of c1 (10.0.0.3:1) is down since 08:54 UTC"]),
     ("1 2@c1/z2 !3 !4", ["some 2/3 2 of 3 brokers of zone z1 in c1 are down (50 % of all) since 08:53 UTC"]),
     ("1 2@c1/z2 !3 !4 !5@c1/z2", [
         "some 3/5 3 of 5 brokers in c1 and two zones are down (60 % of all) since 08:53 UTC"]),
     # A stray death in the same minute does not hide the zone.
     ("!10@c1/b !11@c1/b !12@c1/b !13@c1/b !14@c1/b !15@c1/b !16@c1/b !17@c1/b !90@c1/a !91@c2/a 20@c1/b 21@c1/a", [
         "some 8/9 8 of 9 brokers of zone b in c1 are down (67 % of all) since 08:53 UTC",
         "some 2/3 2 of 3 brokers of zone a in two clusters are down (17 % of all) since 08:53 UTC"]),
     # All masters of a cluster are named as such whenever they went.
     ("!1 !2 1s 2s 9@c2/z1", [f"{BOTH} 08:53 UTC: {NO_WRITES}"]),
     ("!1-1 !2 1s 2s 9@c2/z1", [f"{BOTH} 08:52 UTC: {NO_WRITES}"]),
     ("!1-2 !2 1s 2s 9@c2/z1", [
         f"{BOTH} 08:53 UTC, the first since 08:51 UTC: {NO_WRITES}"]),
     (BESIDE_A_ZONE, [
         "zone 3/3 zone z1 is down in all three clusters: 3 of 3 brokers (43 % of all) since 08:53 UTC",
         "cluster 1/2 c1 is down: 2 of 2 brokers (29 % of all) since 08:53 UTC",
         "masters 1/2 both masters of c3 are down (29 % of all) since 08:53 UTC: no writes in c3"]),
     # Two times are one cause if these are a whole place.
     (f"{FOUR} 9", [f"some 2/5 {HALF} 0{hour}:53 UTC" for hour in (7, 8)]),
     (f"{FOUR} 9@c1/z2", [
         "zone 4/4 zone z1 is down: 4 of 4 brokers (80 % of all) since 08:53 UTC, the first since 07:53 UTC"]),
     (f"{FOUR} 9@c2/", [
         "zone 4/4 zone z1 is down in c1: 4 of 4 brokers (80 % of all) since 08:53 UTC, the first since 07:53 UTC"]),
     (FOUR, ["all 4/4 all 4 brokers are down since 08:53 UTC, the first since 07:53 UTC"]),
     ("1@c1/ !2@c2/ !3@c2/", ["cluster 2/2 c2 is down: 2 of 2 brokers (67 % of all) since 08:53 UTC"]),
     ("1 !2-1440", ["broker 1/2 b-2 0 of c1 (10.0.0.2:1) is down since 2026-11-25 08:53 UTC"]),
     ("0 " + " ".join(f"!{number}" for number in range(1, 400)), [
         "some 399/400 399 of 400 brokers of zone z1 in c1 are down (over 99 % of all) since 08:53 UTC"])],
)  # fmt: skip
def test_brokers_are_down_by_what_they_share(brokers, told):
    assert [f"{each.scope} {each.count}/{each.total} {each.text}" for each in causes(members(brokers))] == told


@pytest.mark.parametrize(
    ("brokers", "gone", "end"),
    [("!2", (), "1 unregistered at 08:55 UTC and is not back"),
     ("!2 !3", ("T",), "2 unregistered, the last at 08:55 UTC, and are not back, 1 topic went with them")],
)  # fmt: skip
def test_who_unregistered_and_is_not_back_is_told_without_alarm(brokers, gone, end):
    left = [each.down for each in members(brokers)]
    found = verdict(members("1"), TopicVerdicts({}, frozenset()), Left(left, gone))
    assert (found.level, found.text, found.brokers.left) == ("ok", f"1 broker is up; {end}", len(left))
