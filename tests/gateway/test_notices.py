"""905: who is told what when the smallest id of a group changes (R14)."""

import socket

import pytest
from tenacity import retry, stop_after_delay, wait_fixed

from namesrv_stream.gateway.background import BackgroundGateway
from namesrv_stream.gateway.notices import notices
from namesrv_stream.rules.rows import BrokerRow, LogPosition
from namesrv_stream.wire.frame import FrameDecoder
from tests.gateway.conftest import T0
from tests.tables.rows import live

eventually = retry(stop=stop_after_delay(30), wait=wait_fixed(0.05), reraise=True)


def group(*ids):
    rows = {i: BrokerRow("broker-a", i, f"10.0.0.{i}:1", "c", None, True, LogPosition(T0, 0, i)) for i in ids}
    return {"broker-a": rows} if ids else {}


@pytest.mark.parametrize(
    ("before", "after", "told", "offline"),
    [
        ((), (0, 1), [], None),
        ((0, 1), (0, 1, 2), [], None),
        ((0, 1), (), [], None),
        ((1, 2), (0, 1, 2), ["10.0.0.1:1", "10.0.0.2:1"], None),
        ((2,), (1,), [], None),
        ((0, 1, 2), (1, 2), ["10.0.0.1:1", "10.0.0.2:1"], "10.0.0.0:1"),
        ((0, 1, 2), (0, 2), [], None),
    ],
)
def test_brokers_are_told_of_a_new_smallest_id(before, after, told, offline):
    found = list(notices(group(*before), group(*after), {}))
    assert [notice.broker_addr for notice in found] == told
    assert {notice.header.offline_broker_addr for notice in found} <= {offline}
    assert {notice.header.min_broker_id for notice in found} <= {min(after, default=0)}


def test_the_ha_address_of_a_joiner_is_told():
    lease = live("10.0.0.0:1")._replace(ha_server_addr="10.0.0.0:2")
    (notice,) = notices(group(1), group(0, 1), {"10.0.0.0:1": lease})
    assert notice.header.ha_broker_addr == "10.0.0.0:2"


@pytest.mark.parametrize("is_on", [True, False])
def test_a_broker_is_told_over_a_connection_to_its_own_port(registry, settings, is_on):
    with socket.create_server(("127.0.0.1", 0)) as broker:
        address = "{}:{}".format(*broker.getsockname())
        registry.register(address, "c", "told", 1)
        with BackgroundGateway(settings(notifyMinBrokerIdChanged=is_on)) as running:
            epoch = registry.register("10.0.0.8:1", "c", "told", 0).epoch

            @eventually
            def served():
                assert running.gateway.epoch == epoch

            served()
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
