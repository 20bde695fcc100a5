"""Request 905: the notices to brokers when the smallest id of a group changes (R14)."""

import asyncio
import socket

import pytest

from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.gateway.notices import Notice, notices, send_notice
from namesrv_stream.rules.rows import BrokerRow, LogPosition
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import NotifyMinBrokerIdChangeHeader, header_fields
from tests.gateway.conftest import T0
from tests.tables.rows import live
from tests.waiting import until


def group(holders, acting):
    """A group by id: `0a 5b` is address a under id 0, and b under id 5."""
    said = [(int(each[0]), each[1]) for each in holders.split()]
    rows = {i: BrokerRow("broker-a", i, a, "c", None, acting, LogPosition(T0, 0, i)) for i, a in said}
    return {"broker-a": rows} if rows else {}


LEASES = {address: live(address)._replace(ha_server_addr=f"{address}:2") for address in "abcde"}
STEPS = [
    ("two join an empty group", True, "", "0a 5b", ""),
    ("the smallest takes a larger id, still the smallest", True, "0a 5b", "2a 5b", ""),
    ("a smaller id joins", True, "2a 5b", "1c 2a 5b", "ab 1c +c:2"),
    ("the smallest takes a larger id, not the smallest then", True, "1c 2a 5b", "2a 5b 7c", ""),
    ("a member is promoted over the others", True, "2a 5b 7c", "0b 2a 7c", "ac 0b +b:2"),
    ("another address takes the smallest id over", True, "0b 2a 7c", "0d 2a 7c", ""),
    ("the smallest leaves", True, "0d 2a 7c", "2a 7c", "ac 2a -d"),
    ("one that is not the smallest leaves", True, "2a 7c", "2a", ""),
    ("a smaller id joins the last one", True, "2a", "0e 2a", "a 0e +e:2"),
    ("the only member is promoted", True, "2a", "1a", "a 1a +a:2"),
    ("the last one leaves", True, "1a", "", ""),
    ("without the acting flag a smaller id joins", False, "1a 2b", "0c 1a 2b", "ab 0c +c:2"),
    ("without the acting flag the smallest leaves", False, "0c 1a 2b", "1a 2b", ""),
    ("of 4.x a smaller id joins", None, "1a 2b", "0c 1a 2b", "ab 0c +c:2"),
    ("of 4.x the smallest leaves", None, "0c 1a 2b", "1a 2b", ""),
    # Steps that a snapshot has together, which RocketMQ has not:
    ("two leave, and the former smallest is named", True, "0a 1b 2c", "2c", "c 2c -a"),
    ("one leaves while another takes a larger id", True, "0a 1b 5c", "2a 5c", "ac 2a -b"),
]
"""Step, acting flag, group before and after, and the notices: to whom, the smallest id, and who joined (+) or left (-).

A NameServer 5.4.0 that was taken through the steps sent these.
"""


@pytest.mark.parametrize(("acting", "before", "after", "sent"), [each[1:] for each in STEPS], ids=[s[0] for s in STEPS])
def test_r14_a_group_is_notified_of_a_new_smallest_id(acting, before, after, sent):
    found = notices(group(before, acting), group(after, acting), LEASES)
    to, smallest, other = sent.split() or ("", "", "")
    header = {"minBrokerId": smallest[:1], "minBrokerAddr": smallest[1:]}
    header[{"+": "haBrokerAddr", "-": "offlineBrokerAddr"}.get(other[:1])] = other[1:]
    assert sorted((each.broker_addr, header_fields(each.header)) for each in found) == [(each, header) for each in to]


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
