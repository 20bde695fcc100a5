"""Serves the console, in this thread or beside other work."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import uvicorn

from namesrv_stream.access.exposure import is_loopback
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.app import make_app
from namesrv_stream.errors import NamesrvError
from namesrv_stream.texts import who_listens

log = logging.getLogger(__name__)

_START_LIMIT_S = 30.0
_STOP_LIMIT_S = 5
_BACKLOG = 2048


class ConsoleAddressError(NamesrvError):
    """The console cannot listen at console.bindAddress and console.port."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(
            f"cannot listen at {host}:{port} ({problem}). Set console.port or console.bindAddress, or stop what "
            f"listens there: {who_listens(port)} names it."
        )
        self.host = host
        self.port = port


class ConsoleStuckError(NamesrvError):
    """A console did not start within its limit, and raised no error."""

    def __init__(self) -> None:
        super().__init__(f"the console did not start within {_START_LIMIT_S:.0f} s. `py-spy dump` shows why.")


class ConsoleServer(uvicorn.Server):
    """A console's HTTP server. `url` is known before it serves, and the port is taken."""

    def __init__(self, settings: NamesrvSettings) -> None:
        """Raises SettingError, UsersFileError or ConsoleAddressError."""
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
        """Let SIGTERM and Ctrl-C end the serving in order, from now on. Call it in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals as they are: uvicorn would raise them again after the end, for a status other than 0."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the watches, which never end by themselves, and then all connections."""
        self._app.state.running.stop_watching()
        await super().shutdown(sockets)


class BackgroundConsole:
    """A console that runs in a thread of its own for as long as its `with` block."""

    def __init__(self, settings: NamesrvSettings) -> None:
        self.server = ConsoleServer(settings)
        self._thread = threading.Thread(target=self.server.serve_until_stopped, name="console", daemon=True)

    @property
    def url(self) -> str:
        """The console's URL, without a slash at the end."""
        return self.server.url

    def __enter__(self) -> Self:
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(_START_LIMIT_S * 100)):
            if self.server.started:
                return self
            waited.wait(0.01)
        raise ConsoleStuckError

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.server.should_exit = True
        self._thread.join(_START_LIMIT_S)


def _listening(settings: NamesrvSettings) -> socket.socket:
    host, port = settings.console_bind_address, settings.console_port
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ConsoleAddressError(host, port, str(error.strerror or error)) from error
    listening.listen(_BACKLOG)
    return listening
