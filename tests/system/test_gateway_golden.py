"""Every request code, to a real NameServer 5.4.0 and to us: answers are equal field by field once both have settled.

Where semantics differ on purpose there is no step: order of lists, an exception's text, a first registration with one
topic (D3), when the effect of a write is seen.
"""

import json
from contextlib import ExitStack

import javaproperties
import msgspec
import pytest

from namesrv_stream.config.rocketmq_settings import is_idle
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import Version
from namesrv_stream.wire.json_text import decode_json
from real_rocketmq.servers import name_server
from tests.build import register_request
from tests.gateway.peer import Peer
from tests.system.gateway_stack import eventually, running_stack

pytestmark = [pytest.mark.system, pytest.mark.spark]

decoder = msgspec.json.Decoder()


class Both:
    """The two servers. Each name of `over` is a connection of its own, to both."""

    def __init__(self, real_port, our_port):
        self._ports = real_port, our_port
        self._peers = {}
        self.open_things = ExitStack()

    def peers(self, over):
        if over not in self._peers:
            self._peers[over] = [self.open_things.enter_context(Peer(port)) for port in self._ports]
        return self._peers[over]

    def close(self, over):
        for peer in self._peers.pop(over):
            peer.close()

    def same(self, code, body=b"", over="client", version=493, **fields):
        """Asks both until the answers are equal, and gives that answer."""

        @eventually
        def asked():
            real, ours = (told(peer.ask(code, body, version, **fields)) for peer in self.peers(over))
            assert ours == real
            return ours

        return asked()

    def registers(self, name, broker_id=0, *, topics=("Shared",), counter=1, version=493, compressed=False, **more):
        """A registration over a connection of this address's own."""
        address = f"10.1.{broker_id}.{sum(map(ord, name)) % 200}:10911"
        is_new = version >= Version.V5_0_0
        given = {"cluster_name": "golden-1", "enable_acting_master": False if is_new else None} | more
        filters, perm, flag = given.pop("filters", []), given.pop("perm", 6), given.pop("flag", 0)
        said = register_request(
            address,
            topics={topic: TopicConfig(8, 4, perm, flag) for topic in (*topics, f"{name}-own")},
            counter=counter,
            filter_servers=filters,
            version=version,
            started_ms=1_700_000_000_000,
            broker_name=name,
            broker_id=broker_id,
            ha_server_addr=address.replace("10911", "10912"),
            compressed=compressed,
            **given,
        )
        return self.same(said.code, said.body, over=address, version=version, **said.ext_fields), address


def told(answer):
    return answer.code, answer.remark, answer.ext_fields or {}, sorted_lists(parsed(answer.body))


def parsed(body):
    if not body:
        return None
    try:
        return decode_json(body, decoder, "an answer")
    except Exception:
        return body


def sorted_lists(value):
    if isinstance(value, dict):
        # topicSynFlag is ours alone, for clients from before 4.9.0
        return {key: sorted_lists(each) for key, each in value.items() if each is not None and key != "topicSynFlag"}
    if isinstance(value, list):
        return sorted((sorted_lists(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


@pytest.fixture(scope="module")
def both(kafka, spark, tmp_path_factory):
    real_folder, our_folder = tmp_path_factory.mktemp("real"), tmp_path_factory.mktemp("ours")
    with name_server(real_folder) as real, running_stack(kafka, spark, our_folder) as ours:
        servers = Both(real.port, ours.gateway.gateway.port)
        with servers.open_things:
            yield servers


def test_all_request_codes_are_answered_as_a_real_name_server_does(both):
    before_anything(both)
    brokers_register(both)
    operators_command(both)
    brokers_leave(both)


def before_anything(both):
    assert both.same(105, topic="Nowhere")[0] == 17
    assert both.same(101, namespace="N", key="K")[0] == 22
    assert both.same(219, namespace="N")[0] == 22
    assert both.same(4711)[0] == 3
    assert both.same(905)[0] == 3
    for code in (106, 206, 304, 311, 312, 313):
        both.same(code)
    both.same(224, cluster="none")
    both.same(901, clusterName="none", brokerName="none")
    unknown = {"brokerAddr": "10.9.9.9:1", "brokerName": "x", "clusterName": "y", "brokerId": 0}
    both.same(104, **unknown)
    both.same(322, b'{"counter":1,"stateVersion":0,"timestamp":1}', **unknown)
    both.same(904, **unknown)
    assert both.same(103, b"{}", over="bad", bodyCrc32=5, haServerAddr="", compressed=False, **unknown)[:2] == (
        1,
        "crc32 not match",
    )
    assert both.same(100, namespace="N")[0] == 1


def brokers_register(both):
    both.same(100, namespace="ORDER_TOPIC_CONFIG", key="Shared", value="golden-a:8")
    answer, _ = both.registers("golden-a")
    assert answer[3] == {"table": {"Shared": "golden-a:8"}}
    answer, _ = both.registers("golden-a", 1)
    assert answer[2]["masterAddr"].startswith("10.1.0."), "a slave is told its master"
    both.registers("golden-b", cluster_name="golden-2", zone_name="z1", filters=["10.2.0.1:1"])
    both.registers("golden-c", version=407, compressed=True)
    both.registers("golden-d", compressed=True, topics=("Shared", "Flagged"), perm=4)
    both.registers("golden-e", version=35, topics=("Old", "Shared"))
    both.registers("golden-f", flag=3, topics=("Unit",))
    both.registers("golden-f", counter=2, flag=2, topics=("Unit", "New"))
    compare_all(both, topics=("Shared", "Flagged", "Old", "Unit", "New", "golden-a-own"))
    both.same(105, topic="Shared", __ZONE_MODE=True, __ZONE_NAME="Z1")
    both.same(105, topic="Shared", version=0)
    both.same(105, topic="Shared", acceptStandardJsonOnly=True)


def compare_all(both, topics):
    for code in (106, 206, 311, 312, 313):
        both.same(code)
    for cluster in ("golden-1", "golden-2"):
        both.same(224, cluster=cluster)
    for topic in topics:
        both.same(105, topic=topic)
    for name in "abcdef":
        both.same(901, clusterName="golden-1", brokerName=f"golden-{name}")
    real, ours = (json.loads(peer.ask(304).body) for peer in both.peers("client"))
    assert sorted(ours["topicList"]) == sorted(real["topicList"])
    assert ours["brokerAddr"] and real["brokerAddr"], "an address of some broker"


def operators_command(both):
    both.same(100, namespace="N", key="K", value="1")
    assert both.same(101, namespace="N", key="K")[2] == {"value": "1"}
    both.same(100, namespace="N", key="K", value="2")
    assert both.same(219, namespace="N")[3] == {"table": {"K": "2"}}
    both.same(102, namespace="N", key="K")
    assert both.same(219, namespace="N")[3] == {"table": {}}, "an emptied namespace remains"
    both.same(102, namespace="none", key="none")
    assert both.same(205, brokerName="golden-a")[2] == {"wipeTopicCount": "2"}
    assert both.same(205, brokerName="none")[2] == {"wipeTopicCount": "0"}
    both.same(105, topic="Shared")
    assert both.same(327, brokerName="golden-d")[2] == {"addTopicCount": "3"}
    both.same(105, topic="Shared")
    both.same(216, topic="Unit")
    assert both.same(105, topic="Unit")[0] == 17
    both.same(216, topic="Shared", clusterName="golden-2")
    both.same(105, topic="Shared")
    queue = {"perm": 6, "readQueueNums": 2, "writeQueueNums": 2, "topicSysFlag": 0}
    for topic, names in (("Added", ["golden-a"]), ("Refused", ["golden-a", "none"]), ("Shared", ["golden-a", "none"])):
        body = json.dumps({"queueDatas": [queue | {"brokerName": name} for name in names]}).encode()
        both.same(217, body, topic=topic)
        both.same(105, topic=topic)
    both.same(318, b"enableTopicList=false\n")
    assert both.same(311)[:2] == (1, "disable")
    both.same(318, b"enableTopicList=true\nnoSuchKey=1\n")
    assert both.same(311)[0] == 0
    assert both.same(318, b"kvConfigPath=/nowhere")[:2] == (16, "Can not update config in black list.")
    real, ours = (javaproperties.loads(peer.ask(319).body.decode()) for peer in both.peers("client"))
    assert {key for key in real if not is_idle(key)} <= set(ours)
    assert real["enableTopicList"] == ours["enableTopicList"] == "true"


def brokers_leave(both):
    _, address = both.registers("golden-b", cluster_name="golden-2", zone_name="z1")
    version = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    who = {"brokerAddr": address, "brokerName": "golden-b", "clusterName": "golden-2", "brokerId": 0}
    assert both.same(322, version, over=address, **who)[2] == {"changed": "false"}
    assert both.same(322, b'{"counter":2}', over=address, **who)[2] == {"changed": "true"}
    both.same(904, over=address, **who)
    both.same(104, over=address, **who)
    compare_all(both, topics=("Shared", "golden-b-own"))
    for name, broker_id in (("golden-a", 0), ("golden-c", 0)):
        # Under its old version RocketMQ keeps the queues of REGISTER_TOPIC; here what the broker says counts (D10).
        _, address = both.registers(name, broker_id, counter=2, version=407 if name == "golden-c" else 493)
        both.close(address)
    compare_all(both, topics=("Shared", "golden-a-own", "golden-c-own"))
