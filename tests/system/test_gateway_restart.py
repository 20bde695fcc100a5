"""A gateway that starts again, with real connections and a real Kafka: what its brokers cost the log."""

import time
from contextlib import ExitStack

import pytest

from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.rules.record_types import BrokerHeartbeat, RegisterBroker
from namesrv_stream.rules.rows import LogPosition
from tests.gateway.peer import Peer
from tests.system.gateway_stack import eventually
from tests.system.test_gateway_writes import Site, register
from tests.system.test_kafka_topic import records

pytestmark = pytest.mark.system

TOPICS = tuple(f"topic-{number:04}" for number in range(1_000))
BROKERS = {f"10.0.0.{number}:10911": f"broker-{number}" for number in range(3)}
LEASE_MS = 4_000


class PublishingSite(Site):
    """A site whose job is the test itself: `publish` reads the log, and publishes what the rules make of it."""

    def publish(self):
        rules = self.registry.rules
        for offset, request in enumerate(request for *_, request in records(self.kafka, self.topic)):
            rules.apply(request, LogPosition(self.registry.now_ms, 0, offset))
            self.registry.next_offset = offset + 1
        self.registry.publish()


@pytest.fixture
def site(kafka, topic, tmp_path):
    with PublishingSite(kafka, topic, tmp_path, time.time_ns() // 1_000_000, is_thinned=True) as made:
        yield made


@pytest.fixture
def open_peers():
    """Connections that outlive their gateway, as those of brokers do."""
    with ExitStack() as peers:
        yield peers


def connect_all(gateway, open_peers):
    """Connect each broker over a connection of its own, which begins with its registration."""
    return [connect(gateway, open_peers, address, name) for address, name in BROKERS.items()]


def connect(gateway, open_peers, address, name):
    peer = open_peers.enter_context(Peer(gateway.port))
    fields = {"broker_addr": address, "broker_name": name, "heartbeat_timeout_millis": LEASE_MS}

    @eventually
    def registered():
        assert register(peer, topics=TOPICS, **fields).code == 0

    registered()
    return peer


def test_brokers_of_a_gateway_that_starts_again_cost_a_light_heartbeat_each(site, open_peers):
    with BackgroundGateway(site.settings) as running:
        connect_all(running.gateway, open_peers)
        site.publish()
    before = len(site.records())
    assert len(site.records(RegisterBroker)) == len(BROKERS)
    with BackgroundGateway(site.settings) as again:
        peers = connect_all(again.gateway, open_peers)
        own = site.records()[before:]
        assert [(type(each), each.broker_addr) for each in own] == [(BrokerHeartbeat, address) for address in BROKERS]
        assert {each.channel_id.split("/")[0] for each in own} == {again.gateway.gateway_id}
        site.publish()
        leases = [site.registry.rules.lease(address) for address in BROKERS]
        assert all(len(lease.channels) == 2 for lease in leases), "the new connection keeps the lease too"
        register(peers[0], topics=(*TOPICS, "new"), counter=2, broker_addr="10.0.0.0:10911", broker_name="broker-0")
        assert [each.data_version.counter for each in site.records(RegisterBroker)[len(BROKERS) :]] == [2]


def test_a_broker_that_never_pauses_is_in_the_log_once_in_a_quarter_of_its_lease(site, open_peers):
    with BackgroundGateway(site.settings) as running:
        peer, *_ = connect_all(running.gateway, open_peers)
        before = len(site.records(BrokerHeartbeat))
        began_s = time.monotonic()
        while (taken_s := time.monotonic() - began_s) < 2.5:
            assert peer.ask(904, brokerAddr="10.0.0.0:10911", brokerName="broker-0", clusterName="c").code == 0
        light = [each for each in site.records(BrokerHeartbeat)[before:] if each.broker_addr == "10.0.0.0:10911"]
        assert 1 <= len(light) <= 1 + taken_s, "one a second, the quarter of its lease"
