"""A light heartbeat is enough for what the newest snapshot shows, also at a gateway that has just started."""

import asyncio

import pytest
from msgspec.structs import replace

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway import full_or_light
from namesrv_stream.gateway import ledger as ledger_module
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.ledger import Registrations
from namesrv_stream.gateway.resending import SEND_AGAIN_AFTER_S
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.requests import (
    BrokerHeartbeat,
    ChannelClosed,
    DataVersion,
    RegisterBroker,
    TopicConfig,
    UnregisterBroker,
)
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.frame import LARGE_BODY_BYTES
from namesrv_stream.wire.registration import (
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
    encode_registration,
    inflate,
)
from namesrv_stream.wire.requests import register_broker
from tests.gateway.test_ledger import ADDRESS, command, published
from tests.gateway.test_writes import LEAVE, PARTS, QUARTER_S, Site, settle

FULL, LIGHT = RegisterBroker, BrokerHeartbeat
NOW_MS = 1_700_000_000_000


class StartedSite(Site):
    """A gateway that starts on tables with what was registered over another one."""

    def __init__(self, *registered):
        super().__init__()
        self.rules = RouteRegistry(NamesrvSettings())
        for offset, each in enumerate(registered):
            self.rules.apply(register_broker(each, "former/1"), LogPosition(NOW_MS, 0, offset))
        self.writes.follow(self.published())

    def published(self, read_to=0):
        return Answers(self.rules.view(), self.settings, epoch=7, offsets={0: read_to})

    def read_all(self):
        """The job reads the log, and the gateway follows the snapshot."""
        for offset, request in enumerate(self.log.sent):
            self.rules.apply(request, LogPosition(NOW_MS + 1_000, 0, offset))
        self.writes.follow(self.published(len(self.log.sent)))


def run(scenario, *registered):
    async def in_loop():
        await scenario(StartedSite(*registered))

    asyncio.run(in_loop())


def test_a_connection_that_begins_with_what_the_snapshot_shows_gets_to_the_lease_with_a_light_heartbeat():
    async def scenario(site):
        broker = site.connect()
        assert await site.acknowledged(command(), broker) == 0
        assert site.log.sent == [BrokerHeartbeat(broker_addr=ADDRESS, channel_id="g/1")]
        site.read_all()
        assert set(site.rules.lease(ADDRESS).channels) == {"former/1", "g/1"}
        await site.acknowledged(command(), broker)
        assert site.log.kinds == [LIGHT, LIGHT]

    run(scenario, command())


@pytest.mark.parametrize(("said", "kind"), [(command(), LIGHT), (command(counter=2), FULL)])
def test_a_small_registration_is_compared_with_the_snapshot_in_the_turn_in_which_it_comes(said, kind):
    async def scenario(site):
        assert site.writes.registering.send_at_once(said, site.connect()) is not None
        assert site.log.kinds == [kind]

    run(scenario, command())


LARGE = [f"topic-{number}" for number in range(LARGE_BODY_BYTES // 64)]


@pytest.mark.parametrize(("counter", "is_sent"), [(1, False), (2, True)])
def test_a_large_registration_is_compared_in_its_turn_if_its_version_is_that_of_the_snapshot(counter, is_sent):
    async def scenario(site):
        said = command(counter=counter, topics=LARGE)
        place = site.writes.registering.send_at_once(said, site.connect())
        assert (place is not None, site.log.kinds) == (is_sent, [FULL] * is_sent)

    run(scenario, command(topics=LARGE))


@pytest.mark.parametrize(
    "other", [command(counter=2), command(topics=("A", "C")), command(zone_name="z"), command(broker_id=1)]
)
def test_whatever_differs_from_the_snapshot_is_sent_in_full(other):
    async def scenario(site):
        await site.acknowledged(other, site.connect())
        await site.acknowledged(other, site.connect())
        assert site.log.kinds == [FULL, FULL]

    run(scenario, command())


def compressed(said):
    wrapper = TopicConfigSerializeWrapper(DataVersion(0, 7, 1), {topic: TopicConfig(8, 8, 6) for topic in "AB"})
    return replace(said, body=encode_registration(RegisterBrokerBody(wrapper), 493, compressed=True))


@pytest.mark.parametrize(("over_bytes", "kind"), [(0, LIGHT), (1, FULL)])
@pytest.mark.parametrize("said", [command(), compressed(command())], ids=["plain", "compressed"])
def test_a_body_that_would_take_this_process_long_is_not_compared(monkeypatch, said, over_bytes, kind):
    size_bytes = len(inflate(said.body) if said.body.startswith(b"x") else said.body)
    monkeypatch.setattr(full_or_light, "MAX_COMPARED_BYTES", size_bytes - over_bytes)

    async def scenario(site):
        await site.acknowledged(said, site.connect())
        assert site.log.kinds == [kind]

    run(scenario, command())


@pytest.mark.parametrize(
    ("rest", "kind"),
    [(b'"' + b"a" * 90_000 + b'"', LIGHT), (b"[" + b"[]," * 30_000 + b"[]]", FULL)],
    ids=["text", "lists"],
)
def test_a_body_with_more_values_than_topics_have_is_not_compared(rest, kind):
    """A field that is no part of a registration is skipped, value by value."""
    said = command()
    said = replace(said, body=said.body[:-1] + b',"unknown":' + rest + b"}")

    async def scenario(site):
        await site.acknowledged(said, site.connect())
        assert site.log.kinds == [kind]

    run(scenario, command())


def test_each_part_that_the_snapshot_shows_is_a_light_heartbeat():
    async def scenario(site):
        broker = site.connect()
        for part in (*PARTS, *PARTS):
            await site.acknowledged(part, broker)
        assert site.log.kinds == [LIGHT] * 4
        await site.acknowledged(command(topics=("E", "F")), broker)
        assert site.log.kinds[4:] == [FULL]

    run(scenario, *PARTS)


def test_a_light_heartbeat_stands_for_a_registration_only_once_kafka_has_it():
    async def scenario(site):
        broker = site.connect()
        asked = site.ask(command(), broker)
        await settle()
        site.log.fail()
        assert (await asked).code != 0
        await site.acknowledged(command(), broker)
        assert site.log.kinds == [LIGHT, FULL], "what the log has of the broker is not certain any more"

    run(scenario, command())


def test_a_lease_that_ended_before_the_snapshot_showed_it_comes_back():
    """The broker unregistered at another gateway, and registers here before a snapshot shows that."""

    async def scenario(site):
        site.log.sent.append(UnregisterBroker(broker_addr=ADDRESS))
        await site.acknowledged(command(), site.connect())
        assert site.log.kinds == [UnregisterBroker, LIGHT]
        site.read_all()
        assert site.rules.lease(ADDRESS) is None
        await site.clock.passes(SEND_AGAIN_AFTER_S)
        assert site.log.kinds == [UnregisterBroker, LIGHT, FULL]

    run(scenario, command())


@pytest.mark.parametrize("end", ["connection lost", "unregistered"])
def test_what_ended_at_this_gateway_is_sent_in_full_whatever_the_snapshot_shows(end):
    async def scenario(site):
        broker, again = site.connect(), site.connect()
        await site.acknowledged(command(), broker)
        if end == "unregistered":
            await site.acknowledged(LEAVE, broker)
        else:
            await site.lose(broker)
        await site.acknowledged(command(), again)
        assert site.log.kinds == [LIGHT, UnregisterBroker if end == "unregistered" else ChannelClosed, FULL]

    run(scenario, command())


def test_a_second_connection_is_compared_once_the_snapshot_has_read_what_came_over_the_first():
    async def scenario(site):
        first, second, third = (site.connect() for _ in range(3))
        await site.acknowledged(command(counter=2), first)
        await site.acknowledged(command(), second)
        assert site.log.kinds == [FULL, FULL], "the log has another version than the snapshot"
        site.read_all()
        await site.acknowledged(command(), third)
        assert site.log.kinds[2:] == [LIGHT]

    run(scenario, command())


def test_nothing_is_compared_with_a_stale_snapshot_or_without_a_reconcile_interval():
    shown = published()
    assert Registrations(300_000).may_be_published(ADDRESS, shown)
    assert not Registrations(0).may_be_published(ADDRESS, shown)
    stale = Registrations(300_000)
    stale.is_stale = True
    assert not stale.may_be_published(ADDRESS, shown)


def test_no_more_than_so_many_forgotten_addresses_are_remembered(monkeypatch):
    monkeypatch.setattr(ledger_module, "MAX_FORGOTTEN", 2)
    ledger = Registrations(300_000)
    for address in ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:1", "10.0.0.3:1"):
        ledger.forget(address)
    compared = [number for number in (1, 2, 3) if ledger.may_be_published(f"10.0.0.{number}:1", published())]
    assert compared == [2], "the one that was forgotten first"


def test_after_a_start_a_broker_is_in_the_log_every_quarter_of_its_lease():
    async def scenario(site):
        broker = site.connect()
        for _ in range(4):
            await site.acknowledged(command(), broker)
        assert site.log.kinds == [LIGHT] * 4
        assert site.clock.now_s == 4 * QUARTER_S

    run(scenario, command())
