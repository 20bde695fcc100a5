"""Stages of an outage at 1,000 brokers: what a hidden tab says first, beside a count of the test's own.

| stage | what an operator concludes from the first words |
|---|---|
| a zone, then a stray death | the zone is the thing; a stray death does not hide it |
| all masters of a cluster | no writes there, whatever else is down: what producers lose stands first |
| the only broker of a topic | that topic first, by name |
| it is retired; all come back | what is gone for good is no alarm; green only once all are back |
| a name unregisters; a permission goes | no alarm, and yet not the same as before |
"""

from collections import defaultdict

import pytest

from namesrv_stream.rules.record_types import RetireBroker, WipeWritePerm
from tests.clock import now_ms
from tests.console import crowd
from tests.console.background import BackgroundConsole, kafka_tells
from tests.console.chromium import Page, chromium
from tests.console.crowd import address_of, cluster_of, name_of, zone_of
from tests.registry import PublishedRegistry

pytestmark = [pytest.mark.full, pytest.mark.needs("chromedriver")]
BROKERS, TOPICS, EACH = 1_000, 2_000, 8
SOLO = "10.9.9.9:10911"


class Fleet:
    """The registry, and what is down by the test's own count."""

    def __init__(self, root):
        self.registry = PublishedRegistry(root, now_ms() - 70_000)
        crowd.publish_crowd(self.registry, BROKERS, TOPICS, EACH)
        self.registry.register(SOLO, "cluster-0", "solo", topics=("solo_topic",), zone_name="zone-0")
        self.down = set()

    def lose(self, numbers):
        self.registry.now_ms += 1_000
        for number in numbers:
            self.registry.expire(address_of(number), publish=False)
        self.down |= set(numbers)
        self.registry.publish()

    def counts(self):
        """Topics without a master, and those of which some name lacks one: each topic is on the names that have it."""
        names = defaultdict(set)
        for number in range(0, BROKERS, 2):
            for each in range(EACH):
                names[(number // 2 * EACH + each) % TOPICS].add(number)
        dead = [masters & self.down for masters in names.values()]
        lost = sum(gone == masters for gone, masters in zip(dead, names.values(), strict=True))
        return len(self.down), lost


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    monkeypatch.setattr(crowd, "CLUSTERS", 4)
    monkeypatch.setattr(crowd, "ZONES", 4)
    return Fleet(str(tmp_path / "registry"))


def test_each_stage_of_an_outage_says_the_gravest_first_in_a_tab_that_nobody_sees(fleet, settings):
    registry, numbers = fleet.registry, range(BROKERS)
    zone = [number for number in numbers if zone_of(number) == "zone-1"]
    masters = [number for number in numbers if cluster_of(number) == "cluster-2" and number % 2 == 0]
    with kafka_tells(), chromium() as driver, BackgroundConsole(settings(delta__root=registry.root)) as console:
        page = Page(driver, console.url)
        page.open()
        page.until(lambda: page.find("#verdict")[0].text == "All 1,001 brokers are up, every topic is writable")
        page.hook("hide")

        def verdict():
            return page.find("#verdict")[0].get_attribute("textContent")

        def says(first, *others):
            """Wait until the verdict begins with the first words and has the others, and compare its colour."""
            page.until(lambda: all(each in verdict() for each in (first, *others)) and verdict().startswith(first))
            assert bool(page.find("#verdict.critical")) != first.startswith(("All", "998"))

        fleet.lose(zone)
        says("zone zone-1 is down in all four clusters: 248 of 248 brokers (25 % of all) since")
        fleet.lose([0])
        says("249 of 1,001 brokers are down: zone zone-1, broker-0 0 of cluster-0")
        fleet.lose([each for each in masters if each not in fleet.down])
        down, lost = fleet.counts()
        says(f"{lost:,} topics take no messages; {down:,} of 1,001 brokers are down", "all masters of cluster-2")
        registry.expire(SOLO)
        says(f"solo_topic has no route, {lost:,} topics take no messages; {down + 1:,} of 1,001 brokers are down")
        registry.command(RetireBroker(cluster_name="cluster-0", broker_name="solo", broker_id=0, reason="sold"))
        says(f"{lost:,} topics take no messages; {down:,} of 1,000 brokers are down")
        registry.now_ms += 50_000
        crowd.publish_crowd(registry, BROKERS, TOPICS, EACH)
        says("All 1,000 brokers are up, every topic is writable")
        registry.unregister(address_of(2))
        registry.unregister(address_of(3))
        says("998 brokers are up; 2 unregistered, the last at")
        registry.command(WipeWritePerm(broker_name=name_of(4)))
        says("998 brokers are up; 2 unregistered, the last at")
        driver.get("about:blank")
