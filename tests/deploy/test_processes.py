"""Gateway and console of the chart as processes here, with the arguments and settings that the chart renders."""

import http.client
import os
import signal
import time

import pytest
from tenacity import Retrying, retry, stop_after_delay, wait_fixed

from namesrv_stream.tools.local.ports import HOST, free_ports, listens
from namesrv_stream.tools.local.process import OwnedProcess
from tests.cli.registry import PublishedRegistry
from tests.deploy.chart import rendered
from tests.deploy.commands import NAMESRV_STREAM

pytestmark = pytest.mark.deploy

START_LIMIT_S = 120
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


class Machine:
    """Files and addresses of a container here: the chart's paths are below a folder, its servers on loopback."""

    def __init__(self, folder):
        self._here = {"/etc/namesrv/": f"{folder}/etc/", "/var/lib/namesrv/": f"{folder}/lib/", "=0.0.0.0": f"={HOST}"}
        self.folder = folder
        self.data = folder / "lib" / "registry"

    def adapted(self, text):
        for there, here in self._here.items():
            text = text.replace(there, here)
        return text

    def mount(self, config_map):
        """Make the files of a ConfigMap, as the pods mount it."""
        for name, text in config_map["data"].items():
            file = self.folder / "etc" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.adapted(text))

    def start(self, container):
        program, *arguments = container["args"]
        assert program == "namesrv-stream"
        env = {name: text for name, text in os.environ.items() if not name.startswith("NAMESRV_")}
        assert "envFrom" not in container
        log = self.folder / f"{container['name']}.log"
        command = [NAMESRV_STREAM, *map(self.adapted, arguments)]
        return OwnedProcess(command, log, env | {"HOME": str(self.folder)}), log


def is_answered(probe, container):
    """Return whether a probe succeeds, as the kubelet takes it: a status below 400, or a connection."""
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    if "tcpSocket" in probe:
        return listens(ports[probe["tcpSocket"]["port"]])
    asked = probe["httpGet"]
    connection = http.client.HTTPConnection(HOST, ports[asked["port"]], timeout=10)
    try:
        connection.request("GET", asked["path"])
        return connection.getresponse().status < 400
    except OSError:
        return False
    finally:
        connection.close()


@retry(stop=stop_after_delay(START_LIMIT_S), wait=wait_fixed(0.2), reraise=True)
def await_ready(process, container, log):
    assert process.exit_code is None or pytest.fail(log.read_text())
    assert is_answered(container["readinessProbe"], container), log.read_text()


@pytest.mark.parametrize("part", ["gateway", "console"])
def test_a_server_of_the_chart_starts_answers_its_probes_and_ends_in_its_grace_period(kafka, topic, tmp_path, part):
    machine = Machine(tmp_path)
    registry = PublishedRegistry(str(machine.data), time.time_ns() // 1_000_000 - 60_000)
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    port = free_ports(3)
    values = {
        "settings": {"kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.topic": topic},
        "gateway": {"port": port, "metricsPort": port + 1},
        "console": {"enabled": True, "port": port + 2},
    }
    objects = rendered(values, tmp_path, "another-release")
    [settings] = [each for each in objects if each["kind"] == "ConfigMap"]
    [pod] = [
        each["spec"]["template"]["spec"]
        for each in objects
        if (each["kind"], each["metadata"]["name"]) == ("Deployment", f"another-release-{part}")
    ]
    [container] = pod["containers"]
    machine.mount(settings)
    process, log = machine.start(container)
    try:
        await_ready(process, container, log)
        found = {name: is_answered(container[name], container) for name in PROBES if name in container}
        assert set(found.values()) == {True}, (found, log.read_text())
        assert {each["containerPort"] for each in container["ports"] if not listens(each["containerPort"])} == set()
        os.kill(process.pid, signal.SIGTERM)
        await_end(process, pod["terminationGracePeriodSeconds"])
        assert process.exit_code == 0, log.read_text()
    finally:
        process.stop()


def await_end(process, grace_s):
    """Return once the process has ended; fail if that takes longer than its grace period."""
    for attempt in Retrying(stop=stop_after_delay(grace_s), wait=wait_fixed(0.1), reraise=True):
        with attempt:
            assert process.exit_code is not None
