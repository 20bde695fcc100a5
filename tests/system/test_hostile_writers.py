"""One peer's registrations and bodies cannot starve the others: real connections to a gateway with a real Kafka."""

from collections import Counter
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children

import psutil
import pytest

from namesrv_stream.rules.record_types import RegisterBroker
from namesrv_stream.wire.codes import RequestCode
from tests.gateway.peer import Peer
from tests.system.gateway_stack import eventually
from tests.system.test_gateway_writes import ADDRESS, Site, register, registration

pytestmark = pytest.mark.system

MIB = 1024 * 1024
EVIL = "127.0.0.66"
PARTS = [(f"first-{part}", f"second-{part}") for part in range(3)]
BROKEN = b'{"a":"b"' * MIB
"""JSON whose decoder searches all of it for keys without quotes."""


@pytest.fixture
def site(kafka, topic, tmp_path):
    with Site(kafka, topic, tmp_path) as made:
        yield made


# --- what is kept


def register_in_parts(peer):
    """Register ADDRESS in parts under one version, as a broker with enableSplitRegistration does."""
    assert [register(peer, topics=part).code for part in PARTS] == [0] * len(PARTS)


def hoard(peer, addresses):
    """Register each address in parts, all requests at once."""
    for address in addresses:
        for part in PARTS:
            body, fields = registration(topics=part, broker_name=address, broker_addr=address)
            peer.send(RequestCode.REGISTER_BROKER, body, **fields)
    assert {peer.receive().code for _ in range(len(addresses) * len(PARTS))} == {0}


def test_parts_for_very_many_addresses_are_bounded(site):
    """600 parts of one host over ten connections; another host's broker goes on beside them."""
    running = site.start_gateway()
    addresses = [[f"10.1.{peer}.{number}:10911" for number in range(20)] for peer in range(10)]
    with Peer(running.gateway.port) as good, ExitStack() as open_peers:
        register_in_parts(good)
        for of_hoarder in addresses:
            hoarder = open_peers.enter_context(Peer(running.gateway.port, host=EVIL))
            hoard(hoarder, of_hoarder)
            hoard(hoarder, of_hoarder)
            register_in_parts(good)
        full = Counter(each.broker_addr for each in site.records(RegisterBroker))
    assert full[addresses[0][0]] >= len(PARTS)
    assert full[ADDRESS] >= len(PARTS)


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

            @eventually
            def is_counted_as_it_was_received():
                assert gateway.connections.shares.held_bytes == len(BROKEN)

            is_counted_as_it_was_received()
            for _ in range(100):
                assert good.ask(105, topic="TopicA").code == 17
        answer = evil.receive()
        assert (answer.opaque, answer.code) == (opaque, 1)
        assert "Failed to decode TopicRouteData" in answer.remark
