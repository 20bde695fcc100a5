"""Load a name server over RocketMQ's remoting: a number of connections, each with a number of requests in flight.

The load is a program in C (load.c) in a process of its own, so that the rates say something about the server.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

from msgspec.structs import replace

from benchmarks.harness import cpu_seconds
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

_WORD = struct.Struct("=I")
_SOURCE = Path(__file__).with_name("load.c")
_FIRST_OPAQUE = 100_000_000
"""Opaque of each encoded frame. All have nine digits, as `split_opaque` recognises no more."""


class Figures(NamedTuple):
    """Figures of one run. `failed` counts the answers with another code than 0.

    `cpu_us` is the server's for a request, `load_cpu_us` that of the load.
    """

    per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    cpu_us: float = 0.0
    load_cpu_us: float = 0.0


class Series(NamedTuple):
    """The requests that a connection sends in turn and again and again, from the one at `start` on."""

    requests: Sequence[RemotingCommand]
    start: int = 0


class Load:
    """Connections that send requests; as a context manager it closes them in the end.

    `series` has one for each connection. Connections with the same object as requests share its frames in memory.
    """

    def __init__(self, port: int, series: Sequence[Series], in_flight: int) -> None:
        command = [_program(), str(port), str(in_flight)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._write(_encoded(series))

    def run(self, seconds: float, server: int | None = None) -> Figures:
        """Send for the given time, and wait for the last answers. `server`: process whose CPU time is measured."""
        assert self._process.stdout
        measured = [self._process.pid, *([] if server is None else [server])]
        before_s = [cpu_seconds(pid) for pid in measured]
        self._write(b"%f\n" % seconds)
        if not (line := self._process.stdout.readline()):
            raise ConnectionError("the load has ended: see above")
        per_second, p50_ms, p99_ms, failed = map(float, line.split())
        count = max(1.0, per_second * seconds)
        of_load, *of_server = (
            (cpu_seconds(pid) - taken_s) / count * 1e6 for pid, taken_s in zip(measured, before_s, strict=True)
        )
        return Figures(per_second, p50_ms, p99_ms, int(failed), sum(of_server), of_load)

    def _write(self, data: bytes) -> None:
        assert self._process.stdin
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def close(self) -> None:
        """Close all connections."""
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _encoded(series: Sequence[Series]) -> bytes:
    """Return the frames and the connections' series as load.c reads them."""
    places: dict[int, tuple[int, int]] = {}
    frames: list[bytes] = []
    for requests, _ in series:
        if id(requests) not in places:
            places[id(requests)] = len(frames), len(frames) + len(requests)
            frames += (encode_command(replace(each, opaque=_FIRST_OPAQUE)) for each in requests)
    connections = ((*places[id(requests)], places[id(requests)][0] + start) for requests, start in series)
    words = [len(frames), len(series), *(word for each in connections for word in each)]
    packed = list(map(_WORD.pack, words))
    return b"".join([packed[0], *(_WORD.pack(len(each)) + each for each in frames), *packed[1:]])


@cache
def _program() -> str:
    """Compile the load, and return its path."""
    program = _SOURCE.with_suffix(".bin")
    subprocess.run(["cc", "-O2", "-o", program, _SOURCE], check=True)
    return str(program)
