"""The steps in golden.yaml, to a real NameServer 5.4.0 and to us: answers are equal field by field once both settled.

Every request code is there. Where semantics differ on purpose there is no step: order of lists, an exception's text, a
first registration with one topic (D3), when the effect of a write is seen.

`ask`: a request code with fields, those of `with` too, a `body` or the queues of brokers, the client's
`version`, over a connection of its own (`over`). `register`: a broker of this name with topics and header fields, over
its own connection NAME/ID; `close`: that connection. `code`, `remark`, `fields` and `said` are of both answers.
`compare`: all lists, the members of all names, and the routes of these topics; `compare settings`: what both have.
"""

import json
from contextlib import ExitStack

import javaproperties
import msgspec
import pytest

from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import Version
from namesrv_stream.wire.json_text import decode_json
from real_rocketmq.servers import name_server
from tests.build import register_request
from tests.data import data
from tests.gateway.peer import Peer
from tests.system.gateway_stack import eventually, running_stack

pytestmark = [pytest.mark.system, pytest.mark.spark]

PARTS = data(__file__, "golden.yaml")
OF_ANSWER = ("code", "remark", "fields", "said")
QUEUE = {"perm": 6, "readQueueNums": 2, "writeQueueNums": 2, "topicSysFlag": 0}
decoder = msgspec.json.Decoder()


class Both:
    """The two servers. Each name of `over` is a connection of its own, to both."""

    def __init__(self, real_port, our_port):
        self._ports = real_port, our_port
        self._peers = {}
        self.open_things = ExitStack()

    def peers(self, over="client"):
        if over not in self._peers:
            self._peers[over] = [self.open_things.enter_context(Peer(port)) for port in self._ports]
        return self._peers[over]

    def step(self, step):
        """Do it. Return the answer as `step` may name it."""
        match step:
            case {"ask": code, **said}:
                return self.asks(code, **said)
            case {"register": name, **said}:
                return self.registers(name, **said)
            case {"compare": topics}:
                self.compares(topics)
            case {"compare settings": expected}:
                self.compares_settings(expected)
            case {"close": over}:
                for peer in self._peers.pop(over):
                    peer.close()
            case _:
                raise AssertionError(f"no such step: {step}")
        return {}

    def same(self, code, body=b"", over="client", version=493, **fields):
        """Asks both until the answers are equal, and gives that answer."""

        @eventually
        def asked():
            real, ours = (told(peer.ask(code, body, version, **fields)) for peer in self.peers(over))
            assert ours == real
            return ours

        return dict(zip(OF_ANSWER, asked(), strict=True))

    def asks(self, code, body="", queues_of=(), **said):
        if queues_of:
            body = json.dumps({"queueDatas": [QUEUE | {"brokerName": name} for name in queues_of]})
        return self.same(code, body.encode(), **said.pop("with", {}) | said)

    def registers(self, name, broker_id=0, topics=("Shared",), version=493, perm=6, flag=0, **more):
        host = f"10.1.{broker_id}.{sum(map(ord, name)) % 200}"
        acting = False if version >= Version.V5_0_0 else None
        said = register_request(
            f"{host}:10911",
            topics={topic: TopicConfig(8, 4, perm, flag) for topic in (*topics, f"{name}-own")},
            version=version,
            started_ms=1_700_000_000_000,
            broker_name=name,
            broker_id=broker_id,
            ha_server_addr=f"{host}:10912",
            **{"cluster_name": "golden-1", "enable_acting_master": acting} | more,
        )
        return self.same(said.code, said.body, f"{name}/{broker_id}", version, **said.ext_fields)

    def compares(self, topics):
        for code in (106, 206, 311, 312, 313):
            self.same(code)
        for cluster in ("golden-1", "golden-2"):
            self.same(224, cluster=cluster)
        for topic in topics:
            self.same(105, topic=topic)
        for name in "abcdef":
            self.same(901, clusterName="golden-1", brokerName=f"golden-{name}")
        real, ours = (json.loads(peer.ask(304).body) for peer in self.peers())
        assert sorted(ours["topicList"]) == sorted(real["topicList"])
        assert ours["brokerAddr"] and real["brokerAddr"], "an address of some broker"

    def compares_settings(self, expected):
        real, ours = (javaproperties.loads(peer.ask(319).body.decode()) for peer in self.peers())
        assert set(real) <= set(ours)
        assert real.items() >= expected.items() <= ours.items()


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
    for step in (step for steps in PARTS.values() for step in steps):
        answer = both.step({name: said for name, said in step.items() if name not in OF_ANSWER})
        assert answer.items() >= {name: said for name, said in step.items() if name in OF_ANSWER}.items(), step
