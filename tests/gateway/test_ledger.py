"""Light heartbeat or full registration: every condition, and the connections of a broker (L6)."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from namesrv_stream.gateway import ledger as ledger_module
from namesrv_stream.gateway.ledger import MAX_PARTS, FullRegistration, Registrations, fingerprint
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


def command(counter=1, topics=("A", "B"), filter_servers=(), **changed):
    header = RegisterBrokerHeader(
        **{"broker_name": "a", "broker_addr": ADDRESS, "cluster_name": "c", "broker_id": 0} | changed
    )
    table = {topic: TopicConfig(8, 8, 6) for topic in topics}
    wrapper = TopicConfigSerializeWrapper(DataVersion(0, 7, counter), table)
    body = encode_registration(RegisterBrokerBody(wrapper, list(filter_servers)), 493)
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
    """A gateway's use of its ledger when brokers register."""

    ledger: Registrations = field(default_factory=lambda: Registrations(RECONCILE_MS))
    now_ms: int = 0

    def why(self, said, channel="g/1", shown=NOTHING):
        return self.ledger.why_in_full(ADDRESS, channel, fingerprint(said), shown, self.now_ms)

    def send(self, said, channel="g/1", place=IN_LOG, **how):
        """Hands it to Kafka, which acknowledges it unless `place` is None."""
        part = FullRegistration.of(said, register_broker(said, channel))
        self.ledger.sent_in_full(fingerprint(said), part, channel, self.now_ms, **how)
        part.place = place
        self.ledger.note_sign_of_life(ADDRESS, channel, self.now_ms)
        return part

    def kept(self):
        """Return the parts that are sent again, in their order."""
        return [each.registration() for each in self.ledger.get(ADDRESS).parts.values()]


@pytest.fixture
def gateway():
    gateway = Gateway()
    gateway.send(command())
    return gateway


def test_first_registration_goes_in_full():
    assert Gateway().why(command()).startswith("first of its broker")


def test_the_same_again_is_a_light_heartbeat_before_and_after_its_publication(gateway):
    assert gateway.why(command()) is None
    assert gateway.why(command(), shown=published(offset=5)) is None, "the snapshot has not read it yet"
    assert gateway.why(command(), shown=published(live())) is None


OTHER_HEADS = [
    command(broker_id=1),
    command(broker_name="b"),
    command(cluster_name="d"),
    command(ha_server_addr="10.0.0.1:1"),
    command(heartbeat_timeout_millis=10_000),
    command(enable_acting_master=True),
    command(enable_acting_master=False),
    command(zone_name="z"),
    command(filter_servers=["10.0.0.9:1"]),
]


@pytest.mark.parametrize(
    "other",
    [
        *OTHER_HEADS,
        command(counter=2),
        command(topics=("A", "C")),
        RemotingCommand(code=103, version=407, ext_fields=command().ext_fields, body=command().body),
    ],
)
def test_any_difference_in_header_or_body_is_sent_in_full(gateway, other):
    assert gateway.why(other) == "says something new"


def test_each_connection_begins_in_full(gateway):
    assert gateway.why(command(), channel="g/2") == "first on its connection"
    gateway.send(command(), channel="g/2")
    assert gateway.why(command(), channel="g/1") is None, "its first connection is known as before"


@pytest.mark.parametrize("shown", [published(), published(live(2)), published(live(1, 1)), published(live(name="b"))])
def test_a_snapshot_that_has_read_it_and_shows_something_else_asks_for_all(gateway, shown):
    assert gateway.why(command(), shown=shown) == "not in the snapshot"


@pytest.mark.parametrize("other", OTHER_HEADS)
def test_a_changed_registration_and_then_the_former_one_are_both_sent_in_full(gateway, other):
    """All under one data version."""
    gateway.send(other)
    assert gateway.why(command()) == "says something new", "it is in the log, but not last"
    assert gateway.why(other) is None
    gateway.send(command())
    assert gateway.why(command()) is None
    assert gateway.why(other) == "says something new"
    assert gateway.kept() == [command()], "the last one alone is sent again"


def test_a_former_version_that_comes_back_is_sent_in_full(gateway):
    gateway.send(command(counter=2))
    assert gateway.why(command()) == "says something new"
    gateway.send(command())
    assert gateway.why(command(counter=2)) == "says something new"


def test_a_record_on_its_way_is_in_the_log_only_when_kafka_acknowledges_it():
    gateway = Gateway()
    part = gateway.send(command(), place=None)
    assert gateway.why(command()) == gateway.why(command(), shown=published()) == "not acknowledged by Kafka"
    part.place = IN_LOG
    assert gateway.why(command()) is None


def test_after_a_failed_send_every_part_is_sent_in_full_also_one_that_arrives_meanwhile(gateway):
    second, third = command(topics=("C", "D")), command(topics=("E", "F"))
    gateway.send(second)
    on_its_way = gateway.send(third, place=None)
    gateway.ledger.forget(ADDRESS)
    on_its_way.place = IN_LOG
    for part in (command(), second, third):
        assert gateway.why(part) is not None
    gateway.send(second)
    assert [gateway.why(part) is None for part in (command(), second, third)] == [False, True, False]


def test_after_an_unregistration_all_is_sent_in_full(gateway):
    gateway.ledger.forget(ADDRESS)
    assert gateway.why(command()).startswith("first of its broker")


@pytest.mark.parametrize(("passed_ms", "why"), [(RECONCILE_MS - 1, None), (RECONCILE_MS, "reconcileIntervalMillis")])
def test_all_is_sent_in_full_after_the_reconcile_interval(gateway, passed_ms, why):
    gateway.now_ms = passed_ms
    assert gateway.why(command()) == why


def test_with_interval_zero_all_is_sent_in_full():
    gateway = Gateway(Registrations(0))
    gateway.send(command())
    assert gateway.why(command()) == "reconcileIntervalMillis"


PARTS = [command(topics=topics) for topics in (("A", "B"), ("C", "D"), ("E", "F"))]
"""enableSplitRegistration: the same version in parts, again and again (B7)."""


@pytest.fixture
def split():
    """All parts are in the log, at places 5, 6 and 7."""
    gateway = Gateway()
    for number, part in enumerate(PARTS):
        gateway.send(part, place=LogPosition(0, 0, 5 + number))
    return gateway


def test_parts_of_one_version_are_each_known_and_sent_again_in_their_order(split):
    assert [split.why(part) for part in PARTS] == [None] * 3
    assert split.kept() == PARTS
    split.send(PARTS[0])
    assert split.kept() == [PARTS[1], PARTS[2], PARTS[0]], "the order of the log"


def test_each_part_is_reconciled(split):
    split.now_ms = RECONCILE_MS
    for part in PARTS:
        assert split.why(part) == "reconcileIntervalMillis"
        split.send(part)
        assert split.why(part) is None


def test_each_part_that_a_snapshot_lacks_is_sent_in_full(split):
    shown = published(offset=8)
    for number, part in enumerate(PARTS):
        assert split.why(part, shown=shown) == "not in the snapshot"
        split.send(part, place=LogPosition(0, 0, 8 + number))
        assert split.why(part, shown=shown) is None


def test_each_part_is_sent_in_full_over_a_new_connection(split):
    assert split.why(PARTS[0], channel="g/2") == "first on its connection"
    for part in PARTS:
        assert split.why(part, channel="g/2") is not None
        split.send(part, channel="g/2")
        assert split.why(part, channel="g/2") is None


def test_a_part_with_another_header_begins_anew(split):
    other = command(topics=("G", "H"), zone_name="z")
    split.send(other)
    assert split.kept() == [other]
    assert [split.why(part) for part in PARTS] == ["says something new"] * 3


def test_a_registration_is_all_where_topics_go_with_it(gateway):
    """T5: each part takes the topics of the others away."""
    gateway.send(PARTS[1], is_all=True)
    assert gateway.why(PARTS[0]) == "says something new"
    assert gateway.kept() == [PARTS[1]]


def test_parts_without_end_are_not_kept(gateway):
    for number in range(1, MAX_PARTS):
        gateway.send(command(topics=(f"T{number}", "U")))
    assert len(gateway.kept()) == MAX_PARTS
    gateway.send(command(topics=("A", "C")))
    assert gateway.kept() == [command(topics=("A", "C"))]


def test_one_topic_alone_comes_on_top_and_the_next_whole_replaces_all(gateway):
    addition, whole = command(counter=2, topics=("C",)), command(counter=2, topics=("A", "B", "C"))
    gateway.send(addition)
    assert gateway.kept() == [command(), addition]
    assert [gateway.why(command()), gateway.why(addition)] == ["says something new", None]
    gateway.send(whole)
    assert gateway.kept() == [whole]
    assert gateway.why(whole) is None


def test_one_topic_alone_with_another_header_begins_anew(gateway):
    other = command(counter=2, topics=("C",), zone_name="z")
    gateway.send(other)
    assert gateway.kept() == [other]


def test_a_kept_part_is_the_request_as_it_came(gateway):
    assert gateway.kept() == [command()]


def test_a_closed_connection_names_all_addresses_that_used_it(gateway):
    gateway.ledger.note_sign_of_life("10.0.0.2:1", "g/1", 0)
    gateway.ledger.note_sign_of_life("10.0.0.3:1", "g/2", 0)
    assert gateway.ledger.closed("g/1") == [ADDRESS, "10.0.0.2:1"]
    assert gateway.ledger.closed("g/1") == []
    assert gateway.why(command(), channel="g/3").startswith("first of its broker")


def test_a_broker_with_another_connection_sends_every_part_in_full_when_one_is_lost(split):
    for part in PARTS:
        split.send(part, channel="g/2")
    on_its_way = split.send(PARTS[2], channel="g/2", place=None)
    split.ledger.closed("g/1")
    on_its_way.place = IN_LOG
    for part in PARTS:
        assert split.why(part, channel="g/2") is not None
        split.send(part, channel="g/2")
    assert [split.why(part, channel="g/2") for part in PARTS] == [None] * 3


def test_a_connection_and_a_host_speak_for_so_many_brokers_and_no_more(monkeypatch):
    monkeypatch.setattr(ledger_module, "MAX_BROKERS_OF_A_CONNECTION", 2)
    monkeypatch.setattr(ledger_module, "MAX_BROKERS_OF_A_HOST", 3)
    ledger = Registrations(RECONCILE_MS)
    for address, channel in (("10.0.0.1:1", "g/1"), ("10.0.0.2:1", "g/1"), ("10.0.0.3:1", "g/2")):
        assert ledger.has_room(address, channel, "host")
        ledger.note_sign_of_life(address, channel, 0, "host")
    assert ledger.has_room("10.0.0.1:1", "g/1", "host"), "it has spoken for this one before"
    assert not ledger.has_room("10.0.0.4:1", "g/1", "host"), "the connection has its two"
    assert not ledger.has_room("10.0.0.4:1", "g/3", "host"), "the host has its three"
    assert ledger.has_room("10.0.0.4:1", "g/3", "other")
    ledger.closed("g/1")
    assert ledger.has_room("10.0.0.4:1", "g/3", "host")


def registered(ledger, address, host, topics, now_ms=0):
    said = command(broker_addr=address, topics=[f"{address}-{number}" for number in range(topics)])
    part = FullRegistration.of(said, register_broker(said, "g/1"), host)
    ledger.sent_in_full(fingerprint(said), part, "g/1", now_ms)


def test_what_is_kept_has_a_limit_and_the_host_that_takes_most_pays():
    ledger = Registrations(RECONCILE_MS, max_bytes=40_000)
    registered(ledger, "10.0.0.1:1", "good", 200)
    for number in range(100):
        registered(ledger, f"10.9.0.{number}:1", "evil", 5, number)
        assert ledger.held_bytes <= 40_000
    assert ledger.get("10.0.0.1:1") is not None, "the good broker's next registration is a light one"
    assert ledger.get("10.9.0.0:1") is None
    for address in ["10.0.0.1:1", *(f"10.9.0.{number}:1" for number in range(100))]:
        ledger.forget(address)
    assert ledger.held_bytes == 0


def test_all_is_sent_in_full_while_the_snapshot_is_stale(gateway):
    """A lease may end unseen then, and a light heartbeat does not bring the broker back."""
    gateway.ledger.is_stale = True
    assert gateway.why(command(), shown=published(live())).startswith("the newest snapshot is stale")
    gateway.ledger.is_stale = False
    assert gateway.why(command(), shown=published(live())) is None


def lacking(gateway, shown):
    return gateway.ledger.lacking(shown, gateway.now_ms)


def test_a_connected_broker_that_the_tables_lack_is_found(gateway):
    assert lacking(gateway, published()) == [ADDRESS]
    assert lacking(gateway, published(live())) == []
    assert lacking(gateway, published(offset=5)) == [], "the snapshot has not read it yet"


def test_who_sent_a_registration_is_no_news_and_goes_along_when_it_is_sent_again(gateway):
    for port in (1, 2):
        gateway.send(replace(command(), sender=f"broker-a@10.0.0.1:{port}"))
    assert gateway.why(command()) is None
    assert [register_broker(each).requested_by for each in gateway.kept()] == ["broker-a@10.0.0.1:2"]


def test_a_broker_is_lost_only_when_the_tables_must_show_all_its_parts(split):
    assert [lacking(split, published(offset=offset)) for offset in (7, 8)] == [[], [ADDRESS]]
    split.send(PARTS[0], place=None)
    assert lacking(split, published(offset=8)) == []


def test_a_silent_broker_is_not_kept_alive(gateway):
    gateway.now_ms = 120_000
    assert lacking(gateway, published()) == []
    gateway.ledger.note_sign_of_life(ADDRESS, "g/1", 119_999)
    assert lacking(gateway, published()) == [ADDRESS]


def test_what_is_sent_again_is_no_sign_of_life(gateway):
    gateway.now_ms = 119_999
    (said, part), *_ = gateway.ledger.get(ADDRESS).parts.items()
    gateway.ledger.sent_in_full(said, part, "g/1", gateway.now_ms)
    assert lacking(gateway, published()) == [], "it is on its way"
    part.place = IN_LOG
    assert lacking(gateway, published()) == [ADDRESS]
    gateway.now_ms = 120_000
    assert lacking(gateway, published()) == []


def test_a_broker_that_has_left_is_not_lost(gateway):
    gateway.ledger.forget(ADDRESS)
    assert lacking(gateway, published()) == []
