"""One connection to a name server: it sends and receives frames of RocketMQ's remoting."""

from __future__ import annotations

import socket

from namesrv_stream.tools.local.ports import HOST
from namesrv_stream.wire.codes import Flag
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

LIMIT_S = 30.0
"""Longest time for an answer: a broker waits 24 s for a registration."""


class Peer:
    """The connection of a broker or a client to its name server, over one blocking socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder()
        self._received: list[RemotingCommand] = []
        self._opaque = 0

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        """Send a request and return its answer."""
        self._send(command)
        while not self._received:
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError("the server has closed the connection")
            self._received = list(self._decoder.feed(data))
        return self._received.pop(0)

    def send_oneway(self, command: RemotingCommand) -> None:
        """Send a request that is not answered."""
        self._send(command, Flag.ONEWAY)

    def send_raw(self, data: bytes) -> None:
        """Send bytes that need not be a frame."""
        self._socket.sendall(data)

    def is_closed_by_server(self, limit_s: float = LIMIT_S) -> bool:
        """Return whether the server closes the connection within the limit. Bytes before that are read and dropped."""
        self._socket.settimeout(limit_s)
        try:
            while self._socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        finally:
            self._socket.settimeout(LIMIT_S)
        return True

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _send(self, command: RemotingCommand, flag: int = 0) -> None:
        self._opaque += 1
        frame = RemotingCommand(
            code=command.code,
            version=command.version,
            opaque=self._opaque,
            flag=flag,
            ext_fields=command.ext_fields,
            body=command.body,
        )
        self._socket.sendall(encode_command(frame))
