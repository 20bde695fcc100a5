"""Real RocketMQ brokers, clients and mqadmin with the gateway as their name server."""

import pytest

from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.tables.snapshot_reader import RouteReader
from real_rocketmq.servers import Release, broker, mqadmin
from tests.java_client import java_client
from tests.system.gateway_stack import eventually

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def master(stack, tmp_path_factory):
    with broker(tmp_path_factory.mktemp("master"), stack.namesrv_addr, "broker-a") as running:
        registered(stack, "broker-a", {"0": running.address})
        yield running
        running.kill()  # an orderly stop takes it ten seconds


@eventually
def registered(stack, name, addresses):
    assert stack.addresses(name) == addresses


@eventually
def routed(stack, topic):
    assert stack.ask(105, topic=topic).code == 0


@pytest.fixture
def admin(stack, tmp_path):
    @eventually
    def run(*arguments, release=Release.V5):
        said = mqadmin(tmp_path / release.value, stack.namesrv_addr, *arguments, release=release)
        assert "RemotingTimeoutException" not in said, said  # a limit of seconds of mqadmin's own
        return said

    return run


def test_java_client_sends_and_receives_through_our_route(stack, master, admin, tmp_path):
    said = admin("updateTopic", "-c", "RealCluster", "-t", "Made")
    assert "success" in said, said
    routed(stack, "Made")
    bodies = [f"message {number}" for number in range(100)]
    with java_client(tmp_path, stack.namesrv_addr) as client:
        client.send("Made", bodies)
        assert sorted(client.receive("Made", len(bodies))) == sorted(bodies)


@pytest.mark.full
def test_slave_joins_its_master_and_each_leaves_its_own_way(stack, master, tmp_path):
    slave = broker(tmp_path / "slave", stack.namesrv_addr, "broker-a", 1).start()
    try:
        registered(stack, "broker-a", {"0": master.address, "1": slave.address})
        slave.kill()
        registered(stack, "broker-a", {"0": master.address})
        slave.start()
        registered(stack, "broker-a", {"0": master.address, "1": slave.address})
        slave.stop()
        registered(stack, "broker-a", {"0": master.address})
    finally:
        slave.kill()


@pytest.mark.full
def test_broker_and_client_of_the_line_before(stack, admin, tmp_path):
    old = broker(tmp_path / "old", stack.namesrv_addr, "broker-4", release=Release.V4, compressedRegister="true")
    with old:
        registered(stack, "broker-4", {"0": old.address})
        assert old.address in admin("clusterList", release=Release.V4)
        assert "success" in admin("updateTopic", "-b", old.address, "-t", "Old", release=Release.V4)
        routed(stack, "Old")
        bodies = [f"message {number}" for number in range(100)]
        with java_client(tmp_path / "client", stack.namesrv_addr, Release.V4) as client:
            client.send("Old", bodies)
            assert sorted(client.receive("Old", len(bodies))) == sorted(bodies)
    registered(stack, "broker-4", {})


@pytest.mark.full
def test_brokers_know_several_gateways_and_outlive_one(stack, tmp_path):
    with stack.another_gateway() as other, stack.another_gateway() as leaving:
        both = f"{other.namesrv_addr};{leaving.namesrv_addr}"
        with broker(tmp_path / "both", both, "broker-both") as running:
            for gateway in (stack, other, leaving):
                registered(gateway, "broker-both", {"0": running.address})

            @eventually
            def same_answers_of_one_epoch():
                before = [gateway.gateway.gateway.epoch for gateway in (stack, other, leaving)]
                answers = [gateway.ask(105, topic="broker-both").body for gateway in (stack, other, leaving)]
                after = [gateway.gateway.gateway.epoch for gateway in (stack, other, leaving)]
                assert len({*before, *after}) == 1
                assert len(set(answers)) == 1

            same_answers_of_one_epoch()
        for gateway in (stack, other, leaving):
            registered(gateway, "broker-both", {})
        assert lease_ends(stack, "broker-both") == ["REGISTERED", "UNREGISTERED"], "nothing doubles in the history"


def lease_ends(stack, name):
    """Return the lines of history about the leases of one broker name, in order."""
    return [each.type for each in events_of(stack, name) if each.type in ("REGISTERED", "UNREGISTERED")]


def events_of(stack, name):
    """The lines of the history about one broker name, in order."""
    reader, events = RouteReader(stack.settings.delta_root), TABLES["broker_event"]
    told = rows_from_arrow(events, reader.table(events, reader.open().snapshot))
    return [each for each in sorted(told, key=lambda each: (each.epoch, each.seq)) if each.broker_name == name]
