"""A light heartbeat is enough for what the newest snapshot shows, also at a gateway that has just started."""

import pytest
from msgspec.structs import replace

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.gateway.known_brokers import token_of
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    ChannelClosed,
    RegisterBroker,
    UnregisterBroker,
)
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.write_requests import register_broker
from tests.gateway.site import LEAVE, PARTS, Site
from tests.gateway.test_known_brokers import ADDRESS, command

FULL, LIGHT = RegisterBroker, BrokerHeartbeat
NOW_MS = 1_700_000_000_000


class StartedSite(Site):
    """A gateway that starts on tables with what was registered over another one."""

    def __init__(self, *registered):
        super().__init__()
        self.rules = RouteRegistry(NamesrvSettings())
        for offset, each in enumerate(registered):
            request = replace(register_broker(each, "former/1"), token=token_of(each))
            self.rules.apply(request, LogPosition(NOW_MS, 0, offset))
        self.writes.follow(self.published())

    def published(self, read_to=0):
        return Answers(self.rules.view(), self.settings, epoch=7, offsets={0: read_to})

    def read_all(self):
        """The job reads the log, and the gateway follows the snapshot."""
        for offset, request in enumerate(self.log.sent):
            self.rules.apply(request, LogPosition(NOW_MS + 1_000, 0, offset))
        self.writes.follow(self.published(len(self.log.sent)))


async def test_a_connection_that_begins_with_what_the_snapshot_shows_gets_to_the_lease_with_a_light_heartbeat():
    site = StartedSite(command())
    broker = site.connect()
    assert await site.acknowledged(command(), broker) == 0
    assert site.log.sent == [BrokerHeartbeat(broker_addr=ADDRESS, channel_id="g/1")]
    site.read_all()
    assert set(site.rules.lease(ADDRESS).channels) == {"former/1", "g/1"}
    await site.acknowledged(command(), broker)
    assert site.log.kinds == [LIGHT, LIGHT]


async def test_each_part_that_the_snapshot_shows_is_a_light_heartbeat():
    site = StartedSite(*PARTS)
    broker = site.connect()
    for part in (*PARTS, *PARTS):
        await site.acknowledged(part, broker)
    assert site.log.kinds == [LIGHT] * 4
    await site.acknowledged(command(topics=("E", "F")), broker)
    assert site.log.kinds[4:] == [FULL]


async def test_a_lease_that_ended_unseen_comes_back_with_the_next_registration():
    """The broker unregistered at another gateway, and registers here before a snapshot shows that."""

    site = StartedSite(command())
    broker = site.connect()
    site.log.sent.append(UnregisterBroker(broker_addr=ADDRESS))
    await site.acknowledged(command(), broker)
    assert site.log.kinds == [UnregisterBroker, LIGHT]
    site.read_all()
    assert site.rules.lease(ADDRESS) is None
    await site.acknowledged(command(), broker)
    assert site.log.kinds[2:] == [FULL]


@pytest.mark.parametrize("end", ["connection lost", "unregistered"])
async def test_what_ended_at_this_gateway_is_sent_in_full_whatever_the_snapshot_shows(end):
    site = StartedSite(command())
    broker, again = site.connect(), site.connect()
    await site.acknowledged(command(), broker)
    if end == "unregistered":
        await site.acknowledged(LEAVE, broker)
    else:
        await site.lose(broker)
    await site.acknowledged(command(), again)
    assert site.log.kinds == [LIGHT, UnregisterBroker if end == "unregistered" else ChannelClosed, FULL]


async def test_an_id_that_another_broker_held_for_a_while_comes_back_with_the_next_registration():
    """apache/rocketmq#1464: the same bytes mean something else since another address has taken the id."""

    rival = command(broker_addr="10.0.0.9:1")
    site = StartedSite(command())
    broker, other = site.connect(), site.connect()
    await site.acknowledged(command(), broker)
    await site.acknowledged(rival, other)
    await site.acknowledged(replace(LEAVE, ext_fields=LEAVE.ext_fields | {"brokerAddr": "10.0.0.9:1"}), other)
    site.read_all()
    assert site.rules.view().brokers == {}
    await site.acknowledged(command(), broker)
    site.read_all()
    assert site.rules.view().brokers["a"][0].broker_addr == ADDRESS
    assert site.log.kinds == [LIGHT, FULL, UnregisterBroker, FULL]
