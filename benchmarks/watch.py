"""Time from the commit of a snapshot to its arrival at each of 1,000 subscribers.

`make bench-watch` prints the table of docs/console.md. Watchers, console and publisher are three processes of this
machine. A change is one of permissions on a broker name that has all topics, so that every watcher gets it.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import re
import subprocess
import tempfile
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from benchmarks.load import percentile
from benchmarks.processes import program
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    DataVersion,
    RegisterBroker,
    Request,
    TopicConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.tables.writer import RustWriter, changes_to_write

TOPICS = 200
BROKERS = 10
PAUSE_S = 1.0
_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)


class Registry:
    """A registry whose changes are published one by one."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._rules = RouteRegistry(NamesrvSettings())
        self._publisher = Publisher.claim(RustWriter(Root(root)), "bench", _now_ms())
        self._offset = 0

    def apply(self, request: Request) -> None:
        """Apply one record."""
        self._rules.apply(request, LogPosition(_now_ms(), 0, self._offset))
        self._offset += 1

    def publish(self) -> tuple[int, float]:
        """Publish what was applied. Return the epoch, and the time at which its snapshot was committed."""
        came = self._rules.take_changes()
        changes = changes_to_write(came.changes)
        batch = Batch("bench", self._offset, _now_ms(), {0: self._offset}, changes, came.events, [])
        epoch = self._publisher.publish(batch, _now_ms()).epoch
        log = Path(Root(self._root).uri(SNAPSHOT)) / "_delta_log"
        return epoch, max(log.glob("*.json")).stat().st_mtime


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _register(registry: Registry) -> None:
    topics = {f"topic_{number}": TopicConfig(8, 8, 6) for number in range(TOPICS)}
    for number in range(BROKERS):
        registry.apply(
            RegisterBroker(
                cluster_name="c1",
                broker_name=f"broker-{number}",
                broker_id=0,
                broker_addr=f"10.0.0.{number}:10911",
                data_version=DataVersion(0, 0, 1),
                topic_config_table=topics,
            )
        )


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


def measure(watchers: int, changes: int) -> tuple[list[float], int]:
    """Return the milliseconds from each snapshot to each watcher, and the number of events that did not arrive."""
    with tempfile.TemporaryDirectory() as folder:
        registry = Registry(f"{folder}/registry")
        _register(registry)
        registry.publish()
        options = {"console.port": 0}
        command = program(Path(folder, "registry"), options, "console")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
            assert console.stdout is not None
            url = console.stdout.readline().removeprefix("console: ").strip().rstrip("/")
            here, there = multiprocessing.Pipe()
            process = multiprocessing.Process(target=_watch_process, args=(url, watchers, there))
            process.start()
            here.recv()
            committed = dict(_change(registry, number) for number in range(changes))
            time.sleep(PAUSE_S)
            console.terminate()
            arrived: list[tuple[int, float]] = here.recv()
            process.join()
    took = [1000 * (at_s - committed[epoch]) for epoch, at_s in arrived if epoch in committed]
    return took, watchers * changes - len(took)


def _change(registry: Registry, number: int) -> tuple[int, float]:
    """Change a permission on a broker name that all topics are on, and let the machine rest."""
    registry.apply((WipeWritePerm if number % 2 == 0 else AddWritePerm)(broker_name="broker-0"))
    published = registry.publish()
    time.sleep(PAUSE_S)
    return published


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--watchers", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--changes", type=int, default=30)
    arguments = parser.parse_args()
    print("| watchers | events | lost | p50 ms | p99 ms | max ms |\n|---|---|---|---|---|---|")
    for watchers in arguments.watchers:
        took, lost = measure(watchers, arguments.changes)
        shown = " | ".join(f"{value:.0f}" for value in (percentile(took, 0.5), percentile(took, 0.99), max(took)))
        print(f"| {watchers:,} | {len(took):,} | {lost:,} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
