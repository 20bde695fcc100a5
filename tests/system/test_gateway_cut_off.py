"""One of two gateways loses its way to Kafka: its brokers are told, and those with both gateways live on (D13)."""

import selectors
import socket
import threading
from contextlib import contextmanager, suppress

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.rules.record_types import ChannelClosed, Scan
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tools.local.kafka_server import HOST, LocalKafka
from namesrv_stream.tools.local.ports import free_ports
from tests.cli.registry import PublishedRegistry
from tests.gateway.peer import Peer
from tests.system.gateway_stack import eventually
from tests.system.test_gateway_writes import T0, registration
from tests.system.test_kafka_topic import timed_records

# Leases of 10 s end, twice. The rule is in tests/gateway/test_writes.py.
pytestmark = [pytest.mark.system, pytest.mark.full]

LEASE_MS = 10_000


class Way:
    """A TCP proxy. While it is cut it passes nothing on and closes nothing, as a network that drops all packets."""

    def __init__(self, to_port):
        self._to_port = to_port
        self._listening = socket.create_server((HOST, 0))
        self.port = self._listening.getsockname()[1]
        self._is_open = threading.Event()
        self._is_open.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self._is_open.clear()

    def mend(self):
        self._is_open.set()

    def close(self):
        self._listening.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client):
        with suppress(OSError), client, socket.create_connection((HOST, self._to_port)) as server:
            others = {client: server, server: client}
            with selectors.DefaultSelector() as ready:
                for each in others:
                    ready.register(each, selectors.EVENT_READ)
                while True:
                    for key, _ in ready.select():
                        self._is_open.wait()
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        others[key.fileobj].sendall(data)


class KafkaWithAWay(LocalKafka):
    """Kafka with a second listener, which is reached through a proxy."""

    def __init__(self, data):
        super().__init__(data)
        self._behind = free_ports(1)
        self.way = Way(self._behind)

    def _server_properties(self):
        text = super()._server_properties()
        more = {"listeners=": self._behind, "advertised.listeners=": self.way.port}
        lines = [
            f"{line},WAY://{HOST}:{next(port for key, port in more.items() if line.startswith(key))}"
            if line.startswith(tuple(more))
            else line
            for line in text.splitlines()
        ]
        names = "inter.broker.listener.name=PLAINTEXT\n"
        return "\n".join(lines).replace("PLAINTEXT:PLAINTEXT,", "PLAINTEXT:PLAINTEXT,WAY:PLAINTEXT,") + f"\n{names}"


class Broker:
    """Registers at each of its name servers again and again, over new connections to those that close them."""

    def __init__(self, number, ports):
        self.address = f"10.0.0.{number}:10911"
        self._fields = {"broker_addr": self.address, "broker_name": f"b{number}", "heartbeat_timeout_millis": LEASE_MS}
        self._peers = dict.fromkeys(ports)
        self.was_closed = 0

    def lives(self):
        for port, peer in self._peers.items():
            if peer is not None and not self._is_open(peer):
                peer.close()
                self._peers[port] = None
                self.was_closed += 1
            with suppress(OSError):
                self._speak(port)

    def _speak(self, port):
        peer = self._peers[port] = self._peers[port] or Peer(port)
        body, fields = registration(**self._fields)
        peer.send(103, body, **fields)

    def _is_open(self, peer):
        peer.socket.setblocking(False)
        try:
            while data := peer.socket.recv(65536):
                assert data
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            peer.socket.settimeout(30)

    def close(self):
        for peer in self._peers.values():
            if peer is not None:
                peer.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with KafkaWithAWay(tmp_path_factory.mktemp("kafka")) as running:
        yield running
        running.way.close()


@contextmanager
def gateway(folder, servers, topic):
    given = {
        "delta.root": str(folder / "registry"),
        "kafka.bootstrap.servers": servers,
        "kafka.topic": topic,
        "kafkaAwayMillis": 5_000,
        "kvConfigPath": str(folder / "none.json"),
        "listenPort": 0,
    }
    with BackgroundGateway(NamesrvSettings.model_validate(given)) as running:
        yield running.gateway


def test_d13_a_gateway_without_kafka_sends_its_brokers_away_and_ends_no_lease(node, tmp_path, topic):
    kafka = {"bootstrap.servers": node.bootstrap_servers}
    ensure_topic(kafka, topic)
    PublishedRegistry(str(tmp_path / "registry"), T0)
    with (
        gateway(tmp_path, node.bootstrap_servers, topic) as sound,
        gateway(tmp_path, f"{HOST}:{node.way.port}", topic) as cut,
        Peer(cut.port) as client,
    ):
        both, alone = Broker(1, [sound.port, cut.port]), Broker(2, [cut.port])

        def found(metric):
            return cut.metrics.registry.get_sample_value(metric)

        @eventually
        def until(condition):
            both.lives()
            alone.lives()
            assert condition()

        def log():
            return timed_records(kafka, topic)

        def heard(address):
            return len({each.channel_id for *_, each, _ in log() if getattr(each, "broker_addr", "") == address})

        until(lambda: (heard(both.address), heard(alone.address)) == (2, 1))
        node.way.cut()
        cut_ms = log()[-1][-1]
        until(lambda: alone.was_closed >= 3)
        assert found("namesrv_kafka_away") == 1
        assert client.ask(105, topic="Nowhere").code == 17, "lookups go on, over the connection of before"
        until(lambda: log()[-1][-1] > cut_ms + 2 * LEASE_MS)
        assert both.was_closed >= 3
        node.way.mend()
        until(lambda: heard(alone.address) >= 2)
        until(lambda: found("namesrv_kafka_away") == 0)
        said = log()
        both.close()
        alone.close()
    assert not [each for *_, each, _ in said if isinstance(each, ChannelClosed)]
    rules, left = RouteRegistry(NamesrvSettings()), set()
    for _, offset, _, request, at_ms in said:
        rules.apply(request, LogPosition(at_ms, 0, offset))
        left |= {event.broker_addr for event in rules.take_changes().events if event.type == "EXPIRED"}
    assert left == {alone.address}, "a lease of 10 s, and nobody that could say that it lives"
    assert sum(isinstance(each, Scan) for *_, each, _ in said) > 10
