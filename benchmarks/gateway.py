"""Measure the gateway beside RocketMQ's own NameServer 5.4.0: in turn, in one run, under the same load.

    make bench-gateway

The load is lookups of 1,000 topics, and registrations of brokers with few and many topics, unchanged and changed each
time. The gateway runs as its users run it, in a process of its own with a real Kafka, on tables published before.

The load is one thread of a program in C, whose CPU time a request is the last column. What a request costs the server
is its CPU time, of all its threads.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.harness import Bench, benchmark, gateway_process, option, running_kafka
from benchmarks.large_registry import RuledRegistry
from benchmarks.load import Figures, Load, Series
from benchmarks.peers import NOW_MS, Peer, registration
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.write_requests import register_broker
from real_rocketmq.servers import name_server

TOPICS = 1_000
MASTERS = 4
"""Number of masters of the looked-up cluster; each topic is on all of them."""

BROKERS_BY_TOPICS = {20: 64, 1_000: 64, 10_000: 8}
"""Number of brokers that register at the same time, each over its connection with one registration in flight."""

CHANGED_BODIES = 8


def lookups() -> list[RemotingCommand]:
    """Return lookups of all topics, as a 5.x client sends them.

    Without topic-00000: a lookup of it would wait for the registration by which `gateway_process` tries Kafka (E12).
    """
    fields = ({"topic": f"topic-{number:05}", "acceptStandardJsonOnly": "true"} for number in range(1, TOPICS))
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    return [RemotingCommand(code=code, ext_fields=each) for each in fields]


def registrations(broker: int, topics: int, *, changed: bool) -> Series:
    """Return one broker's registrations: unchanged, or with a new version and one changed topic each time."""
    counters = range(1, 1 + (CHANGED_BODIES if changed else 1))
    cluster = f"r{topics}{'changed' if changed else 'same'}"
    return Series([registration(broker, topics, counter, cluster) for counter in counters])


def loads() -> dict[str, tuple[list[Series], int]]:
    """Return each load by name: a series of requests for each connection, and how many of them are in flight."""
    found, asked = {}, lookups()
    for connections, in_flight in ((1, 1), (8, 16), (1_000, 1)):
        series = [Series(asked, number * len(asked) // connections) for number in range(connections)]
        found[f"lookups, {connections:,} x {in_flight} in flight"] = (series, in_flight)
    for (topics, brokers), changed in itertools.product(BROKERS_BY_TOPICS.items(), (False, True)):
        what = f"registrations of {topics:,} topics, {'changed' if changed else 'unchanged'}, {brokers} brokers"
        found[what] = ([registrations(number, topics, changed=changed) for number in range(brokers)], 1)
    return found


def measure(port: int, pid: int, seconds: float, names: Collection[str]) -> dict[str, Figures]:
    """Return the figures of one server under the named loads, all of them if none is named."""
    chosen = {name: load for name, load in loads().items() if not names or name in names}
    return {name: run(port, pid, series, in_flight, seconds) for name, (series, in_flight) in chosen.items()}


def run(port: int, pid: int, series: list[Series], in_flight: int, seconds: float) -> Figures:
    """Warm the server up, then measure it."""
    with Load(port, series, in_flight) as load:
        load.run(seconds)
        figures = load.run(seconds, pid)
    time.sleep(0.5)
    return figures


def publish_cluster(root: Path) -> RuledRegistry:
    """Publish the looked-up cluster as a snapshot, as the job would."""
    registry = RuledRegistry(root, NOW_MS)
    registry.apply(*(register_broker(registration(broker, TOPICS)) for broker in range(MASTERS)))
    registry.publish()
    return registry


def of_name_server(folder: Path, seconds: float, names: Collection[str] = ()) -> dict[str, Figures]:
    """Measure RocketMQ's NameServer, with the cluster registered over connections that stay open."""
    with name_server(folder, serverChannelMaxIdleTimeSeconds="3600") as server, ExitStack() as brokers:
        for broker in range(MASTERS):
            peer = brokers.enter_context(closing(Peer(server.port)))
            peer.ask(registration(broker, TOPICS))
        assert server.pid is not None
        return measure(server.port, server.pid, seconds, names)


def of_gateway(folder: Path, seconds: float, names: Collection[str] = ()) -> dict[str, Figures]:
    """Measure the gateway, in a process of its own."""
    publish_cluster(folder / "registry")
    with (
        running_kafka(folder) as (_, options),
        gateway_process(folder, {"maxConnectionsPerAddress": 2_000, **options}) as (port, pid),
    ):
        return measure(port, pid, seconds, names)


@benchmark(option("--seconds", 6.0, "A figure."))
def main(bench: Bench, seconds: float) -> None:
    """Print one line for each load, both servers side by side."""
    theirs = of_name_server(bench.folder / "namesrv", seconds)
    ours = of_gateway(bench.folder, seconds)
    rows = []
    for what, their in theirs.items():
        our = ours[what]
        figures = (*their[:3], their.cpu_us, *our[:3], our.cpu_us)
        cells = [f"{cell:,.3g}" if cell < 100 else f"{cell:,.0f}" for cell in figures]
        failed = f" ({their.failed} and {our.failed} failed)" if their.failed or our.failed else ""
        rows.append([what + failed, *cells, f"x {our.per_second / their.per_second:.2f}", f"{our.load_cpu_us:.1f}"])
    of_server = ("p50 ms", "p99 ms", "CPU µs")
    bench.rows(("load", "NameServer /s", *of_server, "gateway /s", *of_server, "times", "of the load"), rows)


if __name__ == "__main__":
    main()
