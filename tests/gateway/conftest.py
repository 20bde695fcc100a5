"""A gateway on real tables, with a Kafka that nobody runs: lookups have to do without."""

import socket

import pytest
from tenacity import retry, stop_after_delay, wait_fixed

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.background import BackgroundGateway
from namesrv_stream.rules.requests import PutKvConfig
from tests.cli.registry import PublishedRegistry
from tests.gateway.peer import Peer
from tests.gateway.process import READY_LIMIT_S

T0 = 1_700_000_000_000


@pytest.fixture(scope="session")
def nobody():
    """host:port where nobody listens for as long as the tests run."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def settings(tmp_path, nobody):
    def make(**more):
        given = {"delta.root": str(tmp_path / "registry"), "kafka.bootstrap.servers": nobody, "listenPort": 0}
        return NamesrvSettings.model_validate(given | {key.replace("__", "."): value for key, value in more.items()})

    return make


@pytest.fixture
def registry(tmp_path):
    registry = PublishedRegistry(str(tmp_path / "registry"), T0)
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("TopicA", "Unit"))
    registry.register("10.0.0.2:10911", "c1", "broker-a", 1, enable_acting_master=False)
    registry.register("10.0.0.3:10911", "c2", "broker-b", zone_name="z1", filter_server_list=["10.0.0.9:1"])
    registry.command(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="TopicA", value="broker-a:8"))
    return registry


@pytest.fixture
def gateway(registry, settings):
    """A gateway that serves the registry: on a busy machine the first read of the tables can outlast its start."""
    with BackgroundGateway(settings()) as running:

        @retry(stop=stop_after_delay(READY_LIMIT_S), wait=wait_fixed(0.02), reraise=True)
        def has_snapshot():
            assert running.gateway.epoch

        has_snapshot()
        yield running.gateway


@pytest.fixture
def peer(gateway):
    with Peer(gateway.port) as connected:
        yield connected
