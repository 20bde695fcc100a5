"""The server around the codec: bad input, TLS, PROXY headers, idle and slow peers, many peers, an orderly stop."""

import itertools
import logging
import re
import socket
import urllib.error
import urllib.request

import pytest

from benchmarks.hostile_bytes import HEADERS, framed
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tools.local.process import free_ports
from tests.clock import now_ms
from tests.console.background import kafka_tells
from tests.gateway.hostile import LOOKUP, greedy_peer
from tests.gateway.peer import Peer
from tests.waiting import eventually, until
from tests.wire.golden import REQUESTS
from tests.wire.recorded import CASES, bytes_of

HIGH_WATER_BYTES = 64 * 1024
"""The bytes that a transport of asyncio holds back before it pauses its protocol, unless it is told otherwise."""

SENSELESS = [
    *((bytes_of(each["bytes"]), each["refused"]) for each in CASES if "refused" in each and each["of"] == "frames"),
    *((framed(header), r"header(: | of \d+ fields)") for header in HEADERS.values()),
    (LOOKUP + framed(b"{]"), "cannot read header"),
]
"""What the codec refuses, with what is said of it."""


@pytest.mark.parametrize("number", range(len(SENSELESS)))
def test_a_stream_that_makes_no_sense_is_closed_once_and_by_name(gateway, peer, caplog, number):
    caplog.set_level(logging.WARNING)
    sent, refused = SENSELESS[number]
    with Peer(gateway.port, host=f"127.0.1.{1 + number}") as bad:
        me = "{}:{}".format(*bad.socket.getsockname())
        bad.socket.sendall(sent.ljust(len(b"PROXY TCP4 ")))
        assert peer.ask(105, topic="TopicA").code == 0, "others notice nothing"
        assert bad.is_closed_by_server()
    (told,) = [each.getMessage() for each in caplog.records if each.name == "namesrv_stream.gateway.connection"]
    named, _, why = told.partition(" closed: ")
    assert me in named
    assert re.search(f"{refused.rstrip(',')}|add it to proxyProtocol.trusted", why)


def test_an_idle_peer_that_takes_no_answers_is_closed_and_logged_once(registry, settings, caplog):
    """Also where what waits for it is below the transport's high-water mark."""
    caplog.set_level(logging.INFO)
    buffers = {"serverChannelMaxIdleTimeSeconds": 1, "serverSocketSndBufSize": 4096}
    with BackgroundGateway(settings(**buffers)) as running, greedy_peer(running.gateway.port) as greedy:
        connections = running.gateway.connections.open
        until(lambda: len(connections) == 1)
        (connection,) = connections
        counted = running.gateway.metrics.registry.get_sample_value
        found = {"code": "GET_ROUTEINFO_BY_TOPIC", "result": "SUCCESS"}
        for sent in itertools.count(10, 10):
            greedy.sendall(LOOKUP * 10)

            @eventually
            def answered(wanted=sent):
                assert counted("namesrv_requests_total", found) == wanted

            answered()
            if connection.held_bytes:
                break
        assert connection.held_bytes < HIGH_WATER_BYTES
        until(lambda: not connections)
    assert caplog.text.count("closed: idle for 1 s") == 1


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_every_captured_request_gets_an_answer_or_none_as_it_wants(gateway, name):
    golden = REQUESTS[name]
    with Peer(gateway.port) as captured:
        captured.socket.sendall(golden.raw + LOOKUP)
        answers = [captured.receive()]
        if not golden.command.is_oneway:
            answers.append(captured.receive())
        opaques = {1} if golden.command.is_oneway else {1, golden.command.opaque}
        assert {answer.opaque for answer in answers} == opaques


# --- the whole process


def test_a_port_is_taken_until_stop_closes_its_connections(registry, settings):
    with BackgroundGateway(settings()) as running:
        port = running.gateway.port
        connected = Peer(port)
        assert connected.ask(105, topic="TopicA").code == 0
        with pytest.raises(NamesrvError, match="listenPort"), BackgroundGateway(settings(listenPort=port)):
            pass
    with connected:
        assert connected.is_closed_by_server()
    with BackgroundGateway(settings(listenPort=port)):
        pass


def test_metrics_and_health_follow_the_requests_the_snapshot_and_the_jobs_signs_of_progress(registry, settings):
    port = free_ports(1)
    with BackgroundGateway(settings(metricsPort=port)) as running, Peer(running.gateway.port) as peer:
        for topic in ("TopicA", "TopicA", "Nowhere"):
            peer.ask(105, topic=topic)
        peer.ask(4711)
        peer.ask(102, namespace="n", key="k")
        epoch = Registry(registry.root).newest().snapshot.epoch

        @eventually
        def counted():
            page = page_of(port, "/metrics")
            for line in (
                'namesrv_requests_total{code="GET_ROUTEINFO_BY_TOPIC",result="SUCCESS"} 2.0',
                'namesrv_requests_total{code="GET_ROUTEINFO_BY_TOPIC",result="TOPIC_NOT_EXIST"} 1.0',
                'namesrv_requests_total{code="DELETE_KV_CONFIG",result="SYSTEM_BUSY"} 1.0',
                'namesrv_requests_total{code="unknown",result="REQUEST_CODE_NOT_SUPPORTED"} 1.0',
                'namesrv_brokers{cluster="c1"} 2.0',
                "namesrv_connections 1.0",
                f"namesrv_snapshot_epoch {epoch}.0",
                "namesrv_snapshot_stale 1.0",
                'namesrv_job_state{namesrv_job_state="unknown"} 1.0',  # as no Kafka runs
                'namesrv_job_state{namesrv_job_state="running"} 0.0',
            ):
                assert line in page, line

        counted()
        assert page_of(port, "/healthz") == "ok\n"
        assert page_of(port, "/readyz") == "ok\n", "for lookups"
        assert "not connected yet" in unreadiness(port, "/readyz/writes"), "no Kafka runs at the gateway's address"
        registry.give_sign(now_ms())
        said = ("namesrv_snapshot_stale 0.0\n", 'namesrv_job_state{namesrv_job_state="running"} 1.0\n')
        with kafka_tells():
            until(lambda: all(each in page_of(port, "/metrics") for each in said))


def test_a_gateway_without_tables_is_healthy_and_not_ready_and_finds_them_later(settings, request):
    port = free_ports(1)
    with BackgroundGateway(settings(metricsPort=port)) as running, Peer(running.gateway.port) as peer:
        until(lambda: "table snapshot is missing" in unreadiness(port))
        assert page_of(port, "/healthz") == "ok\n"
        assert peer.ask(105, topic="TopicA").code == 17
        request.getfixturevalue("registry").command(PutKvConfig(namespace="n", key="k", value="v"))
        until(lambda: peer.ask(101, namespace="n", key="k").ext_fields == {"value": "v"})
        assert peer.ask(105, topic="TopicA").code == 0


def page_of(port, path, host="127.0.0.1"):
    return urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=30).read().decode()


def unreadiness(port, page="/readyz"):
    """Reasons for which it answers 503."""
    with pytest.raises(urllib.error.HTTPError, match="503") as refused:
        page_of(port, page)
    return refused.value.read().decode()


def test_at_the_address_of_all_families_gateway_and_monitoring_answer_over_ipv4_and_ipv6(registry, settings):
    port = free_ports(1)
    given = settings(bindAddress="::", auth__mode="off", metricsPort=port)
    with BackgroundGateway(given) as running:
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, running.gateway.port), timeout=30) as peer:
                peer.sendall(LOOKUP)
                assert peer.recv(4)
                [connection] = running.gateway.connections.open
                assert connection.host == host
            assert page_of(port, "/healthz", f"[{host}]" if ":" in host else host) == "ok\n"
            until(lambda: not running.gateway.connections.open)
