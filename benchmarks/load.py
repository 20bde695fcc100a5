"""Load a name server over RocketMQ's remoting: a number of connections, each with a number of requests in flight.

It uses one thread, so that the measured server has the other core.
"""

from __future__ import annotations

import itertools
import math
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

_LENGTH = struct.Struct(">I")
_WORDS = struct.Struct(">II")
_OPAQUE = b'"opaque":'
_CHUNK_BYTES = 256 * 1024
_LIMIT_S = 60.0
_COPIED_BYTES = 64 * 1024
"""Bodies from this size on are sent without a copy, so that the server is measured and not the load."""


class Figures(NamedTuple):
    """Figures of one run. `failed` counts the answers with another code than 0; `cpu_us` is the server's, a request."""

    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    cpu_us: float = 0.0


class Request:
    """A request that is encoded once; each sending sets its opaque."""

    def __init__(self, command: RemotingCommand) -> None:
        frame = encode_command(command)
        header_end = 8 + int.from_bytes(frame[5:8])
        self._before, _, self._after = frame[8:header_end].partition(b'"opaque":0')
        self.body = frame[header_end:]

    def head(self, opaque: int) -> bytes:
        """Return the frame up to its body."""
        digits = b"%d" % opaque
        header_bytes = len(self._before) + len(_OPAQUE) + len(digits) + len(self._after)
        words = _WORDS.pack(4 + header_bytes + len(self.body), header_bytes)
        return b"".join((words, self._before, _OPAQUE, digits, self._after))


@dataclass(eq=False)
class _Connection:
    socket: socket.socket
    requests: Iterator[Request]
    unread: bytes = b""


class Load:
    """Connections that send requests.

    `requests` has one endless series of requests for each. Opaques match an answer with its request's time.
    """

    def __init__(self, port: int, requests: Sequence[Iterator[Request]], in_flight: int) -> None:
        self._in_flight = in_flight
        self._connections = {}
        for series in requests:
            opened = socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections[opened.fileno()] = _Connection(opened, series)
        self._opaque = 0
        self._sent_at: dict[int, float] = {}
        self._seconds: list[float] = []
        self._failed = 0

    def run(self, seconds: float) -> Figures:
        """Send for the given time, and wait for the last answers."""
        poll = select.epoll()
        for number in self._connections:
            poll.register(number, select.EPOLLIN)
        started = time.perf_counter()
        end = started + seconds
        for connection in self._connections.values():
            self._send(connection, self._in_flight)
        while self._sent_at:
            events = poll.poll(_LIMIT_S)
            if not events:
                raise TimeoutError(f"no answer within {_LIMIT_S:.0f} s")
            for number, _ in events:
                connection = self._connections[number]
                answered = self._received(connection)
                if answered and time.perf_counter() < end:
                    self._send(connection, answered)
        taken = time.perf_counter() - started
        poll.close()
        return self._figures(taken)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.socket.close()

    def _send(self, connection: _Connection, count: int) -> None:
        first = self._opaque + 1
        self._opaque += count
        requests = list(itertools.islice(connection.requests, count))
        now = time.perf_counter()
        self._sent_at |= dict.fromkeys(range(first, first + count), now)
        if len(requests[0].body) < _COPIED_BYTES:
            frames = [part for at, each in enumerate(requests) for part in (each.head(first + at), each.body)]
            connection.socket.sendall(b"".join(frames))
            return
        for at, each in enumerate(requests):
            connection.socket.send(each.head(first + at), socket.MSG_MORE)
            connection.socket.sendall(each.body)

    def _received(self, connection: _Connection) -> int:
        data = connection.socket.recv(_CHUNK_BYTES)
        if not data:
            raise ConnectionError("the server has closed the connection")
        now = time.perf_counter()
        data = connection.unread + data
        at, answered = 0, 0
        while at + 4 <= len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            if at + 4 + length > len(data):
                break
            opaque = data.index(_OPAQUE, at) + len(_OPAQUE)
            sent_at = self._sent_at.pop(int(data[opaque : data.index(b",", opaque)]))
            self._seconds.append(now - sent_at)
            self._failed += data[at + 8 : at + 18] != b'{"code":0,'
            at += 4 + length
            answered += 1
        connection.unread = data[at:]
        return answered

    def _figures(self, taken: float) -> Figures:
        seconds, self._seconds = self._seconds, []
        failed, self._failed = self._failed, 0
        p50_s, p99_s = (percentile(seconds, share) for share in (0.50, 0.99))
        return Figures(len(seconds) / taken, p50_s * 1e3, p99_s * 1e3, failed)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile by nearest rank, infinity without values."""
    return sorted(values)[min(len(values), math.ceil(share * len(values))) - 1] if values else math.inf
