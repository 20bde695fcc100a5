"""A peer that speaks RocketMQ's remoting over one blocking socket."""

from __future__ import annotations

import socket
import ssl

from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

LIMIT_S = 30.0


class Peer:
    """`host`: the address that it comes from, 127.0.0.0/8 being all ours.

    The socket is bound only if `host` is given: a bound port is free again a minute after the end of its connection.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, host: str | None = None) -> None:
        source = None if host is None else (host, 0)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S, source_address=source)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self._decoder = FrameDecoder()
        self._waiting: list[RemotingCommand] = []
        self._opaque = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes as a crashed process does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def send(self, code: int, body: bytes = b"", flag: int = 0, version: int = 493, **fields: object) -> int:
        self._opaque += 1
        texts = {name: str(said).lower() if isinstance(said, bool) else str(said) for name, said in fields.items()}
        command = RemotingCommand(
            code=code, opaque=self._opaque, flag=flag, version=version, ext_fields=texts or None, body=body
        )
        self.socket.sendall(encode_command(command))
        return self._opaque

    def receive(self) -> RemotingCommand:
        while not self._waiting:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the server has closed the connection")
            self._waiting = list(self._decoder.feed(data))
        return self._waiting.pop(0)

    def ask(self, code: int, body: bytes = b"", version: int = 493, **fields: object) -> RemotingCommand:
        opaque = self.send(code, body, version=version, **fields)
        answer = self.receive()
        assert answer.opaque == opaque
        return answer

    def is_closed_by_server(self) -> bool:
        """Return whether the server closes within the limit. Answers before that are skipped."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True
