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
from pathlib import Path

import msgspec

from benchmarks.harness import Bench, benchmark, cpu_seconds, gateway_process, memory_mb, option, timed, wait_until
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


Found = dict[str, float]
"""Figures of one registry; the unit is at the end of each name."""


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
    registry = Registry(folder / "registry", plan)
    found = {"all rows published in one batch, s": timed(registry.publish_all)}
    began_s = time.perf_counter()
    with gateway_process(folder, {}) as (port, pid):
        wait_until(lambda: has_route(port, plan.topic(0, 0)), "the gateway's first answer", _LIMIT_S, 0.005)
        found["gateway start to first answer, s"] = time.perf_counter() - began_s
        time.sleep(_PAUSE_S)
        memory = {"started": memory_mb(pid)}
        looked_up = [plan.topic(number % plan.brokers, number % plan.topics) for number in range(_LOOKED_UP)]
        with closing(Client(port)) as client, Stalls(port, looked_up) as stalls:
            found |= _changes(plan, registry, client, stalls, pid, changes)
            memory["after changes"] = memory_mb(pid)
            if with_bulk:
                found |= _bulk(plan, registry, client, stalls)
                memory["after bulk"] = memory_mb(pid)
        memory["highest"] = memory_mb(pid, highest=True)
    return found | {f"memory of the gateway, {when}, MB": size for when, size in memory.items()}


def _changes(  # noqa: PLR0913, PLR0917  # a step of `measure`, with all that it has set up
    plan: Plan, registry: Registry, client: Client, stalls: Stalls, pid: int, changes: int
) -> Found:
    stalls.take()
    time.sleep(changes * _PAUSE_S)
    idle_stall_s, cpu_s, published_ms, served_ms = stalls.take(), 0.0, [], []
    for number in range(changes):
        broker, queues = number * 7 % plan.brokers, 100 + number
        began_s, cpu_before_s = time.perf_counter(), cpu_seconds(pid)
        topic = registry.change_one(broker, number % plan.topics, queues)
        published_s = time.perf_counter()
        _wait_until_served(client, topic, plan.broker_name(broker), queues)
        served_ms.append(1e3 * (time.perf_counter() - published_s))
        published_ms.append(1e3 * (published_s - began_s))
        time.sleep(_PAUSE_S)
        cpu_s += cpu_seconds(pid) - cpu_before_s
    return {
        "a change published, median ms": statistics.median(published_ms),
        "served after the snapshot, median ms": statistics.median(served_ms),
        "served after the snapshot, longest ms": max(served_ms),
        "longest wait for a lookup while nothing changes, ms": 1e3 * idle_stall_s,
        "longest wait for a lookup meanwhile, ms": 1e3 * stalls.take(),
        "CPU of the gateway a change, ms": 1e3 * cpu_s / changes,
    }


def _bulk(plan: Plan, registry: Registry, client: Client, stalls: Stalls) -> Found:
    """Measure topics that appear at once and disappear at once, and a single change right after they have appeared."""
    began_s = time.perf_counter()
    last = registry.change_bulk(0, _BULK_TOPICS, 8)
    published_s = time.perf_counter()
    topic = registry.change_one(1, 0, 999)
    _wait_until_served(client, topic, plan.broker_name(1), 999)
    after_s = time.perf_counter() - published_s
    dropped_s = timed(lambda: registry.drop_bulk(0, _BULK_TOPICS))
    gone_s = timed(lambda: _wait_until_served(client, last, plan.broker_name(0), None))
    time.sleep(_PAUSE_S)
    return {
        f"{_BULK_TOPICS:,} topics published, s": max(published_s - began_s, dropped_s),
        f"{_BULK_TOPICS:,} topics gone from lookups after the snapshot, s": gone_s,
        "one change published right after them and served, s": after_s,
        "longest wait for a lookup meanwhile (bulk), ms": 1e3 * stalls.take(),
    }


def _wait_until_served(client: Client, topic: str, broker_name: str, queues: int | None) -> None:
    what = f"the gateway shows the change of {topic}"
    wait_until(lambda: client.queues(topic, broker_name) == queues, what, _LIMIT_S, 0.002)


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
        columns[f"{plan.rows:,} rows"] = measure(plan, folder, changes)
        sizes.append(plan.rows)
        shutil.rmtree(folder)
    shown = {
        rows: {name: f"{value:,.{int(name.endswith(', s'))}f}" for name, value in found.items()}
        for rows, found in columns.items()
    }
    bench.columns(shown, f"{changes} changes of one topic")
    drawn = {name: [found[name] for found in columns.values()] for name in _DRAWN}
    bench.draw("rows of topic", sizes, drawn)


if __name__ == "__main__":
    main()
