"""What the gateway counts, for Prometheus, and /healthz beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

from namesrv_stream.wire.codes import RequestCode, ResponseCode

_CLOSE_LIMIT_S = 5.0
_REQUEST_LIMIT_S = 5.0
"""Requests are served one after the other: one that says nothing must not keep the next waiting, nor the end."""

_UNKNOWN = "unknown"
_BUCKETS_S = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 25)


class Metrics:
    """All of one gateway. Counters are for the event loop; the page is served by a thread of its own."""

    def __init__(self) -> None:
        of = self.registry = CollectorRegistry()
        self._requests = Counter("namesrv_requests", "Requests answered.", ["code", "result"], registry=of)
        self._seconds = Histogram(
            "namesrv_request_seconds", "From the request to its answer.", ["code"], buckets=_BUCKETS_S, registry=of
        )
        self.connections = Gauge("namesrv_connections", "Open connections.", registry=of)
        self.epoch = Gauge("namesrv_snapshot_epoch", "Epoch of the snapshot that is served.", registry=of)
        self.age_s = Gauge("namesrv_snapshot_age_seconds", "Since the served snapshot was published.", registry=of)
        self.is_stale = Gauge("namesrv_snapshot_stale", "1: brokers live and the job publishes nothing.", registry=of)
        self._brokers = Gauge("namesrv_brokers", "Live broker addresses.", ["cluster"], registry=of)
        self.records = Counter("namesrv_records", "Records that Kafka has acknowledged.", registry=of)
        self.kafka_errors = Counter("namesrv_kafka_errors", "Records that Kafka did not take.", ["error"], registry=of)
        self.records_waiting = Gauge("namesrv_records_waiting", "Records that wait for Kafka.", registry=of)
        self._not_allowed = Counter(
            "namesrv_not_allowed", "Requests whose sender lacked a right.", ["code", "user", "effect"], registry=of
        )
        self._of_code: dict[tuple[int, int], tuple[Counter, Histogram]] = {}

    def answered(self, code: int, result: int, seconds: float, times: int = 1) -> None:
        """Requests of one code that were answered alike, together."""
        of_code = self._of_code.get((code, result)) or self._labelled(code, result)
        of_code[0].inc(times)
        of_code[1].observe(seconds)

    def not_allowed(self, request: str, user: str | None, effect: str) -> None:
        """A request that was refused, or would have been (`effect`). `user` None: nobody of the users file."""
        self._not_allowed.labels(request, user or _UNKNOWN, effect).inc()

    def brokers(self, by_cluster: Mapping[str, int]) -> None:
        """How many live in each cluster now."""
        self._brokers.clear()
        for cluster, count in by_cluster.items():
            self._brokers.labels(cluster).set(count)

    def _labelled(self, code: int, result: int) -> tuple[Counter, Histogram]:
        name = _name(RequestCode, code)
        labelled = self._requests.labels(name, _name(ResponseCode, result)), self._seconds.labels(name)
        if name != _UNKNOWN:  # peers make up as many as they like
            self._of_code[code, result] = labelled
        return labelled


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    """One word for all unknown codes: peers must not make up labels."""
    return codes(code).name if code in codes.__members__.values() else _UNKNOWN


class MetricsServer:
    """Serves /metrics and /healthz until closed. `health` gives what is wrong, or None."""

    def __init__(self, metrics: Metrics, host: str, port: int, health: Callable[[], str | None]) -> None:
        page = make_wsgi_app(metrics.registry)

        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if environ["PATH_INFO"] != "/healthz":
                return page(environ, start_response)  # type: ignore[no-any-return]
            wrong = health()
            start_response("503 Service Unavailable" if wrong else "200 OK", [("Content-Type", "text/plain")])
            return [f"{wrong or 'ok'}\n".encode()]

        self._server: WSGIServer = make_server(host, port, answer, handler_class=_QuietHandler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def close(self) -> None:
        """Returns when it no longer listens."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_CLOSE_LIMIT_S)


class _QuietHandler(WSGIRequestHandler):
    timeout = _REQUEST_LIMIT_S

    def log_message(self, *_: object) -> None:
        """Says nothing: a scrape every few seconds is no event."""
