"""The listening socket: accepts connections, closes idle ones, stops in order."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.admission import connection_limit
from namesrv_stream.gateway.connection import Connection
from namesrv_stream.gateway.connections import Connections, PeerLimits, Requests
from namesrv_stream.gateway.tls import Certificates
from namesrv_stream.reporting.texts import who_listens

_SWEEP_EVERY_S = 1.0
_ANSWER_LIMIT_S = 3.0


class AddressInUseError(NamesrvError):
    """The gateway cannot listen at bindAddress and listenPort."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(
            f"cannot listen at {host}:{port} ({problem}). Set listenPort or bindAddress, or stop what listens there: "
            f"{who_listens(port)} names it."
        )
        self.host = host
        self.port = port


class Server:
    """RocketMQ's remoting server for `requests`. Lives in the event loop."""

    def __init__(self, settings: NamesrvSettings, requests: Requests) -> None:
        self._settings = settings
        self._requests = requests
        limits = PeerLimits(
            connection_limit(settings),
            settings.max_connections_per_address,
            settings.peer_buffer_max_bytes,
            settings.proxy_protocol_trusted,
        )
        self.connections = Connections(Certificates(settings), settings.tls_mode, limits)
        self._server: asyncio.Server
        self._sweeper: asyncio.Task[None]

    @property
    def port(self) -> int:
        """The port at which the server listens, also if listenPort is 0."""
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen for connections. Raises AddressInUseError."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._requests, self.connections),
            sock=self._socket(),
            backlog=self._settings.server_socket_backlog,
        )
        self._sweeper = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Accept no more connections, wait up to 3 s for outstanding answers, and close all connections."""
        self._sweeper.cancel()
        self._server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                while not all(connection.is_answered for connection in self.connections.open):
                    await asyncio.sleep(0.02)
        for connection in list(self.connections.open):
            connection.close()
        await asyncio.sleep(0)  # the transports close in the next turn of the loop

    def _socket(self) -> socket.socket:
        settings = self._settings
        family = socket.AF_INET6 if ":" in settings.bind_address else socket.AF_INET
        listening = socket.socket(family)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sizes = {
            socket.SO_SNDBUF: settings.server_socket_snd_buf_size,
            socket.SO_RCVBUF: settings.server_socket_rcv_buf_size,
        }
        for option, size_bytes in sizes.items():
            if size_bytes > 0:  # accepted sockets inherit it from the listening one
                listening.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        try:
            listening.bind((settings.bind_address, settings.listen_port))
        except OSError as error:
            listening.close()
            raise AddressInUseError(settings.bind_address, settings.listen_port, str(error.strerror)) from error
        return listening

    async def _sweep(self) -> None:
        limit_s = self._settings.server_channel_max_idle_time_seconds
        while True:
            await asyncio.sleep(_SWEEP_EVERY_S)
            self.connections.look_around(asyncio.get_running_loop().time(), limit_s)
