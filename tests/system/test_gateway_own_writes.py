"""A gateway reads its own writes (E12), with a real Kafka and the job: what was acknowledged is there at once."""

import json

import pytest

from namesrv_stream.gateway import own_writes, sending
from tests.system.gateway_stack import running_stack
from tests.system.test_gateway_writes import OF_A_BROKER, register
from tests.waiting import LIMIT_S

pytestmark = [pytest.mark.system, pytest.mark.spark]


@pytest.fixture(scope="module")
def stack(kafka, spark, tmp_path_factory):
    with running_stack(kafka, spark, tmp_path_factory.mktemp("own-writes")) as running:
        yield running


def test_e12_what_was_acknowledged_is_seen_at_once(stack, monkeypatch):
    for module, limit in ((own_writes, "WAIT_LIMIT_S"), (own_writes, "UNREAD_LIMIT_S"), (sending, "ANSWER_LIMIT_S")):
        monkeypatch.setattr(module, limit, LIMIT_S)  # a busy machine may publish after them
    with stack.peer() as peer:
        while register(peer, 99, ("Warm",)).code or peer.ask(105, topic="Warm").code:
            pass  # the gateway is connected to Kafka, and the job's first micro-batches are over
        for number in range(5):
            assert peer.ask(105, topic=f"T{number}").code == 17, "and this answer is kept"
            topics = tuple(f"T{each}" for each in range(number + 1))
            assert register(peer, number, topics).code == 0
            assert peer.ask(105, topic=f"T{number}").code == 0
            assert peer.ask(100, namespace="n", key="k", value=str(number)).code == 0
            assert peer.ask(101, namespace="n", key="k").ext_fields == {"value": str(number)}
        assert peer.ask(205, brokerName=OF_A_BROKER["brokerName"]).code == 0
        assert {row["perm"] for row in json.loads(peer.ask(105, topic="T0").body)["queueDatas"]} == {4}
        assert peer.ask(216, topic="T1").code == 0
        assert "T1" not in json.loads(peer.ask(206).body)["topicList"]
