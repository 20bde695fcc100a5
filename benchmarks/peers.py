"""Peers of a name server: their registrations and connections, each from an address of its own out of 127.0.0.0/8."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Self

from benchmarks.registration_body import encode_registration
from namesrv_stream.rules.record_types import DataVersion, TopicConfig
from namesrv_stream.tools.local.process import HOST
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import RegisterBrokerHeader, header_fields
from namesrv_stream.wire.registration_request import (
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
    body_crc32,
)
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

LIMIT_S = 30.0
"""Longest time for an answer: a broker waits 24 s for a registration."""
NOW_MS = 1_800_000_000_000
_CHUNK_BYTES = 64 * 1024


def registration(broker: int, topics: int, counter: int = 1, cluster: str = "c") -> RemotingCommand:
    """Return the registration of a 5.x master with that many topics. `counter` is in its version and in one topic."""
    table = {f"topic-{number:05}": TopicConfig(8, 8, 6) for number in range(topics)}
    table["topic-00000"] = TopicConfig(8 + counter % 2, 8, 6)
    header = RegisterBrokerHeader(
        broker_name=f"{cluster}-{broker}",
        broker_addr=f"10.0.{broker // 256}.{broker % 256}:{10_000 + topics}",
        cluster_name=cluster,
        ha_server_addr="10.0.0.1:10912",
        broker_id=0,
        enable_acting_master=False,
    )
    return registration_of(header, table, counter)


def registration_of(  # noqa: PLR0913  # all that a broker chooses
    header: RegisterBrokerHeader,
    topics: Mapping[str, TopicConfig],
    counter: int,
    *,
    version: int = 493,
    started_ms: int = NOW_MS,
    filter_servers: list[str] | None = None,
) -> RemotingCommand:
    """Return the registration with this header, its checksum added. The data version has `started_ms` and `counter`."""
    wrapper = TopicConfigSerializeWrapper(DataVersion(0, started_ms, counter), dict(topics))
    body = encode_registration(RegisterBrokerBody(wrapper, filter_servers), version, compressed=header.compressed)
    fields = header_fields(header) | {
        "bodyCrc32": str(body_crc32(body)),
        "compressed": str(header.compressed).lower(),
        "brokerId": str(header.broker_id),
    }
    return RemotingCommand(code=RequestCode.REGISTER_BROKER, version=version, ext_fields=fields, body=body)


class Peer:
    """The connection of a broker or a client to its name server, over one blocking socket.

    `host`: the address from which it connects. `limit_s`: longest time for an answer.
    """

    def __init__(self, port: int, host: str | None = None, limit_s: float = LIMIT_S) -> None:
        source = None if host is None else (host, 0)
        self.socket = socket.create_connection((HOST, port), timeout=limit_s, source_address=source)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder()
        self._received: list[RemotingCommand] = []
        self._opaque = 0

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        """Send a request and return its answer."""
        self._send(command)
        return self.receive()

    def receive(self) -> RemotingCommand:
        """Return the next answer."""
        while not self._received:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError("the server has closed the connection")
            self._received = list(self._decoder.feed(data))
        return self._received.pop(0)

    def send_raw(self, data: bytes) -> None:
        """Send bytes that need not be a frame."""
        self.socket.sendall(data)

    def is_closed_by_server(self, limit_s: float = LIMIT_S) -> bool:
        """Return whether the server closes the connection within the limit. Bytes before that are read and dropped."""
        self.socket.settimeout(limit_s)
        try:
            while self.socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        finally:
            self.socket.settimeout(LIMIT_S)
        return True

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

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
        self.socket.sendall(encode_command(frame))


class AsyncPeer:
    """One connection in an event loop, which is open within an `async with`."""

    def __init__(self, port: int, host: str) -> None:
        self._port = port
        self._host = host
        self._decoder = FrameDecoder()
        self._received: list[RemotingCommand] = []
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(self._host, 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        """Send bytes and return when the system has accepted them; this waits while the server does not read."""
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, command: RemotingCommand) -> RemotingCommand:
        """Send a request and return its answer. Raises ConnectionError if the server closes the connection instead."""
        await self.send(encode_command(command))
        return await self.receive()

    async def receive(self) -> RemotingCommand:
        """Return the next answer."""
        while not self._received:
            data = await self.reader.read(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError("the server has closed the connection")
            self._received = list(self._decoder.feed(data))
        return self._received.pop(0)

    async def closed(self) -> None:
        """Read and drop bytes until the server closes the connection."""
        while await self.reader.read(_CHUNK_BYTES):
            pass
