"""Measure the event loop's CPU time for large frames: from the pieces in which they are received to a command.

    .venv/bin/python -m benchmarks.frames

Eight connections receive a registration each, in turn, 256 KiB at a time. `joined` is what a client's decoder does with
a large body, `in pieces` what the gateway's does.
"""

from __future__ import annotations

import os
import time

import click
from rich.console import Console
from rich.table import Table

from benchmarks.gateway import registration
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import encode_command

_READ_BYTES = 256 * 1024
_CONNECTIONS = 8
_ROUNDS = 40


def median_us(frame: bytes, *, joins_bodies: bool) -> float:
    """Return the median CPU time of one frame, in µs."""
    decoders = [FrameDecoder(joins_bodies=joins_bodies) for _ in range(_CONNECTIONS)]
    taken_s = []
    for _ in range(_ROUNDS):
        spent_s = 0.0
        for at in range(0, len(frame), _READ_BYTES):
            received = [bytes(bytearray(frame[at : at + _READ_BYTES])) for _ in decoders]
            began_s = time.thread_time()
            for decoder, data in zip(decoders, received, strict=True):
                for _command in decoder.feed(data):
                    pass
            spent_s += time.thread_time() - began_s
        taken_s.append(spent_s / _CONNECTIONS)
    return 1e6 * sorted(taken_s)[_ROUNDS // 2]


@click.command()
def main() -> None:
    """Print the figures."""
    table = Table("registration of", "bytes", "joined, µs", "in pieces, µs")
    for topics in (1_000, 10_000, 50_000):
        frame = encode_command(registration(0, topics))
        joined, in_pieces = (median_us(frame, joins_bodies=joins) for joins in (True, False))
        table.add_row(f"{topics:,} topics", f"{len(frame):,}", f"{joined:,.0f}", f"{in_pieces:,.0f}")
    console = Console(width=100)
    console.print(table)
    console.print(f"{os.cpu_count()} cores; load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
