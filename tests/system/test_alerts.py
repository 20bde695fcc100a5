"""A real Prometheus over a real job and gateway: each failure raises its alert within 90 s, and an alert ends."""

import json
import logging
import os
import shutil
import signal
import sys
import time
import urllib.error
import urllib.request

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tenacity import retry, stop_after_delay, wait_fixed

from namesrv_stream.gateway.background_gateway import BackgroundGateway
from namesrv_stream.tools.local.jars import CHECKOUT
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.ports import HOST, free_ports, listens
from namesrv_stream.tools.local.process import OwnedProcess, OwnedServer
from tests.system.heartbeats import Heartbeats, eventually, registration

log = logging.getLogger(__name__)

ALERT_LIMIT_S = 90
BROKERS = range(1, 11)
SHORT_LEASE_MS = 4_000

pytestmark = [
    pytest.mark.full,
    pytest.mark.system,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Debian's package prometheus"),
]


class Prometheus(OwnedServer):
    """Scrapes and evaluates the rules of deploy/ each second."""

    name = "Prometheus"

    def __init__(self, folder, targets):
        super().__init__(folder / "prometheus.log")
        self._folder, self._port = folder, free_ports(1)
        scraped = [{"job_name": job, "static_configs": [{"targets": [at]}]} for job, at in targets.items()]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(CHECKOUT / "deploy" / "prometheus" / "alerts.yml")],
            "scrape_configs": scraped,
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def start(self):
        options = {
            "config.file": self._folder / "prometheus.yml",
            "storage.tsdb.path": self._folder / "tsdb",
            "web.listen-address": f"{HOST}:{self._port}",
        }
        self._run(
            ["prometheus", *(f"--{name}={value}" for name, value in options.items())],
            lambda: listens(self._port),
            60,
        )
        return self

    def firing(self):
        """Names of the alerts that are raised now."""
        answer = json.load(urllib.request.urlopen(f"http://{HOST}:{self._port}/api/v1/alerts", timeout=10))
        return {each["labels"]["alertname"] for each in answer["data"]["alerts"] if each["state"] == "firing"}

    def await_alert(self, name):
        """Returns once the alert is raised; fails after 90 s."""
        began_s = time.monotonic()

        @retry(stop=stop_after_delay(ALERT_LIMIT_S), wait=wait_fixed(0.5), reraise=True)
        def raised():
            assert name in self.firing()

        raised()
        log.info("%s after %.0f s", name, time.monotonic() - began_s)

    @eventually
    def await_silence(self, *names):
        assert not self.firing() & set(names)


@pytest.fixture
def node(tmp_path):
    with LocalKafka(tmp_path / "kafka") as running:
        yield running


@pytest.fixture
def heartbeats(node, topic, tmp_path):
    first = free_ports(2)
    ports = {"job.metricsPort": str(first), "metricsPort": str(first + 1), "listenPort": "0"}
    log = Heartbeats(node, topic, tmp_path, **ports, tickGapMillis="0")
    yield log
    log.close()


@pytest.fixture
def job(heartbeats, tmp_path):
    settings, log = tmp_path / "namesrv.properties", tmp_path / "job.log"
    settings.write_text("".join(f"{key}={text}\n" for key, text in heartbeats.options.items()))
    command = [sys.executable, "-m", "tests.system.slowed_job", settings, tmp_path / "slow"]
    process = OwnedProcess(command, log)
    yield process
    process.kill()


@eventually
def await_ready(port):
    """Returns once /readyz answers 200."""
    assert urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=5).read() == b"ok\n"


@eventually
def await_progress(port):
    """Returns once the job's page has what Spark reports of its micro-batches."""
    page = urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=5).read().decode()
    families = text_string_to_metric_families(page)
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    for name in ("records_total", "batch_seconds_count", "state_rows", "state_bytes", "value_bytes_total"):
        assert samples[f"namesrv_job_{name}"] > 0, name
    for name in ("open_fds", "max_fds", "threads", "resident_memory_bytes"):
        assert samples[f"process_{name}"] > 0, name
        assert samples[f"namesrv_jvm_process_{name}"] > 0, name


def unreadiness(port, page="/readyz"):
    """Reasons for which it answers 503."""
    with pytest.raises(urllib.error.HTTPError, match="503") as refused:
        urllib.request.urlopen(f"http://{HOST}:{port}{page}", timeout=5)
    return refused.value.read().decode()


def test_each_failure_raises_its_alert_within_90_s(heartbeats, job, node, tmp_path):
    settings = heartbeats.settings
    targets = {
        "namesrv-job": f"{HOST}:{settings.job_metrics_port}",
        "namesrv-gateway": f"{HOST}:{settings.metrics_port}",
    }
    with BackgroundGateway(settings), Prometheus(tmp_path, targets) as prometheus:
        await_ready(settings.job_metrics_port)
        heartbeats.say(*(registration(number, heartbeat_timeout_millis=SHORT_LEASE_MS) for number in BROKERS))
        await_ready(settings.metrics_port)
        await_progress(settings.job_metrics_port)
        prometheus.await_silence("NamesrvJobDown", "NamesrvKafkaLost")

        prometheus.await_alert("NamesrvMassExpiry")  # the gateway ticks, and no broker speaks

        (tmp_path / "slow").touch()
        until_s = time.monotonic() + ALERT_LIMIT_S
        while "NamesrvStorageSlow" not in prometheus.firing():
            assert time.monotonic() < until_s
            heartbeats.say(registration(1, counter=int(time.monotonic() * 1000)))
            time.sleep(0.5)  # noqa: TID251 -- between two changes, each of which is published
        (tmp_path / "slow").unlink()

        os.killpg(job.pid, signal.SIGKILL)  # the job and its JVM
        prometheus.await_alert("NamesrvJobDown")

        node.kill()
        prometheus.await_alert("NamesrvKafkaLost")
        assert "not connected yet" in unreadiness(settings.metrics_port, "/readyz/writes")
        node.start()
        prometheus.await_silence("NamesrvKafkaLost")
        await_ready(settings.metrics_port)
