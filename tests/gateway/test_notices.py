"""Request 905: the notices to brokers when the smallest id of a group changes (R14)."""

import socket

import pytest

from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.gateway.notices import notices
from namesrv_stream.rules.rows import BrokerRow, LogPosition
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import header_fields
from tests.data import data
from tests.gateway.conftest import T0
from tests.tables.rows import live
from tests.waiting import until


def group(holders, acting):
    """A group by id, of which each holder is said as `0a`."""
    said = [(int(each[0]), each[1]) for each in holders.split()]
    rows = {i: BrokerRow("broker-a", i, a, "c", None, acting, LogPosition(T0, 0, i)) for i, a in said}
    return {"broker-a": rows} if rows else {}


LEASES = {address: live(address)._replace(ha_server_addr=f"{address}:2") for address in "abcde"}
STEPS = data(__file__, "cases/notices.yaml")


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_r14_a_group_is_notified_of_a_new_smallest_id(step):
    acting = step.get("acting", True)
    found = notices(group(step["before"], acting), group(step["after"], acting), LEASES)
    to, smallest, other = step["sent"].split() or ("", "", "")
    header = {"minBrokerId": smallest[:1], "minBrokerAddr": smallest[1:]}
    header[{"+": "haBrokerAddr", "-": "offlineBrokerAddr"}.get(other[:1])] = other[1:]
    assert sorted((each.broker_addr, header_fields(each.header)) for each in found) == [(each, header) for each in to]


@pytest.mark.parametrize(
    ("host", "family", "is_on"),
    [("127.0.0.1", socket.AF_INET, True), ("[::1]", socket.AF_INET6, True), ("[::1]", socket.AF_INET6, False)],
)
def test_a_broker_is_notified_over_a_connection_to_its_own_port(registry, settings, host, family, is_on):
    with socket.create_server((host.strip("[]"), 0), family=family) as broker:
        address = f"{host}:{broker.getsockname()[1]}"
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
