"""Measure the cost of auth.mode=writes: two gateways on the same Kafka and tables, one with auth.mode=off, in turn.

    python -m benchmarks.authentication

The loads are lookups as clients send them, unsigned and signed, and signed registrations that are unchanged.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from contextlib import ExitStack

import click

from benchmarks.gateway import BROKERS_BY_TOPICS, TOPICS, publish_cluster
from benchmarks.harness import Bench, benchmark, gateway_process, option, running_kafka
from benchmarks.load import Load, Series
from benchmarks.peers import registration
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand, is_signed_with, signed

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


@benchmark(option("--seconds", 2.0, "A round of one mode."), option("--rounds", 9))
def main(bench: Bench, seconds: float, rounds: int) -> None:
    """Print one line for each load, both modes side by side."""
    folder, rows = bench.folder, []
    publish_cluster(folder / "registry")
    (folder / "users.toml").touch(0o600)
    (folder / "users.toml").write_text(USERS)
    asked = signed(registration(0, 1, cluster="warm"), KEY, SECRET)
    with ExitStack() as opened:
        options = opened.enter_context(running_kafka(folder))[1] | {"auth.usersPath": folder / "users.toml"}
        gateways = {
            mode: gateway_process(folder, {**options, "auth.mode": mode}, log=f"{mode}.log", asked=asked)
            for mode in MODES
        }
        ports = {mode: opened.enter_context(gateway)[0] for mode, gateway in gateways.items()}
        for what, (series, in_flight) in LOADS.items():
            found = measure(ports, series(), in_flight, seconds, rounds)
            rows.append([what, *(f"{found[mode]:,.0f}" for mode in MODES), f"{found['writes'] / found['off']:.2f}"])
    bench.rows(("load", "off /s", "writes /s", "times"), rows)
    for topics in BROKERS_BY_TOPICS:
        print(f"the signature of a registration of {topics:,} topics takes {signature_us(topics):,.0f} µs")


if __name__ == "__main__":
    main()
