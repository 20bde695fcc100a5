"""One peer's registrations and bodies cannot starve the others: real connections to a gateway with a real Kafka."""

from contextlib import contextmanager
from multiprocessing import active_children

import psutil
import pytest

from tests.gateway.peer import Peer
from tests.system.gateway_stack import until
from tests.system.test_gateway_writes import Site

pytestmark = pytest.mark.system

MIB = 1024 * 1024
EVIL = "127.0.0.66"
BROKEN = b'{"a":"b"' * MIB
"""JSON whose decoder searches all of it for keys without quotes."""


@pytest.fixture
def site(kafka, topic, tmp_path):
    with Site(kafka, topic, tmp_path) as made:
        yield made


# --- what is kept


# --- what is read


@contextmanager
def stopped_reading(gateway):
    """Let the process that reads large bodies stand still within the `with`; some other host has it started before.

    That host rests for four times as long as the start takes.
    """
    before = set(active_children())
    with Peer(gateway.port, host="127.0.0.67") as peer:
        assert peer.ask(217, BROKEN[:20_000], topic="T").code == 1
    (reading,) = set(active_children()) - before
    process = psutil.Process(reading.pid)
    process.suspend()
    try:
        yield
    finally:
        if reading.is_alive():
            process.resume()


def test_broken_json_in_a_large_body_keeps_no_lookup_waiting(site):
    gateway = site.start_gateway().gateway
    with Peer(gateway.port, host=EVIL) as evil, Peer(gateway.port) as good:
        with stopped_reading(gateway):
            opaque = evil.send(217, BROKEN, topic="T")
            until(lambda: gateway.connections.shares.held_bytes == len(BROKEN))
            for _ in range(100):
                assert good.ask(105, topic="TopicA").code == 17
        answer = evil.receive()
        assert (answer.opaque, answer.code) == (opaque, 1)
        assert "Failed to decode TopicRouteData" in answer.remark
