"""Serve /metrics, /healthz and /readyz of one process: prometheus_client's server, with limits for each client."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

import psutil
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.exposition import ThreadingWSGIServer

from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.logs import PeerLog
from namesrv_stream.reporting.texts import port_owner_command

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Returns the problem, None if there is none. A text that begins with "ok" is answered with 200."""

REQUEST_LIMIT_S = 5.0
"""Time from a connection to the end of its answer after which the request is ended, whatever the client does."""

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
MAX_A_SECOND = 50
"""Limit of one host's requests in a second. Any request takes 1 to 2 ms of the interpreter."""

MAX_REQUESTS = 32
"""Limit of requests at a time. One more ends the oldest, so slow clients do not keep out an orchestrator's check."""


MAX_CLUSTERS = 100
_MAX_LABEL_CHARS = 100
_OTHER_CLUSTERS = "(others)"


def bounded(by_cluster: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of clusters as labels may have them.

    Peers can invent clusters, so only the MAX_CLUSTERS largest have a line each; the others share one.
    """
    largest = sorted(by_cluster.items(), key=lambda each: -each[1])
    shown = {cluster[:_MAX_LABEL_CHARS]: count for cluster, count in largest[:MAX_CLUSTERS]}
    if others := largest[MAX_CLUSTERS:]:
        shown[_OTHER_CLUSTERS] = sum(count for _, count in others)
    return shown


def add_process_metrics(registry: CollectorRegistry, namespace: str = "", pid: int | None = None) -> None:
    """Add descriptors and their limit, threads, resident memory and CPU time of this process, or of another one here.

    The names are those of Prometheus's own clients, with `namespace` before them.
    """
    ProcessCollector(namespace, lambda: pid or "self", registry=registry)
    process = psutil.Process(pid)

    def threads() -> float:
        try:
            return float(process.num_threads())
        except psutil.Error:  # it has ended
            return 0.0

    number = Gauge("process_threads", "Number of threads.", namespace=namespace, registry=registry)
    number.set_function(threads)


class MonitoringServer(ThreadingWSGIServer):
    """Serves the pages until it is closed, each request in a thread of its own, so that no client waits for another.

    Such a thread calls the checks. /healthz is for an orchestrator that restarts the process, /readyz for one that
    sends it requests. Beyond MAX_REQUESTS at a time or REQUEST_LIMIT_S a request is ended; beyond MAX_A_SECOND of a
    host it is refused.
    """

    request_queue_size = 128

    def __init__(
        self, registry: CollectorRegistry, address: tuple[str, int], setting: str, checks: Mapping[str, Check]
    ) -> None:
        """Raise NamesrvError if it cannot listen; `setting` is the key of the setting that names the port."""
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._began_s: dict[socket.socket, float] = {}
        self._of_host: Counter[str] = Counter()
        self._second = 0
        self._log = PeerLog(log)
        try:
            super().__init__(address, _QuietHandler)
        except OSError as error:
            raise NamesrvError(
                f"cannot serve metrics at port {address[1]}: {os.strerror(error.errno or 0).lower()}. Find the process "
                f"there with {port_owner_command(address[1])} and stop it, or set {setting} to another port or 0."
            ) from error
        self.set_app(_application(registry, checks))
        threading.Thread(target=self.serve_forever, name="monitoring", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  # socketserver's contract
        """Return whether this host has made at most MAX_A_SECOND requests in this second."""
        host, now_s = client_address[0], time.monotonic()
        if int(now_s) != self._second:
            self._second = int(now_s)
            self._of_host.clear()
        self._of_host[host] += 1
        if self._of_host[host] <= MAX_A_SECOND:
            return True
        self._log.line(
            host, now_s, logging.WARNING, f"metrics request of {host} rejected: over {MAX_A_SECOND} in a second"
        )
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a request, and end the oldest one if that makes too many."""
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
        """Close a request that has ended."""
        self._began_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: a client that disconnects, or is cut off, is no event."""

    def _cut(self, request: socket.socket) -> None:
        """Shut the request's socket down. That wakes the request's thread, which ends the request."""
        self._began_s.pop(request, None)
        with suppress(OSError):
            host = request.getpeername()[0]
            self._log.line(
                host,
                time.monotonic(),
                logging.WARNING,
                f"metrics request of {host} ended early: it is slow, or one of over {MAX_REQUESTS} at a time",
            )
            request.shutdown(socket.SHUT_RDWR)


def _application(registry: CollectorRegistry, checks: Mapping[str, Check]) -> Callable[..., Iterable[bytes]]:
    """Return the WSGI application. The page of metrics holds the interpreter's lock for some 20 ms, so it is kept."""
    lock = threading.Lock()

    @lru_cache(maxsize=1)
    def page(_second: int) -> bytes:
        return generate_latest(registry)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        check = checks.get(environ["PATH_INFO"])
        if check is None:
            start_response("200 OK", [("Content-Type", PROMETHEUS_TEXT)])
            with lock:
                return [page(int(time.monotonic()))]
        wrong = check()
        is_wrong = wrong and not wrong.startswith("ok")
        start_response("503 Service Unavailable" if is_wrong else "200 OK", [("Content-Type", "text/plain")])
        return [f"{wrong or 'ok'}\n".encode()]

    return answer


def require_port(address: tuple[str, int], setting: str) -> None:
    """Raise NamesrvError if the pages cannot be served there; port 0 serves none. So a start fails before it costs."""
    if address[1]:
        MonitoringServer(CollectorRegistry(), address, setting, {}).close()


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Log nothing: a scrape every few seconds is no event."""
