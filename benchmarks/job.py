"""Measure the job as users run it, by spark-submit: its start, how fresh its tables are, and what it costs when idle.

    .venv/bin/python -m benchmarks.job                                # at the default trigger
    .venv/bin/python -m benchmarks.job --trigger 500 --trigger 2000   # a column each
    .venv/bin/python -m benchmarks.job --trigger 1000 --trigger 1000  # the first start, and one on old tables
    .venv/bin/python -m benchmarks.job --spark spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1

A hundred brokers, each with a connection of its own to a gateway, send it a heartbeat every 30 s. Each trigger
has a start of the job of its own, on the same tables, the first of them on new ones.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.brokers import Brokers, heartbeat_frame
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
    percentile,
    running_kafka,
    wait_until,
)
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError
from namesrv_stream.kafka.producer import HeartbeatProducer
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.rules.rows import LogPosition, SnapshotRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tools.local.process import HOST
from namesrv_stream.tools.local.submission import ARCHIVE

BROKERS = 100
TOPICS_PER_BROKER = 20
HEARTBEAT_EVERY_S = 30.0
_START_LIMIT_S = 180.0
_WARM_UP_CHANGES = 5


class Found(NamedTuple):
    """The figures of one start of the job. `cores`: of each process, and of the parts of the job, while it is idle."""

    claimed_s: float
    published_s: float
    fresh_ms: list[float]
    cores: dict[str, float]
    resident_mb: dict[str, float]


class Tables:
    """The snapshots of the run, seen from beside."""

    def __init__(self, root: Path) -> None:
        self._root = Root(str(root))

    def since(self, term: int) -> dict[str, int]:
        """Return the time of the first snapshot of each kind after a term, in epoch milliseconds."""
        return {row.kind: row.published_at for row in self._rows() if row.term > term and row.kind is not None}

    def _rows(self) -> list[SnapshotRow]:
        try:
            return SnapshotTable(self._root).readable()  # newest first
        except NamesrvError:
            return []

    def wait_for_publication(self, after_term: int) -> float:
        """Wait until a run after this term has published. Return the time of that, in epoch seconds."""
        wait_until(lambda: "PUBLICATION" in self.since(after_term), "a publication", _START_LIMIT_S)
        return self.since(after_term)["PUBLICATION"] / 1e3

    def newest_term(self) -> int:
        """Return the newest run's term; 0 before the first."""
        return max((row.term for row in self._rows()), default=0)

    def shown_after_ms(self, appended: LogPosition) -> float:
        """Return the time from a record's append to a snapshot that shows it, looked for every 5 ms."""
        self.wait_for({appended.partition: appended.offset + 1})
        return time.time() * 1000 - appended.event_time

    def wait_for(self, offsets: Mapping[int, int]) -> SnapshotRow:
        """Wait for a snapshot that has these records; `offsets`: the next record's by partition. Return it."""
        snapshots = SnapshotTable(self._root)

        def has_all() -> bool:
            snapshots.refresh()
            return all(snapshots.newest().offsets.get(partition, 0) >= offset for partition, offset in offsets.items())

        wait_until(has_all, "a snapshot with all records", _START_LIMIT_S, 0.005)
        return snapshots.newest()

    def fresh_ms(self, changes: Iterable[LogPosition], up_to: int) -> list[float]:
        """Return the time of each from its append to the first snapshot with it, of those up to an epoch."""
        oldest_first = [row for row in reversed(self._rows()) if row.epoch <= up_to]
        return [next(row.published_at for row in oldest_first if row.offsets.get(change.partition, 0) > change.offset)
                - change.event_time for change in changes]  # fmt: skip


@contextmanager
def heartbeats(peers: Sequence[socket.socket]) -> Iterator[None]:
    """Send the heartbeats of all brokers, evenly over HEARTBEAT_EVERY_S, within the `with`."""
    stop = threading.Event()

    def send() -> None:
        number = 0
        while not stop.wait(HEARTBEAT_EVERY_S / len(peers)):
            peers[number % len(peers)].sendall(heartbeat_frame(number % len(peers)))
            number += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True)
class Site:
    """Kafka, gateway and brokers beside the measured job.

    `peers`: each broker's connection to the gateway. `others`: the process ids of Kafka and the gateway.
    """

    peers: Sequence[socket.socket]
    folder: Path
    options: Mapping[str, object]
    spark: Mapping[str, str]
    brokers: Brokers
    others: Mapping[str, int]
    uses_archive: bool

    def measure(self, trigger_ms: int | None, changes: int, idle_s: float) -> Found:
        """Start the job, change topics, and let it be idle. The brokers are registered."""
        options = {**self.options} | ({} if trigger_ms is None else {"triggerMillis": trigger_ms})
        tables = Tables(self.folder / "registry")
        former, started_s = tables.newest_term(), time.time()
        with job_process(self.folder, options, self.spark, archive=self.uses_archive) as job:
            self.brokers.change(0)  # else a start on old tables publishes only signs of life, after 5 minutes
            tables.wait_for_publication(former)
            first_ms = tables.since(former)
            with heartbeats(self.peers):
                fresh_ms = [_change(tables, self.brokers, number) for number in range(_WARM_UP_CHANGES + changes)]
                processes = job_parts(job, self.others)
                before_s, began_s = cpu_by_part(processes), time.monotonic()
                time.sleep(idle_s)
                idle = cores(before_s, cpu_by_part(processes), time.monotonic() - began_s)
            resident = {name: sum(map(memory_mb, pids)) for name, pids in processes.items()}
        start_s = {kind: ms / 1000 - started_s for kind, ms in first_ms.items()}
        return Found(start_s["CLAIM"], start_s["PUBLICATION"], fresh_ms[_WARM_UP_CHANGES:], idle, resident)


def _change(tables: Tables, brokers: Brokers, number: int) -> float:
    """Change a topic at a random moment of the trigger. Return the time to its snapshot in ms."""
    time.sleep(random.uniform(0.2, 1.2))
    return tables.shown_after_ms(brokers.change(number % BROKERS))


@contextmanager
def running_site(folder: Path, spark: Mapping[str, str], *, archive: bool = True) -> Iterator[Site]:
    """Run Kafka and a gateway within the `with`, with all brokers registered."""
    with running_kafka(folder) as (kafka, options):
        settings = NamesrvSettings.model_validate(options)
        arguments = kafka_client_arguments(settings)
        ensure_topic(arguments, settings.kafka_topic)
        with HeartbeatProducer(arguments, settings.kafka_topic) as producer:
            brokers = Brokers(producer, BROKERS, TOPICS_PER_BROKER)
            brokers.register_all()
            with gateway_process(folder, options) as (port, gateway), ExitStack() as opened:
                assert kafka.pid is not None, "it runs"
                peers = [opened.enter_context(socket.create_connection((HOST, port))) for _ in range(BROKERS)]
                for number, peer in enumerate(peers):
                    peer.sendall(heartbeat_frame(number))  # a gateway closes a connection that says nothing at first
                yield Site(peers, folder, options, spark, brokers, {"gateway": gateway, "Kafka": kafka.pid}, archive)


@benchmark(
    option("--trigger triggers", (), "triggerMillis; its default unless given.", type=int),
    option("--changes", 40),
    option("--idle-s", 60.0, "How long the idle job is watched."),
    option("--spark", (), "Spark's configuration.", metavar="KEY=VALUE"),
    option("--archive/--no-archive", True, "Of Java's classes, if there is one."),
)
def main(  # noqa: PLR0913, PLR0917  # its options
    bench: Bench, triggers: tuple[int, ...], changes: int, idle_s: float, spark: tuple[str, ...], archive: bool
) -> None:
    """Print the figures."""
    conf = dict(each.split("=", 1) for each in spark)
    columns = {}
    with running_site(bench.folder, conf, archive=archive) as site:
        for number, trigger_ms in enumerate(triggers or (None,), 1):
            name = f"start {number}, trigger {'default' if trigger_ms is None else trigger_ms}"
            columns[name] = _cells(site.measure(trigger_ms, changes, idle_s))
    bench.columns(columns)
    print(f"{'with' if archive and ARCHIVE.exists() else 'without'} an archive of classes")


def _cells(found: Found) -> dict[str, str]:
    idle = sum(found.cores.values())
    return {
        "process start to claim, s": f"{found.claimed_s:.1f}",
        "process start to first publication, s": f"{found.published_s:.1f}",
        **{
            f"append to snapshot, p{100 * share:.0f}, ms": f"{percentile(found.fresh_ms, share):,.0f}"
            for share in (0.5, 0.99)
        },
        **{f"idle cores: {part}": f"{each:.2f}" for part, each in found.cores.items()},
        "idle cores: job and gateway": f"{idle - found.cores['Kafka']:.2f}",
        "idle cores: all": f"{idle:.2f}",
        **{f"resident MB: {part}": f"{each:,.0f}" for part, each in found.resident_mb.items()},
    }


if __name__ == "__main__":
    main()
