"""Measure what bodies of registrations cost a gateway: large ones in a thread or in a pool, and slow ones at once.

    .venv/bin/python -m benchmarks.bodies

`received` is the event loop's CPU time from the reads of 256 KiB to a command. `hold` is the longest time for which the
event loop did not run while the body was decoded, the median of some bodies: lookups wait for so long. The bodies of
256 KiB are as slow as peers can make them. Each is decoded as `FullOrLight.decode_at_once` decodes it, and by the usual
limits; a refused one goes to another process. All CPU time is that of this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from statistics import median

from msgspec import structs

from benchmarks.harness import Bench, benchmark
from benchmarks.peers import registration
from namesrv_stream.errors import BadRequestError
from namesrv_stream.gateway.sending import BodyProcesses
from namesrv_stream.records import encode_record
from namesrv_stream.wire.codes import Version
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.registration_request import decode_registration
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
from namesrv_stream.wire.write_requests import register_broker

SIZE_BYTES = 256 * 1024
"""Of a read, and of a body that is decoded in the event loop."""
_MAPPINGS = "topicQueueMappingInfoMap"
_ROUNDS = 15
_BROKER = register_broker(registration(0, 1))

Work = Callable[[], bytes]
Way = Callable[[Work], Awaitable[bytes]]


def received(frame: bytes) -> tuple[RemotingCommand, float]:
    """Return the command of a frame that comes in reads of 256 KiB, and the CPU time of that in ms."""
    decoder, spent_s = FrameDecoder(), 0.0
    commands: list[RemotingCommand] = []
    for at in range(0, len(frame), SIZE_BYTES):
        data = bytes(bytearray(frame[at : at + SIZE_BYTES]))
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


def filled(before: str, item: Callable[[int], str], after: str) -> bytes:
    """Return items with commas in between, as many as make a body of SIZE_BYTES with the texts around them."""
    items: list[str] = []
    left = SIZE_BYTES - len(before) - len(after)
    while (left := left - len((text := item(len(items))).encode()) - 1) >= 0:
        items.append(text)
    return (before + ",".join(items) + after).encode()


def bodies() -> Iterable[tuple[str, bytes]]:
    """Yield what a body is full of, and the body."""
    topics, mappings = (f'{{"topicConfigSerializeWrapper":{{"{name}":{{' for name in ("topicConfigTable", _MAPPINGS))
    settings = '{"readQueueNums":1,"writeQueueNums":1,"perm":6}'
    yield "1,500 topics of a broker", registration(0, 1_500).body
    yield "topics with short names", filled(topics, lambda number: f'"{number:x}":{settings}', "}}}")
    yield "filter servers ab", filled('{"filterServerList":[', lambda _: '"ab"', "]}")
    yield "filter servers é", filled('{"filterServerList":[', lambda _: '"é"', "]}")
    yield "mappings of static topics", filled(mappings, lambda number: f'"{number:x}":{{}}', "}}}")
    yield "lists in a mapping", filled(mappings + '"t":{"a":[', lambda _: "[]", "]}}}}")
    yield "lists in an unknown field", filled('{"unknown":[', lambda _: "[]", "]}")
    yield "keys without quotes", filled("{", lambda _: '0:"aaaaaa"', "}")


def cpu_ms(body: bytes, *, only_quick: bool) -> str:
    """Return milliseconds of CPU to decode a body, the best of some, and whether it is refused."""
    best_s, refused = float("inf"), ""
    for _ in range(_ROUNDS):
        began_s = time.process_time()
        try:
            read = decode_registration(body, Version.V5_4_0, only_quick=only_quick)
            wrapper, servers = read.topic_config_serialize_wrapper, read.filter_server_list or []
            table, mappings = wrapper.topic_config_table, wrapper.topic_queue_mapping_info_map
            fields = {"topic_config_table": table, "topic_queue_mapping_info_map": mappings}
            encode_record(structs.replace(_BROKER, filter_server_list=servers, **fields))
        except BadRequestError:
            refused = ", refused"
        best_s = min(best_s, time.process_time() - began_s)
    return f"{best_s * 1e3:.2f}{refused}"


@benchmark()
def main(bench: Bench) -> None:
    """Print the figures."""
    ways = ("thread: hold, ms", "CPU, ms", "pool: hold, ms", "CPU, ms")
    bench.rows(("registration of", "MB", "received, ms", *ways), asyncio.run(measure()))
    slow = ((what, *(cpu_ms(body, only_quick=only_quick) for only_quick in (True, False))) for what, body in bodies())
    bench.rows(("a body of 256 KiB, full of", "at once, ms", "by the usual limits, ms"), slow)


if __name__ == "__main__":
    main()
