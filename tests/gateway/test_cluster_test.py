"""clusterTest: what is not here is asked of production, which is another gateway in these tests (M9)."""

import http.server
import json
import threading
from types import SimpleNamespace

import pytest

from namesrv_stream.gateway import answers
from namesrv_stream.gateway.answers import address_server
from namesrv_stream.gateway.launch import BackgroundGateway
from tests.gateway.conftest import T0
from tests.gateway.peer import Peer
from tests.registry import PublishedRegistry
from tests.waiting import LIMIT_S


def test_address_server_is_that_of_rocketmqs_clients():
    assert address_server("center", {}) == "http://jmenv.tbsite.net:8080/rocketmq/nsaddr-center?nofix=1"
    named = {"ROCKETMQ_NAMESRV_DOMAIN": "names.example"}
    assert address_server("e", named) == "http://names.example:8080/rocketmq/nsaddr-e?nofix=1"


@pytest.fixture
def production(settings, tmp_path):
    elsewhere = PublishedRegistry(str(tmp_path / "production"), T0)
    elsewhere.register("10.7.0.1:10911", "prod", "broker-p", topics=("OnlyThere", "TopicA"))
    with BackgroundGateway(settings(delta__root=elsewhere.root)) as running:
        yield running


@pytest.fixture
def named(production, monkeypatch):
    """An address server that names production as the environment `center`, once it may `go_on`; `asked` counts."""
    found = SimpleNamespace(asked=0, go_on=threading.Event())

    class Names(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found.asked += 1
            found.go_on.wait(30)
            self.send_response(200 if self.path == "/rocketmq/nsaddr-center?nofix=1" else 404)
            self.end_headers()
            self.wfile.write(f"127.0.0.1:1;{production.address}\n".encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Names) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN", f"127.0.0.1:{server.server_port}")
        yield found
        found.go_on.set()
        server.shutdown()


def broker_names(answer):
    assert answer.code == 0, answer
    return {each["brokerName"] for each in json.loads(answer.body)["brokerDatas"]}


def test_without_an_address_server_there_is_no_route(registry, settings, nobody, monkeypatch):
    monkeypatch.setenv("ROCKETMQ_NAMESRV_DOMAIN", nobody)
    with BackgroundGateway(settings(clusterTest=True)) as running, Peer(running.gateway.port) as peer:
        assert peer.ask(105, topic="OnlyThere").code == 17


def test_routes_that_are_not_here_come_from_production_whose_address_lookups_wait_for_together(
    registry, settings, named, monkeypatch
):
    with BackgroundGateway(settings(clusterTest=True)) as running, Peer(running.gateway.port) as peer:
        assert peer.ask(105, topic="OnlyThere").code == 17, "it takes longer than a client waits"
        monkeypatch.setattr(answers, "_PRODUCTION_S", LIMIT_S)
        for _ in range(2):
            peer.send(105, topic="OnlyThere")
        assert broker_names(peer.ask(105, topic="TopicA")) == {"broker-a", "broker-b"}, "both are waiting"
        named.go_on.set()
        assert [broker_names(peer.receive()) for _ in range(2)] == [{"broker-p"}] * 2
        assert json.loads(peer.ask(105, topic="TopicA").body)["orderTopicConf"] == "broker-a:8"
        answer = peer.ask(105, topic="Nowhere")
        assert answer.code == 17
        assert answer.remark.startswith("No topic route info in name server for the topic: Nowhere\n")
        assert named.asked == 1, "a late answer counts"
