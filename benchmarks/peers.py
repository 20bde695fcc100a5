"""Peers of a name server in one event loop, each with an address of its own out of 127.0.0.0/8."""

from __future__ import annotations

import asyncio
from typing import Self

from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

_CHUNK_BYTES = 64 * 1024


class AsyncPeer:
    """One connection, which is open within an `async with`."""

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
