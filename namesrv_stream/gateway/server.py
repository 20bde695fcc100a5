"""The listening socket and all its connections, which it closes in order when it stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.connection import Connection, Connections
from namesrv_stream.gateway.dispatcher import Dispatcher
from namesrv_stream.reporting.texts import port_owner_command

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

_FILES_RESERVE = 256
"""File descriptors kept free of connections: for Kafka, the tables, the log and the metrics."""

_ANSWER_LIMIT_S = 3.0


class Server:
    """RocketMQ's remoting server for `requests`. Lives in the event loop."""

    def __init__(self, settings: NamesrvSettings, requests: Dispatcher) -> None:
        self._settings = settings
        self._requests = requests
        self.connections = Connections(settings, _connection_limit(settings))
        self._server: asyncio.Server

    @property
    def port(self) -> int:
        """The port at which the server listens, also if listenPort is 0."""
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen for connections. Raises NamesrvError if it cannot."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._requests, self.connections),
            sock=self._socket(),
            backlog=self._settings.server_socket_backlog,
        )

    async def stop(self) -> None:
        """Accept no more connections, wait up to 3 s for outstanding answers, and close all connections."""
        self._server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                while not all(connection.has_no_pending for connection in self.connections.open):
                    await asyncio.sleep(0.02)
        for connection in list(self.connections.open):
            connection.close()
        await asyncio.sleep(0)  # the transports close in the next turn of the loop

    def _socket(self) -> socket.socket:
        settings = self._settings
        host, port = settings.bind_address, settings.listen_port
        is_ipv6 = ":" in host
        family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family, dualstack_ipv6=is_ipv6)
        except OSError as error:
            raise NamesrvError(
                f"the gateway cannot listen at {host}:{port}: {os.strerror(error.errno or 0).lower()}. Find the "
                f"process there with {port_owner_command(port)} and stop it, or set listenPort or bindAddress."
            ) from error
        sizes = {
            socket.SO_SNDBUF: settings.server_socket_snd_buf_size,
            socket.SO_RCVBUF: settings.server_socket_rcv_buf_size,
        }
        for option, size_bytes in sizes.items():
            if size_bytes > 0:  # accepted sockets inherit it from the listening one
                listening.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        return listening


def _connection_limit(settings: NamesrvSettings) -> int:
    """Return maxConnections, or fewer if this process may not open as many files.

    Sets the process's soft limit of open files as high as is needed and allowed.
    """
    wanted = settings.max_connections
    if resource is None:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _FILES_RESERVE
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    limit = max(1, soft - _FILES_RESERVE)
    log.warning("the gateway limits maxConnections to %d, because this process may open only %d files. Raise "
                "`ulimit -n`.", limit, soft)  # fmt: skip
    return limit
