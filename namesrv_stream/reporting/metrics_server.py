"""Serve /metrics, /healthz and /readyz of one process, to clients that may be slow or many."""

from __future__ import annotations

import io
import logging
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import psutil
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.peer_log import PeerLog

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Returns the problem, None if there is none."""

_CLOSE_LIMIT_S = 5.0
REQUEST_LIMIT_S = 5.0
"""Limit from the connection to the end of its answer, whatever the client does meanwhile."""

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
MAX_A_SECOND = 50
"""Limit of one host's requests in a second. Each takes 1 to 2 ms of the interpreter, whatever it asks for."""

PAGE_AGE_S = 1.0
"""The page of metrics is this old at most."""

MAX_REQUESTS = 32
"""Limit of requests at a time. One more ends the oldest, so that slow clients pay, not an orchestrator's check."""


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


class MonitoringAddressError(NamesrvError):
    """The monitoring pages cannot be served at the port that `setting` names."""

    def __init__(self, port: int, setting: str, problem: str) -> None:
        super().__init__(f"metrics cannot be served at port {port}: {problem}. Set {setting} to another, or 0.")
        self.port = port
        self.setting = setting


class MonitoringServer:
    """Serves the pages until it is closed. A thread of the server calls `health` and `readiness`.

    `health` is for an orchestrator that restarts the process, `readiness` for one that sends it requests. Raises
    MonitoringAddressError if it cannot listen; `setting` is the key of the setting that names the port.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        address: tuple[str, int],
        setting: str,
        checks: Mapping[str, Check],
    ) -> None:
        page = _Page(registry)

        def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            check = checks.get(environ["PATH_INFO"])
            if check is None:
                start_response("200 OK", [("Content-Type", PROMETHEUS_TEXT)])
                return [page.text()]
            wrong = check()
            start_response("503 Service Unavailable" if wrong else "200 OK", [("Content-Type", "text/plain")])
            return [f"{wrong or 'ok'}\n".encode()]

        try:
            self._server: WSGIServer = make_server(*address, answer, _Server, _QuietHandler)
        except OSError as error:
            raise MonitoringAddressError(address[1], setting, str(error)) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="monitoring", daemon=True)
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


class _Page:
    """The page of metrics. It is made once a second at most: that holds the interpreter's lock for some 20 ms."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._text = b""
        self._made_s = -math.inf

    def text(self) -> bytes:
        with self._lock:
            if time.monotonic() - self._made_s > PAGE_AGE_S:
                self._text = generate_latest(self._registry)
                self._made_s = time.monotonic()
            return self._text


class _Server(ThreadingMixIn, WSGIServer):
    """Handles each request in a thread of its own, so that no client waits for another.

    Beyond MAX_REQUESTS at a time or REQUEST_LIMIT_S a request is ended; beyond MAX_A_SECOND of a host it is refused.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, *args: Any, **more: Any) -> None:
        self._began_s: dict[socket.socket, float] = {}
        self._of_host: Counter[str] = Counter()
        self._second = 0
        self._log = PeerLog(log)
        self.address_family = socket.AF_INET6 if ":" in args[0][0] else socket.AF_INET
        super().__init__(*args, **more)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  # socketserver's contract
        """Return whether this host has asked seldom enough in this second."""
        host, now_s = client_address[0], time.monotonic()
        if int(now_s) != self._second:
            self._second = int(now_s)
            self._of_host.clear()
        self._of_host[host] += 1
        if self._of_host[host] <= MAX_A_SECOND:
            return True
        self._log.line(
            host, now_s, logging.WARNING, f"metrics: a request of {host} is refused: over {MAX_A_SECOND} in a second"
        )
        return False

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
            self._log.line(
                host,
                time.monotonic(),
                logging.WARNING,
                f"metrics: a request of {host} is cut off: it is slow, or one of over {MAX_REQUESTS} at a time",
            )
            request.shutdown(socket.SHUT_RDWR)


class _Lines(io.BufferedReader):
    """The bytes of a request. `last`: the line that was read last."""

    last = b""

    def readline(self, size: int | None = -1, /) -> bytes:
        self.last = super().readline(size)
        return self.last


class _QuietHandler(WSGIRequestHandler):
    timeout = REQUEST_LIMIT_S

    def setup(self) -> None:
        super().setup()
        self.rfile = self._lines = _Lines(self.connection.makefile("rb", buffering=0))

    def parse_request(self) -> bool:
        """Read the header. One that was cut off, or that the client has not ended, gets no page."""
        return super().parse_request() and self._lines.last in {b"\r\n", b"\n"}

    def log_message(self, *_: object) -> None:
        """Log nothing: a scrape every few seconds is no event."""
