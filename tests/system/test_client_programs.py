"""Clients in other languages, and RocketMQ's proxy, with the gateway as their name server: each from its registry.

A topic is used at once after its creation (E12), and the broker creates none by itself. So a lookup that the gateway
answers from before the creation is an error of the client.
"""

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from namesrv_stream.answers.events import topic_events
from namesrv_stream.gateway.own_writes import WAIT_LIMIT_S
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tools.local.process import HOST, OwnedServer, free_ports, listens
from real_rocketmq.servers import START_LIMIT_S, Release, mqadmin
from tests.java_client import BODIES, java_client
from tests.system.gateway_stack import routed

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.system]

PROGRAMS = Path(__file__).with_name("programs")
NODE_CLIENT = "ali-ons@3.12.0"
GO_CLIENT = "github.com/apache/rocketmq-client-go/v2@v2.1.2"
GRPC_CLIENT = "rocketmq-python-client==5.1.2"
RUN_LIMIT_S = 180


class Proxy(OwnedServer):
    """RocketMQ's proxy in cluster mode, for gRPC clients."""

    name = "the proxy"

    def __init__(self, home, namesrv_addr):
        super().__init__(home / "console.log")
        self._home = home
        self.port, remoting_port = free_ports(1), free_ports(1)
        settings = {
            "grpcServerPort": self.port,
            "localServeAddr": HOST,
            "namesrvAddr": namesrv_addr,
            "proxyMode": "cluster",
            "remotingListenPort": remoting_port,
            "rocketMQClusterName": "RealCluster",
        }
        (home / "proxy.json").write_text(json.dumps(settings))

    def start(self):
        main = ["org.apache.rocketmq.proxy.ProxyStartup", "-pc", str(self._home / "proxy.json")]
        self._run(Release.PROXY_V5.java(self._home, *main, heap="-Xmx512m"), lambda: listens(self.port), START_LIMIT_S)
        return self


def fetched(what, *command, cwd):
    """Have the client of a registry fetch `what`. Fail without that client; skip the test without the registry."""
    if shutil.which(command[0]) is None:
        pytest.fail(f"{what} was not tried: this machine has no {command[0]}")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{what} was not tried: it could not be fetched: {done.stderr[-500:]}")


def printed(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=RUN_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(done.stdout.splitlines())


def test_a_proxy_starts_the_first_time_and_a_grpc_client_sends_and_receives_through_it(stack, master, tmp_path):
    with Proxy(tmp_path, stack.namesrv_addr) as proxy:
        fetched("the gRPC client", sys.executable, "-m", "venv", "venv", cwd=tmp_path)
        fetched("the gRPC client", tmp_path / "venv/bin/pip", "install", "--quiet", GRPC_CLIENT, cwd=tmp_path)
        said = mqadmin(tmp_path / "admin", stack.namesrv_addr, "updateTopic", "-c", "RealCluster", "-t", "ByProxy")
        assert "success" in said, said
        routed(stack, "ByProxy")
        client = [tmp_path / "venv/bin/python", PROGRAMS / "grpc_client.py", f"{HOST}:{proxy.port}", "ByProxy"]
        assert printed(*client, *BODIES, cwd=tmp_path) == BODIES


def used_at_once(stack, name, use):
    """Check that `use`, of a topic that it creates, returns all messages.

    No lookup waits longer than 2.5 s, and a busy machine may need more for a snapshot: then another topic is used.
    """
    for number in itertools.count():
        topic = f"{name}{number}"
        try:
            assert use(topic) == BODIES
        except (AssertionError, Py4JJavaError):
            routed(stack, topic)
            if publication_s(stack, topic) < WAIT_LIMIT_S / 2:
                raise
        else:
            return


def publication_s(stack, topic):
    """Return the time from the record that brings a topic to the snapshot that has it."""
    root = Root(stack.settings.delta_root)
    first = min(topic_events(root, SnapshotTable(root).newest(), topic), key=lambda line: line.epoch)
    return (SnapshotTable(root).find(first.epoch).published_at - first.event_time) / 1000


@pytest.mark.parametrize(
    ("source", "fetches", "build", "client"),
    [
        ("client.go", ["go mod init client", f"go get {GO_CLIENT}"], "go build -o client .", "./client"),
        ("client.js", [f"npm install --no-audit --no-fund {NODE_CLIENT}"], "node --check client.js", "node client.js"),
    ],
    ids=["ByGo", "ByNode"],
)
def test_e12_a_client_creates_a_topic_and_uses_it_at_once(
    request, stack, master, tmp_path, source, fetches, build, client
):
    shutil.copy(PROGRAMS / source, tmp_path)
    for each in fetches:
        fetched(f"the client of {source}", *each.split(), cwd=tmp_path)
    printed(*build.split(), cwd=tmp_path)
    command = (*client.split(), stack.namesrv_addr, master.address)
    used_at_once(stack, request.node.callspec.id, lambda topic: printed(*command, topic, *BODIES, cwd=tmp_path))


def test_e12_the_newest_java_client_of_4_9_creates_a_topic_and_uses_it_at_once(stack, master, tmp_path):
    with java_client(tmp_path, stack.namesrv_addr, Release.CLIENT_V4) as client:

        def use(topic):
            client.create_topic(topic, "RealCluster")
            return client.carried(topic, BODIES)

        used_at_once(stack, "ByJava", use)
