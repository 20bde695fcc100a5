"""The command `namesrv-stream console`: the registry over HTTP, and a page that shows it at any moment.

The ASGI application has the API, the page, probes and metrics, and the guard in front of all of them.
"""

from __future__ import annotations

import logging
import signal
import socket
import time
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import click
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from namesrv_stream import __version__
from namesrv_stream.access.rights import is_loopback
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.console import api
from namesrv_stream.console.guard import Forwarded, Guard, Head
from namesrv_stream.console.problems import SHAPES, on_error
from namesrv_stream.console.running import Running
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.reporting.metrics_server import PROMETHEUS_TEXT, add_process_metrics
from namesrv_stream.reporting.texts import port_owner_command

log = logging.getLogger(__name__)

_STOP_LIMIT_S = 5
_BACKLOG = 2048
PAGE = Path(__file__).parent / "page"

_WORTH_COMPRESSING = 1_000
"""Bytes of an answer from which on it is compressed."""


def make_app(settings: NamesrvSettings) -> FastAPI:
    """Return the application. Raises SettingError."""
    running = Running(settings)
    app = FastAPI(
        title="namesrv-stream",
        version=__version__,
        description="Routes of RocketMQ topics at any moment, their history, and pushed changes.",
        openapi_url=None,  # FastAPI's own lists a server for a path below which it is called beside the one given here
        docs_url=None,  # its page loads scripts from the internet
        redoc_url=None,
        lifespan=lambda _app: running.serving(),
        dependencies=[Depends(api.check_parameters)],
        openapi_tags=[{"name": name, "description": text} for name, text in api.TAGS.items()],
    )
    app.state.running = running
    app.include_router(api.router)
    app.include_router(_probes)
    app.add_route("/v1/openapi.json", _description)
    app.add_api_route("/docs", _docs, include_in_schema=False)
    app.openapi()["components"] = {"schemas": SHAPES, "securitySchemes": {"keys": {"type": "http", "scheme": "basic"}}}
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    for kind in (NamesrvError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, on_error)
    app.add_middleware(Head)
    app.add_middleware(GZipMiddleware, minimum_size=_WORTH_COMPRESSING, compresslevel=5)
    app.add_middleware(Guard, names=[*settings.console_hosts.split(","), settings.console_bind_address.lower()])
    app.add_middleware(
        Forwarded,
        proxies=settings.console_trusted_proxies,
        base=settings.console_base_path,
        user=settings.console_user_header,
    )
    return app


async def _description(request: Request) -> Response:
    """Return the description, whose server is the path below which the console is asked."""
    server = {"url": request.scope.get("root_path") or "/"}
    return JSONResponse(request.app.openapi() | {"servers": [server]})


async def _docs() -> Response:
    return FileResponse(PAGE / "docs.html")


_probes = APIRouter(include_in_schema=False)

_OF_PROCESS = CollectorRegistry()
add_process_metrics(_OF_PROCESS)


@_probes.get("/healthz")
async def healthz() -> PlainTextResponse:
    """Answer 200 while the event loop runs."""
    return PlainTextResponse("ok\n")


@_probes.get("/readyz")
async def readyz(request: Request) -> PlainTextResponse:
    """Answer 200 once a snapshot is served, and 503 before. Damaged tables are named, and answered from memory."""
    running: Running = request.app.state.running
    if running.hub.has_view.is_set():
        return PlainTextResponse(f"ok, but {running.damage.problem}\n" if running.damage.problem else "ok\n")
    return PlainTextResponse("no snapshot has been read yet\n", HTTPStatus.SERVICE_UNAVAILABLE)


_unknown_s = Gauge(
    "namesrv_console_registry_unknown_seconds",
    "For how long the present is not known; 0: the job runs.",
    registry=_OF_PROCESS,
)
_tables_damaged = Gauge(
    "namesrv_console_tables_damaged", "1: a file of the tables is missing or cut.", registry=_OF_PROCESS
)


@_probes.get("/metrics")
def metrics(request: Request) -> Response:
    """Return whether the present is known and the tables are whole, the health line's figures, and this process's."""
    running: Running = request.app.state.running
    doubt = running.doubt
    _unknown_s.set(0 if doubt is None else time.time() - doubt.since_ms / 1000)
    _tables_damaged.set(running.damage.is_damaged)
    return Response(generate_latest(_OF_PROCESS) + generate_latest(running.metrics), media_type=PROMETHEUS_TEXT)


class ConsoleServer(uvicorn.Server):
    """A console's HTTP server. From construction on it holds its port, and `url` is known."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Open the port. Raises SettingError, and NamesrvError if another process has the port."""
        self._app = make_app(settings)
        self._socket = _listening(settings)
        has_tls = bool(settings.tls_cert_path) and settings.tls_mode != "disabled"
        host = settings.console_bind_address
        if not has_tls and not is_loopback(host) and settings.auth_mode != "off":
            log.warning("the console sends and takes keys in plain text: set tls.server.certPath and keyPath")
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if has_tls else 'http'}://{shown}:{self._socket.getsockname()[1]}"
        super().__init__(
            uvicorn.Config(
                self._app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # the class Forwarded applies them, by console.trustedProxies
                timeout_graceful_shutdown=_STOP_LIMIT_S,
                ssl_certfile=settings.tls_cert_path if has_tls else None,
                ssl_keyfile=settings.tls_key_path if has_tls else None,
                ssl_keyfile_password=(settings.tls_key_password or None) if has_tls else None,
            )
        )

    def serve_until_stopped(self) -> None:
        """Serve until `should_exit` is set, or a signal comes after `stop_on_signals`."""
        self.run(sockets=[self._socket])
        log.info("the console has stopped")

    def stop_on_signals(self) -> None:
        """Let SIGTERM and Ctrl-C end the serving in order, from now on. Call it in the main thread.

        uvicorn raises the signal again after its end. With these handlers that has no effect.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the watches, which never end by themselves, and then all connections."""
        self._app.state.running.stop_watching()
        await super().shutdown(sockets)


def _listening(settings: NamesrvSettings) -> socket.socket:
    host, port = settings.console_bind_address, settings.console_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=family is socket.AF_INET6
        )
    except OSError as error:
        problem = str(error.strerror).partition(" (while ")[0]
        raise NamesrvError(
            f"the console cannot listen at {host}:{port}: {problem.lower()}. Find the process there with "
            f"{port_owner_command(port)} and stop it, or set console.port or console.bindAddress."
        ) from error


@click.command("console")
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="Settings, Java properties.")
@click.pass_obj
def console(invocation: Invocation, file: Path | None) -> None:
    """Serve the page and the HTTP API at console.port, until SIGTERM or Ctrl-C.

    Several may run side by side. While Kafka is unreachable or the job is not running, answers are from the last
    snapshot.
    """
    settings = replace(invocation, file=file or invocation.file).settings
    set_up_logging(log_format=settings.log_format)
    server = ConsoleServer(settings)
    server.stop_on_signals()
    click.echo(f"console: {server.url}/")
    server.serve_until_stopped()
