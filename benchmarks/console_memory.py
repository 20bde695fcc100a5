"""Measure the console's memory, with a registry of many brokers behind it and the requests of its page before it.

    .venv/bin/python -m benchmarks.console_memory --brokers 1000 --topics 2000 --changes 30

A zone of four goes and comes back, and then single brokers do. The console is a process of its own. Each line is the
memory after a step: `own` is what no other process shares (USS), `resident` has the mapped files of libraries too, and
`highest` is the greatest resident size so far.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import click
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.processes import cpu_seconds_of, machine_text, program, wait_until
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import BrokerHeartbeat, DataVersion, RegisterBroker, TopicConfig
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RowChanges, RustWriter, changes_to_write

PLACES, NAMES_OF_A_TOPIC, TOGETHER = 4, 8, 100
MINUTE_MS, STEP_MS = 60_000, 1_000
_MB = 2**20


class Crowd:
    """A registry of masters and slaves in four clusters and four zones; `at_ms` is the time of what comes next."""

    def __init__(self, root: Path, brokers: int, topics: int) -> None:
        self.brokers = range(brokers)
        self.at_ms = time.time_ns() // 1_000_000 - 40 * MINUTE_MS
        self._offset, names = 0, (brokers + 1) // 2
        self._topics: dict[int, list[str]] = {name: [f"broker-{name}", "TBW102"] for name in range(names)}
        for place in range(topics * NAMES_OF_A_TOPIC):
            self._topics[place % names].append(f"orders-{place // NAMES_OF_A_TOPIC}")
        self._rules = RouteRegistry(NamesrvSettings())
        self._publisher = Publisher.claim(RustWriter(Root(str(root))), "bench", self.at_ms)

    def zone(self, zone: int) -> list[int]:
        """Return the brokers of a zone."""
        return [number for number in self.brokers if _zone(number) == zone]

    def come(self, number: int) -> None:
        """Register a broker."""
        request = RegisterBroker(
            cluster_name=f"cluster-{number // 2 % PLACES}",
            broker_name=f"broker-{number // 2}",
            broker_id=number % 2,
            broker_addr=_address(number),
            zone_name=f"zone-{_zone(number)}",
            data_version=DataVersion(0, self.at_ms, 1),
            topic_config_table=dict.fromkeys(self._topics[number // 2], TopicConfig(8, 8, 6)),
        )
        self._rules.apply(request, self._place())

    def go(self, number: int) -> None:
        """End the lease of a broker that was heard two minutes ago."""
        self._rules.expire(_address(number), self.at_ms)

    def publish(self) -> int:
        """Publish what has happened, with signs of life of all brokers that are up; return the epoch."""
        for address in [*self._rules.view().live]:
            self._rules.apply(BrokerHeartbeat(broker_addr=address), self._place())
        came, heard = self._rules.take_changes(), self._rules.take_signs_of_life()
        changes = dict(changes_to_write(came.changes))
        live = changes.get("live", RowChanges((), ()))
        rows = {row[0]: row for row in (*live.upserts, *heard)}
        changes["live"] = RowChanges(list(rows.values()), live.deletes)
        offsets = {0: self._offset}
        batch = Batch("bench", self._offset, self.at_ms, offsets, changes, came.events, [], clock=self._rules.clock)
        self.at_ms += STEP_MS
        return self._publisher.publish(batch, time.time_ns() // 1_000_000).epoch

    def change(self, number: int) -> None:
        """Let a broker go, or come if it has gone, and publish that."""
        (self.go if _address(number) in self._rules.view().live else self.come)(number)
        self.publish()

    def _place(self) -> LogPosition:
        self._offset += 1
        return LogPosition(self.at_ms, 0, self._offset - 1)


def _address(number: int) -> str:
    return f"10.0.{number // 250}.{number % 250}:10911"


def _zone(number: int) -> int:
    return number // 2 // PLACES % PLACES


def make(root: Path, brokers: int, topics: int) -> Crowd:
    """Return a crowd with a past: all came, a zone went at once and came back, single brokers went and came back."""
    crowd = Crowd(root, brokers, topics)
    for number in crowd.brokers:
        crowd.come(number)
        if number % TOGETHER == TOGETHER - 1:
            crowd.publish()
    crowd.at_ms += 5 * MINUTE_MS
    for act in (crowd.go, crowd.come):
        for number in crowd.zone(1):
            act(number)
        crowd.publish()
        crowd.at_ms += 5 * MINUTE_MS
    for number in crowd.brokers[:: max(1, brokers // 10)]:
        crowd.change(number)
        crowd.change(number)
    return crowd


class Measured:
    """A console and its memory after each step."""

    def __init__(self, url: str, pid: int) -> None:
        self._address = urlsplit(url).netloc
        self._process = psutil.Process(pid)
        self.rows: list[tuple[str, ...]] = []

    def ask(self, *paths: str) -> None:
        """Send requests, one after the other, as the page does."""
        for path in paths:
            connection = http.client.HTTPConnection(self._address, timeout=120)
            connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status}")

    def is_ready(self) -> bool:
        """Return whether the console has read a snapshot."""
        try:
            self.ask("/readyz")
        except (OSError, RuntimeError):
            return False
        return True

    def note(self, step: str) -> None:
        """Note the memory after a step."""
        memory, threads = self._process.memory_full_info(), self._process.num_threads()
        status = Path(f"/proc/{self._process.pid}/status").read_text("utf-8")
        highest_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        figures = (memory.uss / _MB, memory.rss / _MB, highest_kb / 1024, threads)
        cpu_s = cpu_seconds_of([self._process.pid])
        self.rows.append((step, *(f"{each:,.0f}" for each in figures), f"{cpu_s:.1f}"))


def measure(measured: Measured, crowd: Crowd, changes: int) -> None:
    """Send the requests of the page, and note the memory after each step."""
    views = ("/v1/overview", "/v1/status", "/v1/topics?limit=100&system=false", "/v1/brokers?limit=100&sort=name")
    steps: Mapping[str, Callable[[], None]] = {
        "start, snapshot read": lambda: wait_until(measured.is_ready, "the console is ready"),
        "the overview": lambda: measured.ask("/v1/status", "/v1/overview", "/v1/timeline?since=3650d"),
        "lists of topics and brokers": lambda: measured.ask(*views, "/v1/topics?limit=1000", "/v1/brokers?limit=1000"),
        "a topic, a broker": lambda: measured.ask("/v1/topics/orders-1", "/v1/why/broker-1", "/v1/brokers/broker-1"),
        "20 moments of the past": lambda: measured.ask(*(f"/v1/overview?epoch={epoch}" for epoch in range(3, 23))),
        "the churn of a week": lambda: measured.ask("/v1/churn?since=7d"),
        "two moments compared": lambda: measured.ask("/v1/diff?from=3&to=20"),
    }
    for step, act in steps.items():
        act()
        measured.note(step)
    for number in range(changes):
        crowd.change(number)
        measured.ask(*views)
    measured.note(f"{changes} snapshots, each with four views")


@contextmanager
def console(root: Path) -> Iterator[Measured]:
    """Run a console within the `with`."""
    with subprocess.Popen(program(root, {"console.port": 0}, "console"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("console: ").strip()
        yield Measured(url, process.pid)
        process.terminate()


@click.command()
@click.option("--brokers", default=1_000, show_default=True)
@click.option("--topics", default=2_000, show_default=True, help=f"Each is on {NAMES_OF_A_TOPIC} broker names.")
@click.option("--changes", default=30, show_default=True)
def main(brokers: int, topics: int, changes: int) -> None:
    """Print the memory of a console after each step."""
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "registry")
        crowd = make(root, brokers, topics)
        with console(root) as measured:
            measure(measured, crowd, changes)
    grid = Table("after", *(f"{name} MB" for name in ("own", "resident", "highest")), "threads", "CPU, s")
    for row in measured.rows:
        grid.add_row(*row)
    shown = Console(width=120)
    shown.print(grid)
    shown.print(machine_text(before))


if __name__ == "__main__":
    main()
