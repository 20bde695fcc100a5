"""Run ten kinds of hostile peers at once beside fifty good brokers and a hundred clients, and check who is harmed.

    make soak-hostile                     # ten minutes
    make soak-hostile ARGS='--minutes 1'

The gateway runs as its users run it, in a process of its own with a real Kafka, on tables that are published before and
again every few seconds. The exit status is 1 if a good peer was harmed, memory grew beyond its limit, or the log does
not name a hostile peer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from kafka import KafkaConsumer, TopicPartition

from benchmarks.attacks import chosen, host_of
from benchmarks.gateway import MASTERS, TOPICS
from benchmarks.good_peers import BROKER_TOPICS, BROKERS, CLIENTS, CLUSTER
from benchmarks.harness import Bench, benchmark, gateway_process, now_ms, option, running_kafka
from benchmarks.large_registry import RuledRegistry
from benchmarks.peers import registration
from namesrv_stream.kafka.topic import end_offsets
from namesrv_stream.records import DEFAULT_TOPIC
from namesrv_stream.rules.record_types import DEFAULT_HEARTBEAT_TIMEOUT_MS
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.process import OwnedProcess, free_ports
from namesrv_stream.wire.write_requests import register_broker

SLOWER_AT_MOST = 3.0
MEMORY_LIMIT_BYTES = 1024 * 1024 * 1024
"""Most memory of the gateway's process under these kinds of peers."""

_IDLE_LIMIT_S = 10
_PUBLISH_EVERY_S = 10.0


class Verdict(NamedTuple):
    """One line of the table."""

    what: str
    seen: str
    limit: str
    is_fine: bool


class PublishedCluster:
    """The looked-up cluster and the good brokers, published again and again, so that the job seems to run."""

    def __init__(self, root: Path) -> None:
        self._registry = RuledRegistry(root)
        registered = [registration(number, TOPICS) for number in range(MASTERS)]
        registered += [registration(number, BROKER_TOPICS, cluster=CLUSTER) for number in range(BROKERS)]
        self._registry.apply(*map(register_broker, registered))
        self._registry.publish()

    def publish_again(self, stop: threading.Event) -> None:
        """Publish again until `stop` is set; for a thread."""
        while not stop.wait(_PUBLISH_EVERY_S):
            self._registry.at_ms = now_ms()
            self._registry.publish()


class Memory:
    """The most memory that a process has used; for a thread."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.peak_bytes = 0

    def watch(self, stop: threading.Event) -> None:
        """Watch until `stop` is set, or the process has ended."""
        with suppress(psutil.NoSuchProcess):
            while not stop.wait(0.5):
                self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)


@contextmanager
def in_background(*works: Any) -> Iterator[None]:
    """Run each `work(stop)` in a thread within the `with`."""
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(stop,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def soak(folder: Path, storm_s: float, only: str) -> list[Verdict]:
    """Run the calm first, then the storm."""
    calm_s = min(60.0, storm_s / 2)
    cluster, metrics_port = PublishedCluster(folder / "registry"), free_ports(1)
    own = {"metricsPort": metrics_port, "serverChannelMaxIdleTimeSeconds": _IDLE_LIMIT_S}
    with running_kafka(folder) as (kafka, options), gateway_process(folder, {**own, **options}) as (port, pid):
        memory = Memory(pid)
        program = [sys.executable, "-m", "benchmarks.good_peers", str(port), str(calm_s), str(storm_s)]
        with (
            in_background(cluster.publish_again, memory.watch),
            subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as good,
        ):
            assert good.stdout is not None, "it is a pipe"
            calm = json.loads(good.stdout.readline())
            calm_bytes = memory.peak_bytes
            attackers = [sys.executable, "-m", "benchmarks.attacks", str(port), str(metrics_port), only]
            attack = OwnedProcess(["nice", "-n", "10", *attackers], folder / "attacks.log", env=dict(os.environ))
            try:
                storm = json.loads(good.stdout.readline())
            finally:
                attack.kill()
        longest_s, closed = silences(kafka, storm["ended_at_ms"])
    log = (folder / "gateway.log").read_text()
    return [
        *of_good_peers(calm, storm, longest_s, closed),
        Verdict(
            "gateway's memory, MiB",
            f"{calm_bytes >> 20} calm, {memory.peak_bytes >> 20} at most",
            f"{MEMORY_LIMIT_BYTES >> 20}",
            memory.peak_bytes < MEMORY_LIMIT_BYTES,
        ),
        *(named(kind.name, host_of(kind), log) for kind in chosen(only)),
    ]


def of_good_peers(calm: dict[str, Any], storm: dict[str, Any], longest_s: float, closed: int) -> list[Verdict]:
    """Return the verdicts that follow from the good peers' events and the log on Kafka."""
    times = storm["p99_ms"] / calm["p99_ms"]
    lease_s = DEFAULT_HEARTBEAT_TIMEOUT_MS / 1000
    problems = calm["problems"] + storm["problems"]
    shown = f"{len(problems)} of {storm['registrations']} registrations and {storm['lookups']} lookups"
    return [
        Verdict("good peers refused or disconnected", "; ".join([shown, *problems[:3]]), "0", not problems),
        Verdict(
            "slowest registration, s",
            f"{storm['slowest_registration_s']:.2f}",
            "24",
            storm["slowest_registration_s"] < 24,
        ),
        Verdict("lookups' p50, ms", f"{calm['p50_ms']:.2f} calm, {storm['p50_ms']:.2f} in the storm", "", True),
        Verdict(
            "lookups' p99, ms",
            f"{calm['p99_ms']:.2f} calm, {storm['p99_ms']:.2f} in the storm: x {times:.1f}",
            f"x {SLOWER_AT_MOST:g}",
            times <= SLOWER_AT_MOST,
        ),
        Verdict(
            "longest silence of a good broker on Kafka, s", f"{longest_s:.1f}", f"{lease_s:g}", longest_s < lease_s
        ),
        Verdict("good brokers reported as disconnected to Kafka", str(closed), "0", closed == 0),
    ]


def named(kind: str, host: str, log: str) -> Verdict:
    """Return whether the log names a hostile peer."""
    lines = [line for line in log.splitlines() if f"{host}:" in line or f"{host} " in line]
    example = lines[0].split(" ", 3)[-1] if lines else "nowhere"
    return Verdict(f"named in the log: {kind}", f"{len(lines)} lines: {example[:90]}", "1 line", bool(lines))


def silences(kafka: LocalKafka, ended_at_ms: int) -> tuple[float, int]:
    """Return the good brokers' longest time between two records, and how many of their connections were lost.

    Records from the time when the good peers ended their connections themselves do not count.
    """
    good = {registration(number, BROKER_TOPICS, cluster=CLUSTER).ext_fields["brokerAddr"] for number in range(BROKERS)}  # type: ignore[index]
    heard: dict[str, int] = {}
    longest_ms, closed = 0, 0
    for key, value, at_ms in records(kafka):
        if key not in good or at_ms >= ended_at_ms:
            continue
        if b'"CHANNEL_CLOSED"' in value[:40]:
            closed += 1
            continue
        longest_ms = max(longest_ms, at_ms - heard.get(key, at_ms))
        heard[key] = at_ms
    return longest_ms / 1000, closed


def records(kafka: LocalKafka) -> Iterator[tuple[str, bytes, int]]:
    """Return key, beginning of the value, and time of all records that are on Kafka now."""
    options = {"bootstrap.servers": kafka.bootstrap_servers}
    end = end_offsets(options, DEFAULT_TOPIC)[0]
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False
    )
    place = TopicPartition(DEFAULT_TOPIC, 0)
    try:
        consumer.assign([place])
        consumer.seek_to_beginning()
        while consumer.position(place) < end:
            for found in consumer.poll(1_000).values():
                yield from ((each.key.decode(), each.value, each.timestamp) for each in found)
    finally:
        consumer.close()


@benchmark(
    option("--minutes", 10.0, "Of the storm."),
    option("--only", "", "The kind of hostile peers whose name begins so; all unless set."),
)
def main(bench: Bench, minutes: float, only: str) -> bool:
    """Print the verdicts."""
    verdicts = soak(bench.folder, minutes * 60, only)
    lines = [(what, seen, limit, "ok" if is_fine else "NOT OK") for what, seen, limit, is_fine in verdicts]
    kinds = len(chosen(only))
    title = f"{CLIENTS} clients, {BROKERS} brokers, {kinds} kinds of hostile peers for {minutes:g} minutes"
    bench.rows(("", "seen", "limit", ""), lines, title)
    return not all(verdict.is_fine for verdict in verdicts)


if __name__ == "__main__":
    main()
