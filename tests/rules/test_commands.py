"""The reply to each command, and an order configuration that crashes clients, which is found before it is stored."""

import pytest

from namesrv_stream.rules.commands import CommandReply, order_problem, ordered_brokers
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    DeleteKvConfig,
    DeleteTopic,
    LiftExpiryGuard,
    PutKvConfig,
    RegisterTopic,
    RetireBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.rows import LogPosition
from tests.build import Log


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (PutKvConfig(namespace="n", key="k", value="v"), CommandReply()),
        (DeleteKvConfig(namespace="n", key="k"), CommandReply()),
        (WipeWritePerm(broker_name="broker-a"), CommandReply(count=2)),
        (AddWritePerm(broker_name="broker-a"), CommandReply(count=2)),
        (DeleteTopic(topic="T"), CommandReply()),
        (RegisterTopic(topic="V", queue_datas=[]), CommandReply()),
        (UpdateNamesrvConfig(properties={"configStorePath": "/tmp"}), CommandReply(16)),
        (UpdateNamesrvConfig(properties={"returnOrderTopicConfigToBroker": "false"}), CommandReply()),
        (LiftExpiryGuard(reason="seen"), CommandReply(count=0)),
        (RetireBroker(cluster_name="c1", broker_name="gone", broker_id=0, reason="sold"), CommandReply()),
    ],
)  # fmt: skip
def test_each_command_has_its_reply(command, reply):
    log = Log()
    log.register(topics=("T", "U"))
    assert log.registry.apply(command, LogPosition(9_000, 0, 9)) == reply


@pytest.mark.parametrize("value", ["broker-a:8", "broker-a:8;broker-b:4", "broker-a:0"])
def test_names_with_a_number_of_queues_can_be_read(value):
    assert order_problem(value) == ""


@pytest.mark.parametrize(
    "value",
    ["", "broker-a", "broker-a:", ":8", "broker-a:-1", "broker-a\uff1a8", "broker-a:8;", "broker-a:8;;broker-b:8",
     "broker-a:8:9", "broker-a:8,broker-b:8", "broker-a: 8", "broker-a:8 ", "broker-a:\u0668", "broker-a:9999999999"],
)  # fmt: skip
def test_everything_else_is_named(value):
    assert "not a broker name with a number of queues" in order_problem(value)


def test_brokers_are_ordered_by_a_value_of_the_order_namespace_alone():
    value = {"key": "T", "value": "broker-a:8;broker-b:4"}
    assert ordered_brokers(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", **value)) == ["broker-a", "broker-b"]
    assert ordered_brokers(PutKvConfig(namespace="other", **value)) == []
