"""`namesrv-stream console`: the registry over HTTP, and a page that shows it at any moment."""

from __future__ import annotations

import logging
import signal
import socket
from dataclasses import replace
from pathlib import Path

import click
import uvicorn

from namesrv_stream.access.addresses import is_loopback
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.console.app import make_app
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.reporting.texts import who_listens

log = logging.getLogger(__name__)

_STOP_LIMIT_S = 5
_BACKLOG = 2048


class ConsoleServer(uvicorn.Server):
    """A console's HTTP server. `url` is known before it serves, and the port is taken."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Raises SettingError, and NamesrvError if the port is taken."""
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
                proxy_headers=False,  # console.trustedProxies says whose headers count
                timeout_graceful_shutdown=_STOP_LIMIT_S,
                ssl_certfile=settings.tls_cert_path if has_tls else None,
                ssl_keyfile=settings.tls_key_path if has_tls else None,
                ssl_keyfile_password=(settings.tls_key_password or None) if has_tls else None,
            )
        )

    def serve_until_stopped(self) -> None:
        """Serve until `should_exit` is set, or a signal comes after `stop_on_signals`."""
        self.run(sockets=[self._socket])
        log.info("the console has stopped in order")

    def stop_on_signals(self) -> None:
        """Let SIGTERM and Ctrl-C end the serving in order, from now on. Call it in the main thread.

        uvicorn raises the signal again after the end: with these handlers, that changes nothing.
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
        raise NamesrvError(
            f"cannot listen at {host}:{port} ({error.strerror or error}). Set console.port or console.bindAddress, or "
            f"stop what listens there: {who_listens(port)} names it."
        ) from error


@click.command("console")
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="Settings, Java properties.")
@click.pass_obj
def console(invocation: Invocation, file: Path | None) -> None:
    """Serve the page and the HTTP API at console.port, until SIGTERM or Ctrl-C.

    Several may run side by side. Kafka and the job may be away: answers are from the last snapshot.
    """
    settings = replace(invocation, file=file or invocation.file).settings
    set_up_logging(log_format=settings.log_format)
    server = ConsoleServer(settings)
    server.stop_on_signals()
    click.echo(f"console: {server.url}/")
    server.serve_until_stopped()
