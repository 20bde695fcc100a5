"""The log of one test; and a registry with a gateway for a module's tests with RocketMQ's peers."""

import pytest

from namesrv_stream.config import as_options
from namesrv_stream.tools.local.process import free_ports
from real_rocketmq.servers import broker
from tests.interruption import running
from tests.system.gateway_stack import registered, running_stack
from tests.system.heartbeats import Heartbeats


@pytest.fixture
def heartbeats(kafka, topic, tmp_path):
    log = Heartbeats(kafka, topic, tmp_path)
    yield log
    log.close()


@pytest.fixture(scope="module")
def stack(kafka, spark, tmp_path_factory):
    with running_stack(kafka, spark, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def master(stack, tmp_path_factory):
    """A broker with `stack` as its name server, in which a topic is there only once it was created."""
    folder = tmp_path_factory.mktemp("master")
    with broker(folder, stack.namesrv_addr, "broker-a", autoCreateTopicEnable="false") as running:
        registered(stack, "broker-a", {"0": running.address})
        yield running
        running.kill()  # an orderly stop takes it ten seconds


@pytest.fixture
def up(tmp_path):
    """Starts `up` with two brokers on a Kafka port of its own, and ends it whatever happens."""
    settings = {
        "kafka.bootstrap.servers": f"127.0.0.1:{free_ports(1)}",
        "listenPort": "0",
        "kvConfigPath": "",
        "delta.root": tmp_path / "r",
    }
    settings |= {"jobTicker": "true", "tickMillis": "20"}  # somebody writes while all ends
    with running(*as_options(settings), "up", "--data", str(tmp_path), "--brokers", "2", "--topics", "1") as process:
        yield process
