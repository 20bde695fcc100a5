"""Measure a change from the snapshot to the lookup, in registries of up to 300 brokers with 10,000 topics each.

    make bench-scale          # or: .venv/bin/python -m benchmarks.scale --brokers 100 --brokers 300
    .venv/bin/python -m benchmarks.scale --brokers 100 --topics 100 --topics 1000 --topics 10000 --plot docs/topics.svg

The publisher alone publishes the tables, without Spark and Kafka: the merge is measured, the gateway that follows, and
its lookups meanwhile. The gateway is a process of its own. One client looks up one topic after the other without a
pause, so that the longest time between question and answer is the longest stall; another client looks up the topic that
changes until the answer shows the change.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.harness import Bench, benchmark, cpu_seconds, gateway_process, memory_mb, option, wait_until
from benchmarks.large_registry import TOPICS_PER_BROKER, Plan, Registry
from benchmarks.peers import Peer
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand

_BULK_TOPICS = 50_000
_LIMIT_S = 300.0
_LOOKED_UP = 200
_PAUSE_S = 0.3
"""Pause between two changes, so that the gateway follows each by itself."""


_DRAWN = (
    "a change published, median ms",
    "served after the snapshot, median ms",
    "longest wait for a lookup meanwhile, ms",
    "CPU of the gateway a change, ms",
    "gateway start to first answer, s",
    "memory of the gateway, after changes, MB",
)


@dataclass
class Found:
    """The measurements of one registry, in seconds except the memory."""

    first_publication_s: float = 0.0
    start_s: float = 0.0
    memory_mb: dict[str, float] = field(default_factory=dict)
    published_s: list[float] = field(default_factory=list)
    served_s: list[float] = field(default_factory=list)
    idle_stall_s: float = 0.0
    stall_s: float = 0.0
    bulk_published_s: float = 0.0
    bulk_served_s: float = 0.0
    bulk_stall_s: float = 0.0
    after_bulk_s: float = 0.0
    cpu_a_change_s: float = 0.0


class Client(Peer):
    """A connection that looks routes up."""

    def __init__(self, port: int, host: str | None = None) -> None:
        super().__init__(port, host, _LIMIT_S)

    def route(self, topic: str) -> RemotingCommand:
        """Return the answer to GET_ROUTEINFO_BY_TOPIC."""
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        return self.ask(RemotingCommand(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=fields))

    def queues(self, topic: str, broker_name: str) -> int | None:
        """Return the read queues of the topic on a broker name, None if the route lacks it."""
        answer = self.route(topic)
        if answer.code != 0:
            return None
        queues = msgspec.json.decode(answer.body)["queueDatas"]
        return next((each["readQueueNums"] for each in queues if each["brokerName"] == broker_name), None)


class Stalls:
    """Lookups without a pause in a thread of their own; `longest_s` is the longest wait for an answer since `reset`."""

    def __init__(self, port: int, topics: Sequence[str]) -> None:
        self._topics = topics
        self._client = Client(port)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.longest_s = 0.0

    def __enter__(self) -> Stalls:
        for topic in self._topics:
            self._client.route(topic)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.close()

    def take(self) -> float:
        """Return the longest wait since the last call."""
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def _run(self) -> None:
        while not self._is_over.is_set():
            for topic in self._topics:
                began_s = time.perf_counter()
                self._client.route(topic)
                self.longest_s = max(self.longest_s, time.perf_counter() - began_s)
                time.sleep(0.001)  # leaves the processor to the gateway, whose stalls are measured


def has_route(port: int, topic: str) -> bool:
    """Return whether a gateway answers with a route."""
    with suppress(OSError), closing(Client(port)) as client:
        return client.route(topic).code == 0
    return False


def measure(plan: Plan, folder: Path, changes: int, *, with_bulk: bool = True) -> Found:
    """Return all figures of one registry."""
    found, registry = Found(), Registry(folder / "registry", plan)
    began_s = time.perf_counter()
    registry.publish_all()
    found.first_publication_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    with gateway_process(folder, {}) as (port, pid):
        wait_until(lambda: has_route(port, plan.topic(0, 0)), "the gateway's first answer", _LIMIT_S, 0.005)
        found.start_s = time.perf_counter() - began_s
        time.sleep(_PAUSE_S)
        found.memory_mb["started"] = memory_mb(pid)
        client = Client(port)
        looked_up = [plan.topic(number % plan.brokers, number % plan.topics) for number in range(_LOOKED_UP)]
        with Stalls(port, looked_up) as stalls:
            _measure_changes(plan, registry, client, stalls, pid, changes, found)
            found.memory_mb["after changes"] = memory_mb(pid)
            if with_bulk:
                _measure_bulk(plan, registry, client, stalls, found)
        found.memory_mb["after bulk"] = memory_mb(pid)
        found.memory_mb["highest"] = memory_mb(pid, highest=True)
        client.close()
    return found


def _measure_changes(  # noqa: PLR0913, PLR0917  # a step of `measure`, with all that it has set up
    plan: Plan, registry: Registry, client: Client, stalls: Stalls, pid: int, changes: int, found: Found
) -> None:
    stalls.take()
    time.sleep(changes * _PAUSE_S)
    found.idle_stall_s = stalls.take()
    cpu_s = 0.0
    for number in range(changes):
        broker, queues = number * 7 % plan.brokers, 100 + number
        began_s, cpu_before_s = time.perf_counter(), cpu_seconds(pid)
        topic = registry.change_one(broker, number % plan.topics, queues)
        published_s = time.perf_counter()
        _wait_until_served(client, topic, plan.broker_name(broker), queues)
        found.served_s.append(time.perf_counter() - published_s)
        found.published_s.append(published_s - began_s)
        time.sleep(_PAUSE_S)
        cpu_s += cpu_seconds(pid) - cpu_before_s
    found.stall_s = stalls.take()
    found.cpu_a_change_s = cpu_s / changes


def _measure_bulk(plan: Plan, registry: Registry, client: Client, stalls: Stalls, found: Found) -> None:
    """Measure topics that appear at once and disappear at once, and a single change right after they have appeared."""
    began_s = time.perf_counter()
    last = registry.change_bulk(0, _BULK_TOPICS, 8)
    published_s = time.perf_counter()
    topic = registry.change_one(1, 0, 999)
    _wait_until_served(client, topic, plan.broker_name(1), 999)
    found.after_bulk_s = time.perf_counter() - published_s
    found.bulk_published_s = published_s - began_s
    began_s = time.perf_counter()
    registry.drop_bulk(0, _BULK_TOPICS)
    published_s = time.perf_counter()
    _wait_until_served(client, last, plan.broker_name(0), None)
    found.bulk_served_s = time.perf_counter() - published_s
    found.bulk_published_s = max(found.bulk_published_s, published_s - began_s)
    time.sleep(_PAUSE_S)
    found.bulk_stall_s = stalls.take()


def _wait_until_served(client: Client, topic: str, broker_name: str, queues: int | None) -> None:
    what = f"the gateway shows the change of {topic}"
    wait_until(lambda: client.queues(topic, broker_name) == queues, what, _LIMIT_S, 0.002)


def _cells(found: Found) -> dict[str, str]:
    memory = found.memory_mb
    return {
        "all rows published in one batch, s": f"{found.first_publication_s:.1f}",
        "gateway start to first answer, s": f"{found.start_s:.1f}",
        "a change published, median ms": _median_ms(found.published_s),
        "served after the snapshot, median ms": _median_ms(found.served_s),
        "served after the snapshot, longest ms": f"{max(found.served_s) * 1e3:.0f}",
        "longest wait for a lookup while nothing changes, ms": f"{found.idle_stall_s * 1e3:.0f}",
        "longest wait for a lookup meanwhile, ms": f"{found.stall_s * 1e3:.0f}",
        "CPU of the gateway a change, ms": f"{found.cpu_a_change_s * 1e3:.0f}",
        f"{_BULK_TOPICS:,} topics published, s": f"{found.bulk_published_s:.1f}",
        f"{_BULK_TOPICS:,} topics gone from lookups after the snapshot, s": f"{found.bulk_served_s:.1f}",
        "one change published right after them and served, s": f"{found.after_bulk_s:.1f}",
        "longest wait for a lookup meanwhile (bulk), ms": f"{found.bulk_stall_s * 1e3:.0f}",
        **{f"memory of the gateway, {when}, MB": f"{size:,.0f}" for when, size in memory.items()},
    }


def _median_ms(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1e3:.0f}"


@benchmark(
    option("--brokers", (100, 300)),
    option("--topics", (TOPICS_PER_BROKER,), "Of each broker."),
    option("--own-topics/--shared-topics", False, "No two brokers share a topic."),
    option("--changes", 10, "Of one topic each."),
    plot=True,
)
def main(bench: Bench, brokers: tuple[int, ...], topics: tuple[int, ...], own_topics: bool, changes: int) -> None:
    """Print one column for each registry: each number of brokers with each number of topics."""
    columns, sizes = {}, []
    for size in itertools.product(brokers, topics):
        plan, folder = Plan(*size, own_topics), bench.folder / "-".join(map(str, size))
        folder.mkdir()
        columns[f"{plan.rows:,} rows"] = _cells(measure(plan, folder, changes))
        sizes.append(plan.rows)
        shutil.rmtree(folder)
    bench.columns(columns, f"{changes} changes of one topic")
    drawn = {name: [float(each[name].replace(",", "")) for each in columns.values()] for name in _DRAWN}
    bench.draw("rows of topic", sizes, drawn)


if __name__ == "__main__":
    main()
