"""One peer cannot starve the others: each with real connections, hostile ones from addresses of their own."""

import contextlib
import json
import subprocess
import sys
import threading

import javaproperties
import psutil
import pytest

from benchmarks.hostile_bytes import LONG_SETTINGS, MIB, framed
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.rules import lookup
from namesrv_stream.wire import bodies
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
from tests.gateway.conftest import T0
from tests.gateway.hostile import EVIL, LOOKUP, greedy_peer
from tests.gateway.peer import Peer
from tests.registry import PublishedRegistry
from tests.waiting import until


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A registry whose list of all topics is large: 1 MB."""
    registry = PublishedRegistry(str(tmp_path_factory.mktemp("wide") / "registry"), T0)
    topics = tuple(f"topic-{number:05}-{'x' * 90}" for number in range(10_000))
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("TopicA", *topics))
    return registry


def test_who_pipelines_and_does_not_read_is_answered_no_more_than_it_takes(wide, settings):
    """One read of small requests, each with an answer of 1 MB, is over 1 GB if all are answered at once."""
    questions = encode_command(RemotingCommand(code=206, opaque=1)) * 2_000
    before_bytes = psutil.Process().memory_info().rss
    with BackgroundGateway(settings(delta__root=wide.root)) as running:
        port = running.gateway.port
        with greedy_peer(port) as greedy, Peer(port) as good:
            greedy.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    greedy.sendall(questions)
                    assert good.ask(105, topic="TopicA").code == 0
            for _ in range(20):
                assert good.ask(105, topic="TopicA").code == 0
            grown_bytes = psutil.Process().memory_info().rss - before_bytes
            assert grown_bytes < 100 * MIB
            assert running.gateway.connections.shares.held_bytes < 8 * MIB


def test_all_that_was_asked_is_answered_once_the_peer_reads(wide, settings):
    """Lookups and other requests in turn, more than are answered at a time: in their order, none lost."""
    with BackgroundGateway(settings(delta__root=wide.root)) as running, Peer(running.gateway.port) as peer:
        sent = []
        for _ in range(40):
            sent += [peer.send(105, topic="TopicA"), peer.send(206), peer.send(4711)]
        assert [peer.receive().opaque for _ in sent] == sent
        assert peer.ask(105, topic="TopicA").code == 0


def test_behind_a_trusted_load_balancer_each_peer_counts_for_itself_and_is_named(registry, settings, caplog):
    limits = {"maxConnectionsPerAddress": 2, "proxyProtocol__trusted": "127.0.0.0/8"}
    with BackgroundGateway(settings(**limits)) as running, contextlib.ExitStack() as open_peers:

        def behind(source):
            peer = open_peers.enter_context(Peer(running.gateway.port))
            peer.socket.sendall(b"PROXY TCP4 %s 127.0.0.1 5000 9876\r\n" % source + LOOKUP)
            return peer

        for source in (b"192.0.2.1", b"192.0.2.2", b"192.0.2.1", b"192.0.2.2"):
            assert behind(source).receive().code == 0
        assert behind(b"192.0.2.1").is_closed_by_server()
        last = behind(b"192.0.2.3")
        assert last.receive().code == 0
        last.socket.sendall(framed(b"{]"))
        assert last.is_closed_by_server()
    assert "connection of 192.0.2.3:5000 (through 127.0.0.1:" in caplog.text


FEW_FILES = """
import resource, sys, time
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.launch import BackgroundGateway
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
given = {"delta.root": sys.argv[1], "kafka.bootstrap.servers": "127.0.0.1:1", "listenPort": 0}
with BackgroundGateway(NamesrvSettings.model_validate(given)) as running:
    print(running.gateway.port, flush=True)
    sys.stdin.read()
"""


def test_connections_leave_files_to_the_tables(registry):
    """With 300 files all connections are let in that leave 256; a new snapshot is read as before."""
    program = [sys.executable, "-c", FEW_FILES, registry.root]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        with contextlib.ExitStack() as open_peers, Peer(port) as good:
            assert good.ask(105, topic="TopicA").code == 0
            flood = [open_peers.enter_context(Peer(port, host=EVIL)) for _ in range(300)]
            assert flood[0].is_closed_by_server()
            registry.register("10.0.0.7:10911", "c1", "broker-new", topics=("TopicNew",))
            until(lambda: good.ask(105, topic="TopicNew").code == 0)
        process.stdin.close()


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_settings_that_take_long_to_read_are_read_by_nobody(registry, settings, tmp_path, monkeypatch, mode):
    read, loads = [], javaproperties.loads
    monkeypatch.setattr(javaproperties, "loads", lambda text: read.append(text) or loads(text))
    users = tmp_path / "users.toml"
    users.touch(0o600)
    guarded = settings(auth__mode=mode, auth__usersPath=str(users))
    with (
        BackgroundGateway(guarded) as running,
        Peer(running.gateway.port, host=EVIL) as evil,
        Peer(running.gateway.port) as good,
    ):
        read.clear()  # what the start has read
        bodies._loaded.cache_clear()  # noqa: SLF001 - the test may have run before in this process
        sent = [evil.send(318, body) for body in LONG_SETTINGS]
        assert good.ask(105, topic="TopicA").code == 0
        answers = [evil.receive() for _ in sent]
        assert {each.opaque for each in answers} == set(sent)
        assert {each.code for each in answers} <= {1, 2}
        assert read == []
        assert evil.ask(318, f"a={mode}".encode()).code == 0
        assert read == [f"a={mode}"], "once, also where who may change it is looked up first"


SCANS = {206: {}, 224: {"cluster": "c1"}, 311: {}, 312: {}, 313: {}}
"""Request code -> the fields that it needs."""


def test_what_goes_through_all_topics_keeps_no_lookup_waiting_and_is_made_once(own_gateway, monkeypatch):
    made, go_on, make = [], threading.Event(), AnswerCache.anew

    def slow(answers, command):
        if command.code in SCANS:
            made.append(command.code)
            assert go_on.wait(30)
        return make(answers, command)

    monkeypatch.setattr(AnswerCache, "anew", slow)
    port = own_gateway.port
    with Peer(port, host=EVIL) as evil, Peer(port, host=EVIL) as another, Peer(port) as good:
        for code, fields in SCANS.items():
            go_on.clear()
            asked = [(each, each.send(code, **fields)) for each in (evil, another)]
            for _ in range(20):
                assert good.ask(105, topic="TopicA").code == 0
            go_on.set()
            for each, opaque in asked:
                answer = each.receive()
                assert (answer.opaque, answer.code) == (opaque, 0)
    assert made == list(SCANS)


def test_made_up_clusters_wait_for_nothing_and_cost_no_search_of_topics(own_gateway, monkeypatch):
    searched, go_on, search = [], threading.Event(), lookup.topics_by_cluster

    def slow(tables, cluster):
        searched.append(cluster)
        assert go_on.wait(30)
        return search(tables, cluster)

    monkeypatch.setattr(lookup, "topics_by_cluster", slow)
    with Peer(own_gateway.port, host=EVIL) as evil, Peer(own_gateway.port) as good:
        opaque = good.send(224, cluster="c1")
        for number in range(100):
            assert json.loads(evil.ask(224, cluster=f"made-up-{number}").body)["topicList"] == []
        go_on.set()
        answer = good.receive()
        assert (answer.opaque, json.loads(answer.body)["topicList"]) == (opaque, ["TopicA", "Unit"])
    assert searched == ["c1"]
