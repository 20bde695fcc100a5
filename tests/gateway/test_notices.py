"""Request 905: the notices to brokers when the smallest id of a group changes (R14)."""

import asyncio
import socket

import pytest

from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.gateway.notices import Notice, notices, send_notice
from namesrv_stream.rules.rows import BrokerRow, LogPosition
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import NotifyMinBrokerIdChangeHeader
from tests.gateway.conftest import T0
from tests.tables.rows import live
from tests.waiting import until


def group(acting=True, **addresses):
    """A group by id: `_0="a"` is address a under id 0."""
    ids = {int(name[1:]): address for name, address in addresses.items()}
    rows = {i: BrokerRow("broker-a", i, a, "c", None, acting, LogPosition(T0, 0, i)) for i, a in ids.items()}
    return {"broker-a": rows} if ids else {}


@pytest.mark.parametrize(
    ("before", "after", "notified", "offline"),
    [
        (group(), group(_0="a", _1="b"), [], None),
        (group(_0="a", _1="b"), group(_0="a", _1="b", _2="c"), [], None),
        (group(_0="a", _1="b"), group(), [], None),
        (group(_1="b", _2="c"), group(_0="a", _1="b", _2="c"), ["b", "c"], None),
        (group(_1="b", _2="c"), group(_0="b", _2="c"), ["c"], None),
        (group(_0="a", _1="b", _2="c"), group(_1="b", _2="c"), ["b", "c"], "a"),
        (group(_0="a", _1="b", _2="c"), group(_0="a", _2="c"), [], None),
    ],
)
def test_a_group_is_notified_of_a_new_smallest_id(before, after, notified, offline):
    found = list(notices(before, after, {}))
    assert [notice.broker_addr for notice in found] == notified
    assert {notice.header.offline_broker_addr for notice in found} <= {offline}
    assert {notice.header.min_broker_id for notice in found} <= {min(after.get("broker-a", [0]))}


@pytest.mark.parametrize("staying", ["_1", "_5"])
def test_a_broker_that_took_a_larger_id_is_not_offline(staying):
    former = {"_0": "a", staying: "b"}
    assert list(notices(group(**former), group(_2="a", **{staying: "b"}), {})) == []


def test_one_that_left_is_offline_although_another_took_a_larger_id():
    found = list(notices(group(_0="a", _1="b", _5="c"), group(_2="a", _5="c"), {}))
    assert {notice.header.offline_broker_addr for notice in found} == {"b"}


@pytest.mark.parametrize("before", [group(acting=False, _0="a", _1="b"), group(acting=None, _0="a", _1="b")])
def test_a_group_without_acting_master_is_notified_of_joiners_alone(before):
    after = {"broker-a": {1: before["broker-a"][1]}}
    assert list(notices(before, after, {})) == []
    assert [notice.broker_addr for notice in notices(after, before, {})] == ["b"]


def test_brokers_that_left_together_are_one_notice_that_names_the_former_smallest_id():
    (notice,) = notices(group(_0="a", _1="b", _2="c"), group(_2="c"), {})
    assert (notice.header.min_broker_id, notice.header.offline_broker_addr) == (2, "a")


def test_the_ha_address_of_a_joiner_is_in_the_notice():
    lease = live("a")._replace(ha_server_addr="a:2")
    (notice,) = notices(group(_1="b"), group(_0="a", _1="b"), {"a": lease})
    assert notice.header.ha_broker_addr == "a:2"


async def test_a_broker_at_an_address_in_brackets_is_notified():
    """Brackets are no part of a host of IPv6."""

    came = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *streams: came.set_result(streams), "::1", 0)
    async with server:
        address = f"[::1]:{server.sockets[0].getsockname()[1]}"
        header = NotifyMinBrokerIdChangeHeader(min_broker_id=0, min_broker_addr="[::1]:1")
        await send_notice(Notice(address, header), asyncio.Semaphore(1))
        reader, writer = await came
        (command,) = FrameDecoder().feed(await reader.read(65536))
        writer.close()
        await writer.wait_closed()
        assert (command.code, command.ext_fields["minBrokerAddr"]) == (905, "[::1]:1")


@pytest.mark.parametrize("is_on", [True, False])
def test_a_broker_is_notified_over_a_connection_to_its_own_port(registry, settings, is_on):
    with socket.create_server(("127.0.0.1", 0)) as broker:
        address = "{}:{}".format(*broker.getsockname())
        registry.register(address, "c", "told", 1)
        with BackgroundGateway(settings(notifyMinBrokerIdChanged=is_on)) as running:
            epoch = registry.register("10.0.0.8:1", "c", "told", 0).epoch
            until(lambda: running.gateway.epoch == epoch)
            if is_on:
                broker.settimeout(30)
                connection, _ = broker.accept()
                with connection:
                    (command,) = FrameDecoder().feed(connection.recv(65536))
                assert (command.code, command.is_oneway) == (905, True)
                assert command.ext_fields["minBrokerAddr"] == "10.0.0.8:1"
                return
        broker.settimeout(0)
        with pytest.raises(BlockingIOError):
            broker.accept()
