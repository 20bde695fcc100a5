"""/metrics, /healthz and /readyz: their contents, and that no client keeps another one waiting."""

import contextlib
import socket
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client import generate_latest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.reporting import metrics_server as monitoring
from namesrv_stream.reporting.metrics_server import MAX_CLUSTERS, MAX_REQUESTS, MonitoringServer
from tests.gateway.conftest import T0
from tests.waiting import until

EVIL = "127.0.0.66"
CHECKS = {"/healthz": lambda: None, "/readyz": lambda: "no snapshot"}


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def server(metrics):
    running = MonitoringServer(metrics.registry, ("127.0.0.1", 0), "metricsPort", CHECKS)
    yield running
    running.close()


def healthz(server):
    return urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/healthz", timeout=30).read()


def connected(server, host):
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=30, source_address=(host, 0))


@pytest.mark.parametrize("said", [b"", b"GET /metrics HTTP/1.1\r\nX: "])
def test_more_slow_clients_than_are_served_at_a_time_keep_no_probe_waiting(server, said):
    with contextlib.ExitStack() as slow:
        for number in range(3 * MAX_REQUESTS):
            slow.enter_context(connected(server, f"127.0.2.{number + 1}")).sendall(said)
        assert healthz(server) == b"ok\n"


def test_a_host_that_asks_too_often_is_refused_and_named_and_another_one_is_answered(server, caplog, monkeypatch):
    monkeypatch.setattr(monitoring, "MAX_A_SECOND", 3)  # a busy machine asks as often
    answers = []
    while b"" not in answers:
        with connected(server, EVIL) as asking:
            try:
                asking.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
                answers.append(asking.recv(1))
            except ConnectionError:
                answers.append(b"")
    assert healthz(server) == b"ok\n"
    assert f"metrics request of {EVIL} rejected: over 3 in a second" in caplog.text
    assert answers.count(b"H") >= 3, "those within the limit are answered"


def test_a_port_that_is_taken_is_an_error_that_names_the_setting(server, metrics):
    taken = "127.0.0.1", server.server_port
    with pytest.raises(NamesrvError, match=r"set job\.metricsPort to another"):
        MonitoringServer(metrics.registry, taken, "job.metricsPort", {})


def test_the_lag_is_the_event_time_between_the_newest_snapshot_and_now(gateway):
    began_s = time.time()
    lag_s = until(lambda: gateway.metrics.registry.get_sample_value("namesrv_registry_lag_seconds"))
    assert abs(began_s - T0 / 1_000 - lag_s) < 3_600


def is_cut_off(slow):
    try:
        slow.sendall(b"x")
        return slow.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_client_that_trickles_is_cut_off(server, monkeypatch):
    with (
        monkeypatch.context() as quick,
        socket.create_connection(("127.0.0.1", server.server_port), timeout=0.05) as slow,
    ):
        quick.setattr(monitoring, "REQUEST_LIMIT_S", 0.5)
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        until(lambda: is_cut_off(slow))
    assert healthz(server) == b"ok\n"


def test_clusters_that_peers_make_up_are_one_line_beyond_the_largest(metrics):
    metrics.brokers({f"made-up-{number}": 1 for number in range(1_000)} | {"real": 50, "x" * 10_000: 60})
    page = generate_latest(metrics.registry).decode().splitlines()
    lines = [line for line in page if line.startswith("namesrv_brokers{")]
    assert len(lines) == MAX_CLUSTERS + 1
    assert 'namesrv_brokers{cluster="real"} 50.0' in lines
    assert f'namesrv_brokers{{cluster="{"x" * 100}"}} 60.0' in lines
    assert f'namesrv_brokers{{cluster="(others)"}} {1_002 - MAX_CLUSTERS}.0' in lines
