"""Real RocketMQ brokers, clients and mqadmin with the gateway as their name server."""

import pytest

from namesrv_stream.answers.definitions import lost_topics
from namesrv_stream.answers.impact import impact
from namesrv_stream.answers.questions import ALL, AskImpact
from namesrv_stream.answers.verdict import topic_verdicts
from namesrv_stream.tables.registry import Registry
from real_rocketmq.servers import Release, broker, mqadmin
from tests.java_client import BODIES, java_client
from tests.system.gateway_stack import eventually, registered, routed, until

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


@pytest.mark.full
def test_what_impact_tells_of_a_broker_is_so_after_a_sigkill(stack, master, admin, tmp_path):
    """Two masters have a topic, one of them has one alone."""
    with broker(tmp_path / "other", stack.namesrv_addr, "broker-k", autoCreateTopicEnable="false") as other:
        registered(stack, "broker-k", {"0": other.address})
        for address, topic in ((master.address, "Both"), (other.address, "Both"), (other.address, "Alone")):
            assert "success" in admin("updateTopic", "-b", address, "-t", topic)
        opened = Registry(stack.settings.delta_root)
        until(lambda: {row.broker_name for row in opened.newest().queues.get("Both", ())} == {"broker-a", "broker-k"})
        until(lambda: "Alone" in opened.newest().queues)
        told = impact(opened.newest(), AskImpact(brokers=["broker-k"]).model_copy(update={"limit": ALL}))
        after = {each.topic: (each.loses, each.state_after) for each in told.topics}
        assert after == {"Alone": ("route", "without_route"), "Both": ("group", "degraded")}
        assert told.text == "Alone loses its route; 1 more degraded."
        other.kill()
        registered(stack, "broker-k", {})
        registry = opened.newest()
        states = topic_verdicts(registry, lost_topics(registry)).of
        assert {topic: states[topic].state for topic in after} == {topic: state for topic, (_, state) in after.items()}
