"""Measure the console's memory, with a registry of many brokers behind it and the requests of its page before it.

    .venv/bin/python -m benchmarks.console_memory --brokers 1000 --topics 2000 --changes 30

A zone of four goes and comes back, and then single brokers do. The console is a process of its own. Each line is the
memory after a step: `own` is what no other process shares (USS), `resident` has the mapped files of libraries too, and
`highest` is the greatest resident size so far.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.harness import Bench, benchmark, console_process, cpu_seconds_of, memory_mb, now_ms, option
from benchmarks.large_registry import RuledRegistry, address_of, master
from namesrv_stream.rules.record_types import BrokerHeartbeat, DataVersion, TopicConfig

PLACES, NAMES_OF_A_TOPIC, TOGETHER = 4, 8, 100
MINUTE_MS, STEP_MS = 60_000, 1_000
_MB = 2**20


class Crowd:
    """A registry of masters and slaves in four clusters and four zones."""

    def __init__(self, root: Path, brokers: int, topics: int) -> None:
        self.brokers = range(brokers)
        self._registry, names = RuledRegistry(root, now_ms() - 40 * MINUTE_MS), (brokers + 1) // 2
        self._topics: dict[int, list[str]] = {name: [f"broker-{name}", "TBW102"] for name in range(names)}
        for place in range(topics * NAMES_OF_A_TOPIC):
            self._topics[place % names].append(f"orders-{place // NAMES_OF_A_TOPIC}")

    def zone(self, zone: int) -> list[int]:
        """Return the brokers of a zone."""
        return [number for number in self.brokers if _zone(number) == zone]

    def come(self, number: int) -> None:
        """Register a broker."""
        own = {
            "cluster_name": f"cluster-{number // 2 % PLACES}",
            "broker_name": f"broker-{number // 2}",
            "broker_id": number % 2,
            "zone_name": f"zone-{_zone(number)}",
            "data_version": DataVersion(0, self._registry.at_ms, 1),
        }
        self._registry.apply(master(number, dict.fromkeys(self._topics[number // 2], TopicConfig(8, 8, 6)), **own))

    def go(self, number: int) -> None:
        """End the lease of a broker that was heard two minutes ago."""
        self._registry.rules.expire(address_of(number), self._registry.at_ms)

    def publish(self, pause_ms: int = STEP_MS) -> None:
        """Publish what has happened, with signs of life of all brokers that are up; then let some time pass."""
        self._registry.apply(*(BrokerHeartbeat(broker_addr=each) for each in [*self._registry.rules.view().live]))
        self._registry.publish()
        self._registry.at_ms += pause_ms

    def change(self, number: int) -> None:
        """Let a broker go, or come if it has gone, and publish that."""
        (self.go if address_of(number) in self._registry.rules.view().live else self.come)(number)
        self.publish()


def _zone(number: int) -> int:
    return number // 2 // PLACES % PLACES


def make(root: Path, brokers: int, topics: int) -> Crowd:
    """Return a crowd with a past: all came, a zone went at once and came back, single brokers went and came back."""
    crowd = Crowd(root, brokers, topics)
    for number in crowd.brokers:
        crowd.come(number)
        if number % TOGETHER == TOGETHER - 1:
            crowd.publish()
    crowd.publish(5 * MINUTE_MS)
    for act in (crowd.go, crowd.come):
        for number in crowd.zone(1):
            act(number)
        crowd.publish(5 * MINUTE_MS)
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

    def note(self, step: str) -> None:
        """Note the memory after a step."""
        pid, own_mb = self._process.pid, self._process.memory_full_info().uss / _MB
        figures = (own_mb, memory_mb(pid), memory_mb(pid, highest=True), self._process.num_threads())
        self.rows.append((step, *(f"{each:,.0f}" for each in figures), f"{cpu_seconds_of([pid]):.1f}"))


def measure(measured: Measured, crowd: Crowd, changes: int) -> None:
    """Send the requests of the page, and note the memory after each step."""
    views = ("/v1/overview", "/v1/status", "/v1/topics?limit=100&system=false", "/v1/brokers?limit=100&sort=name")
    steps: Mapping[str, Callable[[], None]] = {
        "start, snapshot read": lambda: measured.ask("/readyz"),
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


@benchmark(
    option("--brokers", 1_000),
    option("--topics", 2_000, f"Each is on {NAMES_OF_A_TOPIC} broker names."),
    option("--changes", 30),
)
def main(bench: Bench, brokers: int, topics: int, changes: int) -> None:
    """Print the memory of a console after each step."""
    crowd = make(bench.folder / "registry", brokers, topics)
    with console_process(bench.folder, {}) as (url, pid):
        measured = Measured(url, pid)
        measure(measured, crowd, changes)
    bench.rows(("after", "own MB", "resident MB", "highest MB", "threads", "CPU, s"), measured.rows)


if __name__ == "__main__":
    main()
