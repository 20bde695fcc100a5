"""Light heartbeat or full registration: every condition, and the connections of a broker (L6)."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from namesrv_stream.gateway.registrations import SEND_AGAIN_AFTER_MS, Part, Registrations, fingerprint
from namesrv_stream.rules.requests import DataVersion, TopicConfig
from namesrv_stream.rules.rows import LiveRow, LogPosition
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.headers import RegisterBrokerHeader, header_fields
from namesrv_stream.wire.registration import RegisterBrokerBody, TopicConfigSerializeWrapper, encode_registration
from namesrv_stream.wire.requests import register_broker

ADDRESS = "10.0.0.1:10911"
RECONCILE_MS = 300_000
IN_LOG = LogPosition(0, 0, 5)
NOTHING = SimpleNamespace(live={}, offsets={})


def command(counter=1, topics=("A", "B"), **changed):
    header = RegisterBrokerHeader(
        **{"broker_name": "a", "broker_addr": ADDRESS, "cluster_name": "c", "broker_id": 0} | changed
    )
    table = {topic: TopicConfig(8, 8, 6) for topic in topics}
    wrapper = TopicConfigSerializeWrapper(DataVersion(0, 7, counter), table)
    body = encode_registration(RegisterBrokerBody(wrapper), 493)
    return RemotingCommand(
        code=RequestCode.REGISTER_BROKER,
        ext_fields=header_fields(header) | {"brokerId": str(header.broker_id)},
        body=body,
    )


def live(counter=1, broker_id=0, name="a"):
    return LiveRow(ADDRESS, "c", name, broker_id, 0, 120_000, DataVersion(0, 7, counter), "", 0)


def published(*rows, offset=100):
    return SimpleNamespace(live={row.broker_addr: row for row in rows}, offsets={0: offset})


@dataclass
class Gateway:
    """What a gateway does with its ledger when brokers speak."""

    ledger: Registrations = field(default_factory=lambda: Registrations(RECONCILE_MS))
    now_ms: int = 0

    def why(self, said, channel="g/1", shown=NOTHING):
        return self.ledger.why_in_full(ADDRESS, channel, fingerprint(said), shown, self.now_ms)

    def send(self, said, channel="g/1", place=IN_LOG):
        read = register_broker(said, channel)
        known = self.ledger.sent_in_full(fingerprint(said), Part.of(said, read), read, channel, self.now_ms)
        known.place = place
        self.ledger.heard(ADDRESS, channel, self.now_ms)
        return known


@pytest.fixture
def gateway():
    gateway = Gateway()
    gateway.send(command())
    return gateway


def test_first_registration_goes_in_full():
    assert Gateway().why(command()) == "first of its broker"


def test_the_same_again_is_a_light_heartbeat_before_and_after_its_publication(gateway):
    assert gateway.why(command()) is None
    assert gateway.why(command(), shown=published(offset=5)) is None, "the snapshot has not read it yet"
    assert gateway.why(command(), shown=published(live())) is None


@pytest.mark.parametrize(
    "other",
    [
        command(counter=2),
        command(topics=("A", "C")),
        command(broker_id=1),
        command(broker_name="b"),
        command(cluster_name="d"),
        command(ha_server_addr="10.0.0.1:1"),
        command(heartbeat_timeout_millis=10_000),
        command(enable_acting_master=True),
        command(enable_acting_master=False),
        command(zone_name="z"),
        RemotingCommand(code=103, version=407, ext_fields=command().ext_fields, body=command().body),
    ],
)
def test_whatever_differs_in_header_or_body_is_said_in_full(gateway, other):
    assert gateway.why(other) == "says something new"


def test_each_connection_begins_in_full(gateway):
    assert gateway.why(command(), channel="g/2") == "first on its connection"
    gateway.send(command(), channel="g/2")
    assert gateway.why(command(), channel="g/1") is None, "its first connection is known as before"


@pytest.mark.parametrize("shown", [published(), published(live(2)), published(live(1, 1)), published(live(name="b"))])
def test_a_snapshot_that_has_read_it_and_shows_something_else_asks_for_all(gateway, shown):
    assert gateway.why(command(), shown=shown) == "not in the snapshot"


def test_what_kafka_has_not_acknowledged_is_not_missed_in_the_snapshot():
    gateway = Gateway()
    gateway.send(command(), place=None)
    assert gateway.why(command(), shown=published()) is None


def test_after_a_failed_send_all_is_said_again(gateway):
    gateway.ledger.get(ADDRESS).is_doubtful = True
    assert gateway.why(command()) == "a send failed or a connection closed"
    gateway.send(command())
    assert gateway.why(command()) is None


def test_after_an_unregistration_all_is_said_again(gateway):
    gateway.ledger.unregistered(ADDRESS)
    assert gateway.why(command()) == "first of its broker"


@pytest.mark.parametrize(("passed_ms", "why"), [(RECONCILE_MS - 1, None), (RECONCILE_MS, "reconcileIntervalMillis")])
def test_all_is_said_again_after_the_reconcile_interval(gateway, passed_ms, why):
    gateway.now_ms = passed_ms
    assert gateway.why(command()) == why


def test_interval_zero_says_all_always():
    gateway = Gateway(Registrations(0))
    gateway.send(command())
    assert gateway.why(command()) == "reconcileIntervalMillis"


def test_parts_of_one_version_are_each_known(gateway):
    """enableSplitRegistration: the same version in parts, again and again (B7)."""
    gateway.send(command(topics=("C", "D")))
    assert gateway.why(command()) is None
    assert gateway.why(command(topics=("C", "D"))) is None
    assert len(gateway.ledger.get(ADDRESS).parts) == 2


def test_one_topic_alone_comes_on_top_and_the_next_whole_replaces_all(gateway):
    gateway.send(command(counter=2, topics=("C",)))
    assert len(gateway.ledger.get(ADDRESS).parts) == 2
    gateway.send(command(counter=3, topics=("A", "C")))
    assert list(gateway.ledger.get(ADDRESS).parts) == [fingerprint(command(counter=3, topics=("A", "C")))]


def test_a_kept_part_is_the_request_as_it_came(gateway):
    (part,) = gateway.ledger.get(ADDRESS).parts.values()
    assert register_broker(part.registration()) == register_broker(command())


def test_closed_connection_names_all_who_were_heard_over_it(gateway):
    gateway.ledger.heard("10.0.0.2:1", "g/1", 0)
    gateway.ledger.heard("10.0.0.3:1", "g/2", 0)
    assert gateway.ledger.closed("g/1") == [ADDRESS, "10.0.0.2:1"]
    assert gateway.ledger.closed("g/1") == []
    assert gateway.why(command(), channel="g/3") == "first of its broker"


def test_a_broker_with_another_connection_is_remembered_and_says_all_again(gateway):
    gateway.send(command(), channel="g/2")
    gateway.ledger.closed("g/1")
    assert gateway.why(command(), channel="g/2") == "a send failed or a connection closed"


def test_a_connection_speaks_for_so_many_brokers_and_no_more(gateway):
    gateway.ledger.heard("10.0.0.2:1", "g/1", 0)
    room = [gateway.ledger.has_room(address, "g/1", 2) for address in (ADDRESS, "10.0.0.2:1", "10.0.0.3:1")]
    assert room == [True, True, False]
    assert gateway.ledger.has_room("10.0.0.3:1", "g/2", 2)


def due(gateway, shown):
    return [address for address, _ in gateway.ledger.to_send_again(shown, gateway.now_ms)]


def test_a_connected_broker_that_the_tables_have_lost_is_sent_again(gateway):
    gateway.now_ms = SEND_AGAIN_AFTER_MS
    assert due(gateway, published()) == [ADDRESS]
    assert due(gateway, published(live())) == []
    assert due(gateway, published(offset=5)) == [], "the snapshot has not read it yet"


def test_it_is_not_sent_again_at_every_snapshot(gateway):
    gateway.now_ms = SEND_AGAIN_AFTER_MS - 1
    assert due(gateway, published()) == []


def test_a_silent_broker_is_not_kept_alive(gateway):
    gateway.now_ms = 120_000
    assert due(gateway, published()) == []
    gateway.ledger.heard(ADDRESS, "g/1", 119_999)
    assert due(gateway, published()) == [ADDRESS]


def test_what_is_sent_again_is_no_sign_of_life(gateway):
    gateway.now_ms = 119_000
    assert due(gateway, published()) == [ADDRESS]
    (said, part), *_ = gateway.ledger.get(ADDRESS).parts.items()
    read = register_broker(part.registration())
    gateway.ledger.sent_in_full(said, part, read, "g/1", gateway.now_ms).place = IN_LOG
    gateway.now_ms += SEND_AGAIN_AFTER_MS
    assert due(gateway, published()) == []


def test_a_broker_that_has_left_is_not_sent_again(gateway):
    gateway.now_ms = SEND_AGAIN_AFTER_MS
    gateway.ledger.unregistered(ADDRESS)
    assert due(gateway, published()) == []
