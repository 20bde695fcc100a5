"""Measure the cost of auth.mode=writes: two gateways on the same Kafka and tables, one with auth.mode=off, in turn.

    python -m benchmarks.authentication

The loads are lookups as clients send them, unsigned and signed, and signed registrations that are unchanged.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import timeit
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.gateway import BROKERS_BY_TOPICS, TOPICS, publish_cluster
from benchmarks.load import Load, Series
from benchmarks.peers import registration
from benchmarks.processes import gateway_process, machine_text
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand
from namesrv_stream.wire.signature import is_signed_with, signed

MODES = ("off", "writes")
KEY, SECRET = "broker", b"benchmark-secret"
USERS = """
[[user]]
name = "broker"
role = "broker"
accessKey = "broker"
secretKey = "benchmark-secret"
clusters = ["*"]
names = ["*"]
addresses = ["*"]
"""


def lookups(*, is_signed: bool) -> list[Series]:
    """Return eight connections' lookups of all topics."""
    commands = [
        RemotingCommand(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": f"topic-{number:05}"})
        for number in range(TOPICS)
    ]
    requests = [signed(command, KEY, SECRET) if is_signed else command for command in commands]
    return [Series(requests, at * TOPICS // 8) for at in range(8)]


def registrations(topics: int) -> list[Series]:
    """Return each broker's unchanged registration."""
    commands = (registration(broker, topics, cluster=f"r{topics}") for broker in range(BROKERS_BY_TOPICS[topics]))
    return [Series([signed(each, KEY, SECRET)]) for each in commands]


LOADS: dict[str, tuple[Callable[[], list[Series]], int]] = {
    "lookups, unsigned, 8 x 16 in flight": (lambda: lookups(is_signed=False), 16),
    "lookups, signed, 8 x 16 in flight": (lambda: lookups(is_signed=True), 16),
    "registrations of 20 topics, unchanged, signed": (lambda: registrations(20), 1),
    "registrations of 10,000 topics, unchanged, signed": (lambda: registrations(10_000), 1),
}


def measure(
    ports: dict[str, int], series: list[Series], in_flight: int, seconds: float, rounds: int
) -> dict[str, float]:
    """Return the requests a second of each mode: the median of the rounds, in which the modes take turns."""
    loads = {mode: Load(port, series, in_flight) for mode, port in ports.items()}
    found: dict[str, list[float]] = {mode: [] for mode in ports}
    for number in range(rounds + 1):
        for mode in MODES if number % 2 else MODES[::-1]:
            figures = loads[mode].run(seconds)
            if figures.failed:
                raise click.ClickException(f"{figures.failed} requests failed with auth.mode={mode}")
            if number:  # the first warms up
                found[mode].append(figures.per_second)
    for load in loads.values():
        load.close()
    return {mode: statistics.median(each) for mode, each in found.items()}


def signature_us(topics: int) -> float:
    """Return the shortest time in microseconds that the event loop needs for the signature of one registration."""
    command = signed(registration(0, topics), KEY, SECRET)
    return min(timeit.repeat(lambda: is_signed_with(command, SECRET), number=1, repeat=500)) * 1e6


@click.command()
@click.option("--seconds", type=click.FloatRange(0.1), default=2.0, show_default=True, help="A round of one mode.")
@click.option("--rounds", type=click.IntRange(1), default=9, show_default=True)
def main(seconds: float, rounds: int) -> None:
    """Print one line for each load, both modes side by side."""
    before = os.getloadavg()[0]
    table = Table("load", "off /s", "writes /s", "times")
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        publish_cluster(folder / "registry")
        (folder / "users.toml").touch(0o600)
        (folder / "users.toml").write_text(USERS)
        kafka = opened.enter_context(LocalKafka(folder / "kafka")).bootstrap_servers
        options = {"kafka.bootstrap.servers": kafka, "auth.usersPath": folder / "users.toml"}
        asked = signed(registration(0, 1, cluster="warm"), KEY, SECRET)
        ports = {
            mode: opened.enter_context(
                gateway_process(folder, {**options, "auth.mode": mode}, log=f"{mode}.log", asked=asked)
            )[0]
            for mode in MODES
        }
        for what, (series, in_flight) in LOADS.items():
            found = measure(ports, series(), in_flight, seconds, rounds)
            table.add_row(what, *(f"{found[mode]:,.0f}" for mode in MODES), f"{found['writes'] / found['off']:.2f}")
    console = Console(width=110)
    console.print(table)
    for topics in BROKERS_BY_TOPICS:
        console.print(f"the signature of a registration of {topics:,} topics takes {signature_us(topics):,.0f} µs")
    console.print(machine_text(before))


if __name__ == "__main__":
    main()
