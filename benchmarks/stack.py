"""Measure the whole stack beside RocketMQ's NameServer, in registries of up to 300 brokers with 10,000 topics each.

    .venv/bin/python -m benchmarks.stack --brokers 100 --brokers 300

Kafka, the job and the gateway are processes of their own; both name servers get the same load over RocketMQ's own
protocol, in turn. All brokers register, as fast as they are answered. Then one broker at a time registers with one
topic changed, while another client looks routes up without a pause. In the end the job is killed (kill -9), once with
nobody beside it and once with a standby.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
from msgspec import structs
from msgspec.json import decode

from benchmarks.harness import (
    Bench,
    benchmark,
    cores,
    cpu_by_part,
    gateway_process,
    job_parts,
    job_process,
    memory_mb,
    option,
    running_kafka,
    wait_until,
)
from benchmarks.job import Tables
from benchmarks.peers import registration
from benchmarks.scale import Client, Stalls
from namesrv_stream.wire.codes import ResponseCode
from namesrv_stream.wire.remoting_command import RemotingCommand
from real_rocketmq.servers import name_server

FIRST, CHANGED = 1, 2
"""Data versions of a broker's first registration and of the one that changes a topic."""
CHANGED_TOPIC, CHANGED_QUEUES = "topic-00000", 8
"""The topic, and its read queues under the data version CHANGED, see `registration`."""

_LOOKED_UP = tuple(f"topic-{number:05}" for number in range(1, 21))
_IDLE_S = 10.0
_LOOK_EVERY_S = 0.01
_PAUSE_S = 1.0
"""Pause after each change, so that the next one finds all processes idle."""
_AT_A_TIME = 32
"""Brokers that wait for the answer to their first registration at the same time."""
_LEASE_MS = "3600000"
"""Longer than the measurement, so that no broker need register again."""
_NO_IDLE_S = "3600"

Cells = dict[str, str]


@dataclass
class Changes:
    """The figures of changes of one topic each. `published_ms` is empty where nothing is published."""

    published_ms: list[float] = field(default_factory=list)
    served_ms: list[float] = field(default_factory=list)
    stall_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)

    def cells(self) -> Cells:
        """Return the figures as text."""
        published = _median(self.published_ms) if self.published_ms else "-"
        return {
            "a change in the log to published, median ms": published,
            "a change answered to served by lookups, median ms": _median(self.served_ms),
            "longest wait for a lookup meanwhile, ms": f"{self.stall_s * 1e3:,.0f}",
            "CPU of a change, all processes but Kafka, s": f"{sum(self.cpu_s.values()):.2f}",
            **{f"CPU of a change: {name}, s": f"{taken:.2f}" for name, taken in self.cpu_s.items()},
        }


class Fleet:
    """Brokers of one cluster that have all topics in common, each at an address of its own.

    Their connections are open within the `with`. `busy`: registrations that were answered SYSTEM_BUSY and sent again.
    """

    def __init__(self, port: int, brokers: int, topics: int) -> None:
        self.brokers = brokers
        self.busy = 0
        self._port = port
        self._first, self._changed = registration(0, topics, FIRST), registration(0, topics, CHANGED)
        self._open = ExitStack()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def register_all(self) -> float:
        """Register all brokers, _AT_A_TIME at a time. Return the seconds until the last answer."""
        began_s = time.monotonic()
        with ThreadPoolExecutor(_AT_A_TIME) as threads:
            list(threads.map(partial(self._register, self._first), range(self.brokers)))
        return time.monotonic() - began_s

    def change(self, broker: int) -> None:
        """Let one broker register again, over a new connection, with one topic changed."""
        self._register(self._changed, broker)

    def _register(self, command: RemotingCommand, broker: int) -> None:
        client = Client(self._port, f"127.1.{broker // 250}.{1 + broker % 250}")
        self._open.callback(client.close)
        registered = _sent_by(command, broker)
        while (answer := client.ask(registered)).code == ResponseCode.SYSTEM_BUSY:
            self.busy += 1
            time.sleep(_PAUSE_S)
        if answer.code:
            raise RuntimeError(f"broker {broker} was refused: {answer.remark}")


def _sent_by(command: RemotingCommand, broker: int) -> RemotingCommand:
    address = f"10.1.{broker // 250}.{broker % 250}:10911"
    own = {"brokerName": f"c-{broker}", "brokerAddr": address, "heartbeatTimeoutMillis": _LEASE_MS}
    return structs.replace(command, ext_fields={**(command.ext_fields or {}), **own})


@dataclass(frozen=True)
class Server:
    """A name server that is measured.

    `processes`: its process ids by part. `published_ms`: returns the time at which the newest snapshot was published;
    None for a server that publishes nothing.
    """

    port: int
    processes: Callable[[], Mapping[str, Sequence[int]]]
    published_ms: Callable[[], float] | None = None

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time of each part so far."""
        return cpu_by_part(self.processes())

    def memory(self) -> Cells:
        """Return the resident memory of each part."""
        sizes = {name: sum(map(memory_mb, pids)) for name, pids in self.processes().items()}
        return {f"memory: {name}, MB": f"{size:,.0f}" for name, size in sizes.items()}

    def wait_for_all(self, brokers: int) -> None:
        """Wait until lookups show all brokers."""
        client = Client(self.port)
        while (answer := client.route(CHANGED_TOPIC)).code or len(decode(answer.body)["queueDatas"]) < brokers:
            time.sleep(_LOOK_EVERY_S)
        client.close()

    def change_topics(self, fleet: Fleet, count: int) -> Changes:
        """Let so many brokers change a topic, one after the other."""
        found = Changes()
        with Stalls(self.port, _LOOKED_UP) as stalls:
            before, began_s = self.cpu_s(), time.monotonic()
            time.sleep(_IDLE_S)
            idle = cores(before, self.cpu_s(), time.monotonic() - began_s)
            client = Client(self.port)
            stalls.take()
            before, began_s = self.cpu_s(), time.monotonic()
            for broker in range(count):
                self._change_topic(fleet, broker, client, found)
            taken_s = time.monotonic() - began_s
            busy = cores(before, self.cpu_s(), taken_s)
            found.cpu_s = {name: (taken - idle[name]) * taken_s / count for name, taken in busy.items()}
            found.stall_s = stalls.take()
        client.close()
        return found

    def _change_topic(self, fleet: Fleet, broker: int, client: Client, found: Changes) -> None:
        fleet.change(broker)
        answered_s, answered_ms = time.monotonic(), time.time() * 1e3
        while client.queues(CHANGED_TOPIC, f"c-{broker}") != CHANGED_QUEUES:
            time.sleep(_LOOK_EVERY_S)
        found.served_ms.append(1e3 * (time.monotonic() - answered_s))
        if self.published_ms is not None:
            found.published_ms.append(self.published_ms() - answered_ms)
        time.sleep(_PAUSE_S)


class Site:
    """Kafka and the tables of a run, seen from beside."""

    def __init__(self, folder: Path, reached: Mapping[str, object]) -> None:
        self._folder = folder
        self.options = {**reached, "serverChannelMaxIdleTimeSeconds": _NO_IDLE_S}
        self.tables = Tables(folder / "registry")

    def published_ms(self) -> float:
        """Return the time at which the newest snapshot was published."""
        return self.tables.wait_for({}).published_at

    @contextmanager
    def job(self, number: int, options: Mapping[str, object] | None = None) -> Iterator[int]:
        """Run a job with a log of its own within the `with`. Yield its process id."""
        own = self._folder / f"job-{number}"
        own.mkdir()
        whole = {"delta.root": self._folder / "registry", **self.options, **(options or {})}
        with job_process(own, whole) as job:
            yield job

    def kill(self, job: int) -> tuple[int, float]:
        """End a job and its processes by SIGKILL. Return the newest term and the time."""
        term = self.tables.newest_term()
        for each in [psutil.Process(job), *psutil.Process(job).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        return term, time.time()

    def stands_by(self, number: int) -> bool:
        """Return whether a job waits for its turn."""
        return "this job is a standby" in (self._folder / f"job-{number}" / "job.log").read_text(encoding="utf-8")


def of_stack(folder: Path, brokers: int, topics: int, changes: int) -> Cells:
    """Measure Kafka, job and gateway."""
    folder.mkdir(parents=True)
    with running_kafka(folder) as (_, reached), ExitStack() as jobs:
        site = Site(folder, reached)
        first = jobs.enter_context(site.job(1))
        with gateway_process(folder, site.options) as (port, gateway), Fleet(port, brokers, topics) as fleet:
            site.tables.wait_for_publication(0)
            answered_s = fleet.register_all()
            in_log_s = time.time()
            stack = Server(port, lambda: job_parts(first, {"gateway": gateway}), site.published_ms)
            stack.wait_for_all(brokers)
            served_s, published_s = time.time() - in_log_s, site.published_ms() / 1e3 - in_log_s
            changed = stack.change_topics(fleet, changes)
            memory = stack.memory()
            kills = _kills(site, jobs, first, fleet)
    return {
        "all brokers registered, to the last answer, s": f"{answered_s:.1f}",
        "of these answered SYSTEM_BUSY at first, and sent again": str(fleet.busy),
        "all answered, and so in the log, to published, s": f"{published_s:.1f}",
        "all answered to served by lookups, s": f"{served_s:.1f}",
        **changed.cells(),
        **memory,
        **kills,
    }


def _kills(site: Site, jobs: ExitStack, first: int, fleet: Fleet) -> Cells:
    """Kill the job with nobody beside it, then the next one with a standby beside it. A broker changes a topic each."""
    term, at_s = site.kill(first)
    fleet.change(fleet.brokers - 1)
    second = jobs.enter_context(site.job(2))
    alone_s = site.tables.wait_for_publication(term) - at_s
    jobs.enter_context(site.job(3, {"standby": "true"}))
    wait_until(lambda: site.stands_by(3), "a standby")
    term, at_s = site.kill(second)
    fleet.change(fleet.brokers - 2)
    with_standby_s = site.tables.wait_for_publication(term) - at_s
    return {
        "kill -9 of the job, started again at once, to the next publication, s": f"{alone_s:.1f}",
        "kill -9 of the job beside a standby to the next publication, s": f"{with_standby_s:.1f}",
    }


def of_name_server(folder: Path, brokers: int, topics: int, changes: int) -> Cells:
    """Measure RocketMQ's NameServer."""
    server = name_server(folder, serverChannelMaxIdleTimeSeconds=_NO_IDLE_S)
    server.start(heap="-Xmx6g")
    try:
        pid = server.pid
        assert pid is not None, "it runs"
        measured = Server(server.port, lambda: {"NameServer": [pid]})
        with Fleet(server.port, brokers, topics) as fleet:
            answered_s = fleet.register_all()
            in_log_s = time.time()
            measured.wait_for_all(brokers)
            served_s = time.time() - in_log_s
            changed = measured.change_topics(fleet, changes)
            memory = measured.memory()
    finally:
        server.stop()
    return {
        "all brokers registered, to the last answer, s": f"{answered_s:.1f}",
        "all answered to served by lookups, s": f"{served_s:.1f}",
        **changed.cells(),
        **memory,
    }


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f}"


@benchmark(
    option("--brokers", (100, 300)),
    option("--topics", 10_000, "Of each broker."),
    option("--changes", 5, "Of one topic each."),
)
def main(bench: Bench, brokers: tuple[int, ...], topics: int, changes: int) -> None:
    """Print two columns for each registry: the NameServer, and the stack."""
    columns: dict[str, Cells] = {}
    for count in brokers:
        for name, measure in (("NameServer", of_name_server), ("stack", of_stack)):
            folder = bench.folder / name
            columns[f"{name}, {count * topics:,} rows"] = measure(folder, count, topics, changes)
            shutil.rmtree(folder)
    bench.columns(columns, f"{changes} changes of one topic")


if __name__ == "__main__":
    main()
