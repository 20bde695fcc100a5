"""Ten kinds of hostile peers at once, each from an address of its own, in a process of its own.

python -m benchmarks.attacks PORT METRICS_PORT
"""

from __future__ import annotations

import asyncio
import itertools
import struct
import sys
import zlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import cache
from typing import NamedTuple

from benchmarks.good_peers import BROKER_TOPICS, CLUSTER
from benchmarks.hostile_bytes import HEADERS, MIB, framed, requests, unfinished
from benchmarks.peers import AsyncPeer, registration
from benchmarks.registration_body import encode_registration
from namesrv_stream.errors import FrameError
from namesrv_stream.rules.record_types import DataVersion, TopicConfig
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.registration_request import (
    MAX_TOPICS,
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
)
from namesrv_stream.wire.remoting_command import MAX_HEADER_FIELDS, RemotingCommand, encode_command

_PAUSE_S = 0.05
"""Time before a peer whose connection was closed connects again."""

_numbers = itertools.count()

Attack = Callable[[int, str], Awaitable[None]]


class Kind(NamedTuple):
    """One kind of hostile peer and its number of connections at a time."""

    name: str
    connections: int
    attack: Attack


def _frame(code: int, body: bytes = b"", **fields: str) -> bytes:
    return encode_command(RemotingCommand(code=code, ext_fields=fields or None, body=body))


async def asks_and_does_not_read(port: int, host: str) -> None:
    """Send pipelined requests with large answers, and read none of them."""
    async with AsyncPeer(port, host) as peer:
        peer.writer.transport.set_write_buffer_limits(0)
        # asyncio has no public way not to read
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001
        while True:
            await peer.send(_frame(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) * 1_000)
            await peer.send(_frame(RequestCode.GET_TOPICS_BY_CLUSTER, cluster=f"made-up-{next(_numbers)}") * 1_000)


async def registers_bombs(port: int, host: str) -> None:
    """Register small compressed bodies with as many topics as are allowed, and some with more; each one is new."""
    async with AsyncPeer(port, host) as peer:
        for counter, body in enumerate(itertools.cycle(_bombs())):
            fields = _of_a_broker(host, counter % 50) | {"compressed": "true"}
            answer = await peer.ask(RemotingCommand(code=103, ext_fields=fields, body=body))
            assert answer.code in (0, 1, 2)


async def hoards_unfinished_frames(port: int, host: str) -> None:
    """Send 15 MiB of a frame of 16 MiB."""
    async with AsyncPeer(port, host) as peer:
        await peer.send(unfinished(15 * MIB))
        await peer.closed()


async def opens_connections(port: int, host: str) -> None:
    """Open as many connections as the server accepts, and keep them."""
    async with AsyncExitStack() as stack:
        for _ in range(2_000):
            peer = await stack.enter_async_context(AsyncPeer(port, host))
            await peer.send(b"\0")
        await asyncio.sleep(5)


async def sends_large_headers(port: int, host: str) -> None:
    """Send a hundred headers with as much as is allowed, and then one of those that are refused, or one without end."""
    fields = b",".join(b'"%d":"%s,"' % (number, b"x" * 117) for number in range(MAX_HEADER_FIELDS))
    async with AsyncPeer(port, host) as peer:
        await peer.send(framed(b'{"code":105,"extFields":{%s}}' % fields) * 100)
        refused = [*HEADERS.values(), None]
        if header := refused[next(_numbers) % len(refused)]:
            await peer.send(framed(header))
            await peer.closed()
        await peer.send(struct.pack(">iI", 16 * MIB - 100, 16 * MIB - 200) + b"{" * MIB)
        await peer.closed()


async def sends_broken_bodies(port: int, host: str) -> None:
    """Send bodies that a decoder has to read to their end, in the name of a good broker too, and many settings."""
    allowed = RemotingCommand(code=318, body=b"unknown=x\n" * 255 + b"#" * 13_000)
    broken = [*requests(registration(0, BROKER_TOPICS, cluster=CLUSTER).ext_fields or {}), allowed]
    async with AsyncPeer(port, host) as peer:
        for command in itertools.cycle(broken):
            await peer.ask(command)


async def registers_many_brokers(port: int, host: str) -> None:
    """Register a thousand addresses over each connection, each in parts."""
    async with AsyncPeer(port, host) as peer:
        numbers = itertools.cycle(range(4_000))
        while True:
            registered = [registration(next(numbers), 3, cluster=f"many-{id(peer)}") for _ in range(100)]
            await peer.send(b"".join(map(encode_command, registered)))
            for _ in registered:
                await peer.receive()


async def asks_for_metrics_slowly(port: int, host: str) -> None:
    """Send one line of an HTTP header every second, without end; or ask for the whole page, and read none of it."""
    async with AsyncPeer(port, host) as peer:
        if next(_numbers) % 4 == 0:
            await peer.send(b"GET /metrics HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0.1)
            return
        await peer.send(b"GET /metrics HTTP/1.1\r\n")
        while True:
            await peer.send(b"X: y\r\n")
            await asyncio.sleep(1)


async def lies_about_itself(port: int, host: str) -> None:
    """Send a PROXY header with a false address that has escapes for a terminal."""
    async with AsyncPeer(port, host) as peer:
        await peer.send(b"PROXY TCP4 \x1b[2J10.0.0.1 127.0.0.1 5000 9876\r\n")
        await peer.closed()


async def never_begins(port: int, host: str) -> None:
    """Send the first bytes of a TLS handshake, and nothing more."""
    async with AsyncPeer(port, host) as peer:
        await peer.send(b"\r\n\r\n")
        await peer.closed()


KINDS = (
    Kind("asks and does not read", 4, asks_and_does_not_read),
    Kind("registers compressed bombs", 40, registers_bombs),
    Kind("hoards unfinished frames", 17, hoards_unfinished_frames),
    Kind("opens connections", 1, opens_connections),
    Kind("sends large headers", 2, sends_large_headers),
    Kind("sends broken bodies", 4, sends_broken_bodies),
    Kind("registers many brokers", 12, registers_many_brokers),
    Kind("asks /metrics slowly", 100, asks_for_metrics_slowly),
    Kind("lies in a PROXY header", 4, lies_about_itself),
    Kind("never begins", 50, never_begins),
)


def chosen(only: str) -> list[Kind]:
    """Return the kinds whose name begins with `only`."""
    return [kind for kind in KINDS if kind.name.startswith(only)]


def host_of(kind: Kind) -> str:
    """Return the address from which a kind connects."""
    return f"127.6.6.{KINDS.index(kind) + 1}"


def _of_a_broker(host: str, number: int) -> dict[str, str]:
    return {
        "brokerName": f"bomb-{number}",
        "brokerAddr": f"{host}:{10_000 + number}",
        "clusterName": "bombs",
        "brokerId": "0",
        "haServerAddr": "",
    }


def _bomb(topics: int, counter: int) -> bytes:
    table = {f"bomb-{number:07}": TopicConfig(8, 8, 6) for number in range(topics)}
    wrapper = TopicConfigSerializeWrapper(DataVersion(0, 1, counter), table)
    return encode_registration(RegisterBrokerBody(wrapper), 493, compressed=True)


@cache
def _bombs() -> list[bytes]:
    return [_bomb(MAX_TOPICS, 1), _bomb(MAX_TOPICS, 2), _bomb(3 * MAX_TOPICS, 3), zlib.compress(bytes(64 * MIB))]


async def _again_and_again(kind: Kind, port: int) -> None:
    while True:
        with suppress(OSError, FrameError, AssertionError):
            await kind.attack(port, host_of(kind))
        await asyncio.sleep(_PAUSE_S)


async def run(port: int, metrics_port: int, only: str = "") -> None:
    """Run all kinds, or those whose name begins with `only`, until this process is ended."""
    _bombs()  # packed before anybody attacks
    ports = {kind: metrics_port if kind.attack is asks_for_metrics_slowly else port for kind in KINDS}
    peers = [_again_and_again(kind, ports[kind]) for kind in chosen(only) for _ in range(kind.connections)]
    await asyncio.gather(*peers)


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
