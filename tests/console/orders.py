"""Commands that operators send to the console."""

from functools import partial

import pytest

from namesrv_stream.kafka.topic import ensure_topic
from tests.system.heartbeats import PATIENT

WIPE = {"type": "WIPE_WRITE_PERM_OF_BROKER", "brokerName": "broker-a", "reason": "disk full"}


@pytest.fixture
def on_topic(kafka, topic, settings):
    """Settings of a console that sends commands to a topic of the test's own."""
    ensure_topic(PATIENT | {"bootstrap.servers": kafka.bootstrap_servers}, topic)
    return partial(settings, kafka__bootstrap__servers=kafka.bootstrap_servers, kafka__topic=topic)
