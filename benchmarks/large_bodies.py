"""Measure what a large registration costs a gateway that decodes it in a thread, or in a pool of processes.

    .venv/bin/python -m benchmarks.large_bodies

`received` is the event loop's CPU time from the reads of 256 KiB to a command. `hold` is the longest time for which the
event loop did not run while the body was decoded, the median of some bodies: lookups wait for so long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from statistics import median

from benchmarks.harness import Bench, benchmark
from benchmarks.peers import registration
from namesrv_stream.gateway.body_processes import BodyProcesses
from namesrv_stream.records import encode_record
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
from namesrv_stream.wire.write_requests import register_broker

_READ_BYTES = 256 * 1024
_ROUNDS = 15

Work = Callable[[], bytes]
Way = Callable[[Work], Awaitable[bytes]]


def received(frame: bytes) -> tuple[RemotingCommand, float]:
    """Return the command of a frame that comes in reads of 256 KiB, and the CPU time of that in ms."""
    decoder, spent_s = FrameDecoder(), 0.0
    commands: list[RemotingCommand] = []
    for at in range(0, len(frame), _READ_BYTES):
        data = bytes(bytearray(frame[at : at + _READ_BYTES]))
        began_s = time.thread_time()
        commands += decoder.feed(data)
        spent_s += time.thread_time() - began_s
    return commands[0], 1e3 * spent_s


def record_of(command: RemotingCommand) -> bytes:
    """Return the record of a registration, as the gateway sends it."""
    return encode_record(register_broker(command))


async def hold_ms(way: Way, work: Work) -> float:
    """Return the longest time in ms between two rounds of the event loop while `work` is done."""
    longest_s, last_s = 0.0, time.perf_counter()
    working = asyncio.ensure_future(way(work))
    while not working.done():
        await asyncio.sleep(0)
        now_s = time.perf_counter()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    await working
    return 1e3 * longest_s


async def measured(way: Way, work: Work) -> tuple[float, float]:
    """Return the median hold of some bodies, and the CPU time of this process for one, both in ms."""
    await way(work)
    began_s = time.process_time()
    for _ in range(_ROUNDS):
        await way(work)
    cpu_ms = 1e3 * (time.process_time() - began_s) / _ROUNDS
    return median([await hold_ms(way, work) for _ in range(_ROUNDS)]), cpu_ms


async def measure() -> list[list[str]]:
    """Return a line of figures for each size."""
    rows, processes = [], BodyProcesses()
    for topics in (10_000, 50_000):
        frame = encode_command(registration(0, topics))
        taken = [received(frame) for _ in range(_ROUNDS)]
        work = partial(record_of, taken[0][0])
        figures = [*await measured(asyncio.to_thread, work), *await measured(processes.run, work)]
        cells = [len(frame) / 1e6, median([ms for _, ms in taken]), *figures]
        rows.append([f"{topics:,} topics", *(f"{cell:.1f}" for cell in cells)])
    processes.close()
    return rows


@benchmark()
def main(bench: Bench) -> None:
    """Print the figures."""
    ways = ("thread: hold, ms", "CPU, ms", "pool: hold, ms", "CPU, ms")
    bench.rows(("registration of", "MB", "received, ms", *ways), asyncio.run(measure()))


if __name__ == "__main__":
    main()
