"""A gateway's answers to registrations: the same that the scenario cases expect of the rules."""

import asyncio

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE, RouteTables
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import BrokerRow, LiveRow, LogPosition
from namesrv_stream.wire.bodies import KVTable, encode_body
from tests.gateway.site import Site, settle
from tests.gateway.test_known_brokers import ADDRESS, command

MASTER, HOLDER = "10.0.0.2:10911", "10.0.0.3:10911"
NEITHER = (None, None)
OF_MASTER = (MASTER, "10.0.0.2:10912")


def holder_row(broker_id, address):
    return BrokerRow("a", broker_id, address, "c", None, None, LogPosition(0, 0, 0))


def lease(address, broker_id, state_version=0, ha_server_addr=""):
    return LiveRow(address, "c", "a", broker_id, 0, 120_000, DataVersion(state_version, 7, 1), ha_server_addr, 0)


def group(master=MASTER, slave=None, slave_state_version=0):
    """A broker group with a master, if there is one, and with the holder of id 1, if there is one."""
    addresses = {broker_id: address for broker_id, address in ((0, master), (1, slave)) if address}
    leases = [lease(MASTER, 0, ha_server_addr="10.0.0.2:10912"), lease(HOLDER, 1, slave_state_version)]
    return RouteTables(
        brokers={"a": {broker_id: holder_row(broker_id, address) for broker_id, address in addresses.items()}},
        live={each.broker_addr: each for each in leases if each.broker_addr in addresses.values()},
    )


def answered(tables, *, broker_id=1, times=1, **settings):
    """The answer to the last of some registrations of one broker, the first in full and the others unchanged."""

    async def asked():
        site = Site()
        site.writes.follow(Answers(tables, NamesrvSettings(**settings), offsets={0: 0}))
        connection = site.connect()
        for _ in range(times):
            answer = site.ask(command(broker_id=broker_id), connection)
            await settle()
            site.log.acknowledge()
        return await answer

    return asyncio.run(asked())


def addresses(answer):
    fields = answer.ext_fields or {}
    return fields.get("masterAddr"), fields.get("haServerAddr")


@pytest.mark.parametrize(("state_version", "shown"), [(-1, OF_MASTER), (0, OF_MASTER), (1, NEITHER)])
@pytest.mark.parametrize("times", [1, 2])
def test_a_slave_whose_id_has_a_holder_with_a_higher_state_version_is_shown_no_master(state_version, shown, times):
    """R6, for a registration in full and for an unchanged one. The answer is a success all the same."""
    answer = answered(group(slave=HOLDER, slave_state_version=state_version), times=times)
    assert (answer.code, addresses(answer)) == (0, shown)


def test_a_slave_that_holds_its_id_itself_is_shown_its_master_whatever_version_its_lease_has():
    tables = group(slave=ADDRESS)
    tables.live[ADDRESS] = lease(ADDRESS, 1, state_version=9)
    assert addresses(answered(tables)) == OF_MASTER


@pytest.mark.parametrize(
    ("broker_id", "master", "shown"), [(0, MASTER, NEITHER), (1, None, NEITHER), (1, MASTER, OF_MASTER)]
)
def test_only_a_slave_with_a_known_master_is_shown_one(broker_id, master, shown):
    """R12."""
    assert addresses(answered(group(master), broker_id=broker_id)) == shown


@pytest.mark.parametrize(
    ("kv", "wanted", "body"), [({}, True, {}), ({"T": "b:8"}, True, {"T": "b:8"}), ({}, False, None)]
)
@pytest.mark.parametrize("state_version", [0, 1])
def test_accepted_and_refused_registrations_bring_the_order_configuration_alike(kv, wanted, body, state_version):
    """R13, with R6."""
    tables = group(slave=HOLDER, slave_state_version=state_version)
    tables.kv[ORDER_TOPIC_NAMESPACE] = kv
    answer = answered(tables, **{"returnOrderTopicConfigToBroker": wanted})
    assert answer.body == (b"" if body is None else encode_body(KVTable(body)))


def test_without_an_order_configuration_the_answer_has_no_body():
    """R13: the namespace was never made."""
    assert answered(group()).body == b""
