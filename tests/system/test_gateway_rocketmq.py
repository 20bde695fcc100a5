"""Real RocketMQ brokers, clients and mqadmin with the gateway as their name server."""

import pytest

from real_rocketmq.servers import Release, broker, mqadmin
from tests.java_client import BODIES, java_client
from tests.system.gateway_stack import eventually, registered, routed

pytestmark = pytest.mark.system


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
    with java_client(tmp_path, stack.namesrv_addr) as client:
        assert client.carried("Made", BODIES) == BODIES


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
        with java_client(tmp_path / "client", stack.namesrv_addr, Release.V4) as client:
            assert client.carried("Old", BODIES) == BODIES
    registered(stack, "broker-4", {})


@pytest.mark.full
def test_brokers_know_several_gateways_and_outlive_one(stack, tmp_path):
    with stack.another_gateway() as other, stack.another_gateway() as leaving:
        both = f"{other.namesrv_addr};{leaving.namesrv_addr}"
        with broker(tmp_path / "both", both, "broker-both") as running:
            gateways = stack, other, leaving
            for gateway in gateways:
                registered(gateway, "broker-both", {"0": running.address})

            @eventually
            def same_answers_of_one_epoch():
                before = {gateway.gateway.gateway.epoch for gateway in gateways}
                answers = {gateway.ask(105, topic="broker-both").body for gateway in gateways}
                after = {gateway.gateway.gateway.epoch for gateway in gateways}
                assert len(before | after) == len(answers) == 1

            same_answers_of_one_epoch()
        for gateway in gateways:
            registered(gateway, "broker-both", {})
        told = [each.type for each in stack.events_of("broker-both")]
        leases = [each for each in told if each in ("REGISTERED", "UNREGISTERED")]
        assert leases == ["REGISTERED", "UNREGISTERED"], "nothing doubles in the history"
