"""Make the pictures of the console that README and docs show, from running samples in Chromium: `make pictures`."""

import tempfile
from pathlib import Path

from namesrv_stream.rules.record_types import BrokerHeartbeat, WipeWritePerm
from tests.clock import now_ms
from tests.console.background import kafka_tells
from tests.console.chromium import chromium, window
from tests.console.conftest import make_settings
from tests.console.crowd import address_of, lose_zone, name_of, publish_crowd, register
from tests.registry import PublishedRegistry

ASSETS = Path(__file__).parents[2] / "docs" / "assets"
WINDOW = 1320, 760
MINUTE_MS = 60_000
SILENT_MS = 2 * MINUTE_MS + 1
"""Time from a last heartbeat to the end of the lease, with the heartbeat timeout of 2m."""

NOBODY = "127.0.0.1:9"
"""An address without a Kafka: a sample has no commands to send."""


def a_day(root):
    """36 brokers of which some failed and came back, and the epoch at which one is down."""
    registry = PublishedRegistry(root, now_ms() - 20 * 60 * MINUTE_MS)
    publish_crowd(registry, 36, topics=40, topics_a_broker=5)
    lost = []
    for number in (4, 8, 15, 16):
        registry.now_ms += 180 * MINUTE_MS
        lost.append(registry.expire(address_of(number), silent_ms=SILENT_MS).epoch)
        registry.now_ms += 8 * MINUTE_MS
        come_back(registry, number)
    registry.command(WipeWritePerm(broker_name=name_of(4), requested_by="ann", reason="disk full"))
    registry.now_ms = now_ms()
    registry.publish()
    return lost[2]


def an_outage(root):
    """1,000 brokers of which one flaps, and the epoch before that in which a zone is lost."""
    registry = PublishedRegistry(root, now_ms() - 60 * MINUTE_MS)
    publish_crowd(registry, 1_000, topics=2_000, topics_a_broker=32)
    for _ in range(10):
        registry.now_ms += 2 * MINUTE_MS
        registry.expire(address_of(86), silent_ms=SILENT_MS)
        registry.now_ms += MINUTE_MS
        before = come_back(registry, 86).epoch
    lose_zone(registry, 1_000, "zone-1", SILENT_MS)
    registry.now_ms = now_ms()
    for row in registry.rules.view().live.values():
        registry.command(BrokerHeartbeat(broker_addr=row.broker_addr), publish=False)
    registry.publish()
    return before


def come_back(registry, number):
    topics = registry.rules.view().queues.topics_on({name_of(number)})
    return register(registry, number, topics=topics)


SAMPLES = {a_day: {"console": "#/?epoch={}"}, an_outage: {"after-an-outage": "#/", "before-an-outage": "#/?epoch={}"}}


def shown(driver, folder):
    """Open the page of each picture, and yield its name."""
    for sample, pictures in SAMPLES.items():
        root = str(Path(folder, sample.__name__))
        epoch = sample(root)
        with kafka_tells(), window(driver, make_settings(root, NOBODY)) as page, page.phone(*WINDOW):
            for name, address in pictures.items():
                page.open(address.format(epoch))
                page.until(lambda page=page: page.find("#verdict span") and page.find(".rail path.came[d^=M]"))
                page.until(lambda page=page: page.colour("main", "opacity") == "1")
                yield name


def main():
    with tempfile.TemporaryDirectory() as folder, chromium() as driver:
        for name in shown(driver, folder):
            driver.get_screenshot_as_file(str(ASSETS / f"{name}.png"))


if __name__ == "__main__":
    main()
