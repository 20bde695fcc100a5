"""A peer that speaks RocketMQ's remoting over one blocking socket, in the words of tests."""

from __future__ import annotations

import ssl

from benchmarks import peers
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command


class Peer(peers.Peer):
    """`host`: the address that it comes from, 127.0.0.0/8 being all ours.

    The socket is bound only if `host` is given: a bound port is free again a minute after the end of its connection.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, host: str | None = None) -> None:
        super().__init__(port, host)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, code: int, body: bytes = b"", flag: int = 0, version: int = 493, **fields: object) -> int:
        self._opaque += 1
        texts = {name: str(said).lower() if isinstance(said, bool) else str(said) for name, said in fields.items()}
        command = RemotingCommand(
            code=code, opaque=self._opaque, flag=flag, version=version, ext_fields=texts or None, body=body
        )
        self.socket.sendall(encode_command(command))
        return self._opaque

    def ask(self, code: int, body: bytes = b"", version: int = 493, **fields: object) -> RemotingCommand:
        opaque = self.send(code, body, version=version, **fields)
        answer = self.receive()
        assert answer.opaque == opaque
        return answer
