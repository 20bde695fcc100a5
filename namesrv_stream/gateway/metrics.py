"""The gateway's metrics for Prometheus, and the page /healthz."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

from namesrv_stream.gateway.admission import PeerLog
from namesrv_stream.wire.codes import RequestCode, ResponseCode

log = logging.getLogger(__name__)

_CLOSE_LIMIT_S = 5.0
REQUEST_LIMIT_S = 5.0
"""Limit from the connection to the end of its answer, whatever the client does meanwhile."""

MAX_REQUESTS = 32
"""Limit of requests at a time. One more ends the oldest, so that slow clients pay, not an orchestrator's check."""

MAX_CLUSTERS = 100
_MAX_LABEL_CHARS = 100
_OTHER_CLUSTERS = "(others)"

_UNKNOWN = "unknown"
_BUCKETS_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 25)


class Metrics:
    """The metrics of one gateway. The event loop counts; a thread of its own serves the page."""

    def __init__(self) -> None:
        of = self.registry = CollectorRegistry()
        self._requests = Counter("namesrv_requests", "Requests answered.", ["code", "result"], registry=of)
        self._seconds = Histogram(
            "namesrv_request_seconds", "From the request to its answer.", ["code"], buckets=_BUCKETS_S, registry=of
        )
        self.connections = Gauge("namesrv_connections", "Open connections.", registry=of)
        self.epoch = Gauge("namesrv_snapshot_epoch", "Epoch of the snapshot that is served.", registry=of)
        self.age_s = Gauge("namesrv_snapshot_age_seconds", "Since the served snapshot was published.", registry=of)
        self.lag_s = Gauge(
            "namesrv_registry_lag_seconds", "Event time between the newest record in the tables and now.", registry=of
        )
        self.is_stale = Gauge("namesrv_snapshot_stale", "1: brokers live and the tables are far behind.", registry=of)
        self._brokers = Gauge("namesrv_brokers", "Live broker addresses.", ["cluster"], registry=of)
        self.records = Counter("namesrv_records", "Records that Kafka has acknowledged.", registry=of)
        self.kafka_errors = Counter("namesrv_kafka_errors", "Records that Kafka did not take.", ["error"], registry=of)
        self.kafka_connected = Gauge("namesrv_kafka_connected", "1: Kafka takes records and ticks.", registry=of)
        self.records_waiting = Gauge("namesrv_records_waiting", "Records that wait for Kafka.", registry=of)
        self._not_allowed = Counter(
            "namesrv_not_allowed", "Requests whose sender lacked a right.", ["code", "user", "effect"], registry=of
        )
        self._of_code: dict[tuple[int, int], tuple[Counter, Histogram]] = {}

    def answered(self, code: int, result: int, seconds: float, times: int = 1) -> None:
        """Count `times` requests of one code that got the same result; `seconds` is one observation for all of them."""
        of_code = self._of_code.get((code, result)) or self._labelled(code, result)
        of_code[0].inc(times)
        of_code[1].observe(seconds)

    def not_allowed(self, request: str, user: str | None, effect: str) -> None:
        """Count a request that was refused, or would have been (`effect`). `user`: None if the sender is unknown."""
        self._not_allowed.labels(request, user or _UNKNOWN, effect).inc()

    def brokers(self, by_cluster: Mapping[str, int]) -> None:
        """Set the number of live brokers of each cluster.

        Peers can make up clusters, so only the MAX_CLUSTERS largest have a line each; the others share one.
        """
        largest = sorted(by_cluster.items(), key=lambda each: -each[1])
        shown = {cluster[:_MAX_LABEL_CHARS]: count for cluster, count in largest[:MAX_CLUSTERS]}
        if others := largest[MAX_CLUSTERS:]:
            shown[_OTHER_CLUSTERS] = sum(count for _, count in others)
        self._brokers.clear()
        for cluster, count in shown.items():
            self._brokers.labels(cluster).set(count)

    def _labelled(self, code: int, result: int) -> tuple[Counter, Histogram]:
        name = _name(RequestCode, code)
        labelled = self._requests.labels(name, _name(ResponseCode, result)), self._seconds.labels(name)
        if name != _UNKNOWN:  # peers can make up any number of codes
            self._of_code[code, result] = labelled
        return labelled


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    """Return the code's name, or one word for all unknown codes: peers must not make up labels."""
    return codes(code).name if code in codes.__members__.values() else _UNKNOWN


class MetricsServer:
    """Serves /metrics and /healthz until it is closed. `health` returns the problem, or None."""

    def __init__(self, metrics: Metrics, host: str, port: int, health: Callable[[], str | None]) -> None:
        page = make_wsgi_app(metrics.registry)

        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if environ["PATH_INFO"] != "/healthz":
                return page(environ, start_response)  # type: ignore[no-any-return]
            wrong = health()
            start_response("503 Service Unavailable" if wrong else "200 OK", [("Content-Type", "text/plain")])
            return [f"{wrong or 'ok'}\n".encode()]

        self._server: WSGIServer = make_server(host, port, answer, _Server, _QuietHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port at which the server listens."""
        return self._server.server_port

    def close(self) -> None:
        """Stop listening, and wait for the server's thread, 5 s at most."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_CLOSE_LIMIT_S)


class _Server(ThreadingMixIn, WSGIServer):
    """Handles each request in a thread of its own, so that no client waits for another.

    Beyond MAX_REQUESTS at a time or REQUEST_LIMIT_S a request is ended.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, *args: Any, **more: Any) -> None:
        self._began_s: dict[socket.socket, float] = {}
        self._log = PeerLog(log)
        super().__init__(*args, **more)

    def process_request(self, request: Any, client_address: Any) -> None:
        while len(self._began_s) >= MAX_REQUESTS:
            self._cut(next(iter(self._began_s)))
        self._began_s[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End overdue requests, and log how many lines were left out. serve_forever calls this twice a second."""
        now_s = time.monotonic()
        self._log.sum_up(now_s)
        for request in [each for each, began_s in list(self._began_s.items()) if now_s - began_s > REQUEST_LIMIT_S]:
            self._cut(request)

    def shutdown_request(self, request: Any) -> None:
        self._began_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: a client that disconnects, or is cut off, is no event."""

    def _cut(self, request: socket.socket) -> None:
        """Shut the request's socket down. That wakes the request's thread, which ends the request."""
        self._began_s.pop(request, None)
        with suppress(OSError):
            host = request.getpeername()[0]
            message = f"metrics: a request of {host} is cut off: it is slow, or one of over {MAX_REQUESTS} at a time"
            self._log.line(host, time.monotonic(), logging.WARNING, message)
            request.shutdown(socket.SHUT_RDWR)


class _QuietHandler(WSGIRequestHandler):
    timeout = REQUEST_LIMIT_S

    def log_message(self, *_: object) -> None:
        """Log nothing: a scrape every few seconds is no event."""
