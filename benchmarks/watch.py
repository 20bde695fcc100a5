"""Time from the commit of a snapshot to its arrival at each of 1,000 subscribers.

`make bench-watch` prints the table of docs/console.md. Watchers, console and publisher are three processes of this
machine. A change is one of permissions on a broker name that has all topics, so that every watcher gets it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from benchmarks.harness import Bench, benchmark, console_process, now_ms, option, percentile
from benchmarks.large_registry import RuledRegistry, master
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    TopicConfig,
    WipeWritePerm,
)
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT

TOPICS = 200
BROKERS = 10
PAUSE_S = 1.0
_ID = re.compile(rb"^id: \S*?(\d+)$", re.MULTILINE)


def _publish(registry: RuledRegistry, root: Path) -> tuple[int, float]:
    """Publish what was applied. Return the epoch, and the time at which its snapshot was committed."""
    epoch, log = registry.publish(), Path(Root(str(root)).uri(SNAPSHOT)) / "_delta_log"
    return epoch, max(log.glob("*.json")).stat().st_mtime


class _Subscriber(asyncio.Protocol):
    """One watcher. It notes the epoch of each event, but for `progress`, with the time of its arrival."""

    def __init__(self, arrived: list[tuple[int, float]]) -> None:
        self._arrived = arrived
        self.has_begun = asyncio.get_running_loop().create_future()
        self.has_ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        now_s = time.time()
        if not self.has_begun.done():
            if b"event: route" in data:
                self.has_begun.set_result(None)
        elif b"event: progress" not in data:
            self._arrived.extend((int(epoch), now_s) for epoch in _ID.findall(data))

    def connection_lost(self, _error: Exception | None) -> None:
        self.has_ended.set_result(None)


async def _watch_all(url: str, watchers: int, results: Connection) -> None:
    """Open all watches, send "ready", and (epoch, time of arrival) of each event when the console has ended them."""
    address = urlsplit(url)
    arrived: list[tuple[int, float]] = []
    subscribers = []
    for number in range(watchers):
        transport, subscriber = await asyncio.get_running_loop().create_connection(
            partial(_Subscriber, arrived), str(address.hostname), address.port or 0
        )
        path = f"/v1/watch?topic=topic_{number % TOPICS}"
        transport.write(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        await subscriber.has_begun
        subscribers.append(subscriber)
    results.send("ready")
    await asyncio.gather(*(subscriber.has_ended for subscriber in subscribers))
    results.send(arrived)


def _watch_process(url: str, watchers: int, results: Connection) -> None:
    uvloop.run(_watch_all(url, watchers, results))


def measure(folder: Path, watchers: int, changes: int) -> tuple[list[float], int]:
    """Return the milliseconds from each snapshot to each watcher, and the number of events that did not arrive."""
    registry = RuledRegistry(folder / "registry")
    topics = {f"topic_{topic}": TopicConfig(8, 8, 6) for topic in range(TOPICS)}
    registry.apply(*(master(number, topics) for number in range(BROKERS)))
    registry.publish()
    here, there = multiprocessing.Pipe()
    with console_process(folder, {}) as (url, _):
        process = multiprocessing.Process(target=_watch_process, args=(url, watchers, there))
        process.start()
        here.recv()
        committed = dict(_change(registry, folder / "registry", number) for number in range(changes))
    arrived: list[tuple[int, float]] = here.recv()
    process.join()
    took = [1000 * (at_s - committed[epoch]) for epoch, at_s in arrived if epoch in committed]
    return took, watchers * changes - len(took)


def _change(registry: RuledRegistry, root: Path, number: int) -> tuple[int, float]:
    """Change a permission on a broker name that all topics are on, and let the machine rest."""
    registry.at_ms = now_ms()
    registry.apply((WipeWritePerm if number % 2 == 0 else AddWritePerm)(broker_name="broker-0"))
    published = _publish(registry, root)
    time.sleep(PAUSE_S)
    return published


@benchmark(option("--watchers", (1, 100, 1000)), option("--changes", 30))
def main(bench: Bench, watchers: tuple[int, ...], changes: int) -> None:
    """Print a line for each number of watchers."""
    lines = []
    for count in watchers:
        took, lost = measure(bench.folder / str(count), count, changes)
        times = (f"{value:.0f}" for value in (percentile(took, 0.5), percentile(took, 0.99), max(took)))
        lines.append((f"{count:,}", f"{len(took):,}", f"{lost:,}", *times))
    bench.rows(("watchers", "events", "lost", "p50 ms", "p99 ms", "max ms"), lines)


if __name__ == "__main__":
    main()
