"""Start a gateway on published tables, let all brokers register there anew, and measure what that writes to Kafka.

    .venv/bin/python -m benchmarks.restart                                  # 30 brokers with 10,000 topics each
    .venv/bin/python -m benchmarks.restart --brokers 300 --seconds 120

Each broker opens a connection and registers every 30 s what the tables show of it. The gateway is a process of its own
with a real Kafka; this process publishes a snapshot every few seconds, as the job would.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Bench, benchmark, cpu_seconds, gateway_process, option, running_kafka
from benchmarks.large_registry import Plan, Registry, address_of
from benchmarks.peers import AsyncPeer, registration_of
from namesrv_stream.gateway.known_brokers import token_of
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.tools.local.process import HOST
from namesrv_stream.wire.headers import RegisterBrokerHeader
from namesrv_stream.wire.remoting_command import RemotingCommand

REGISTER_EVERY_S = 30.0
_PUBLISH_EVERY_S = 10.0


@dataclass
class Seen:
    """The seconds that brokers waited for answers, and how many answers were refusals."""

    waits_s: list[float] = field(default_factory=list)
    failed: int = 0


async def broker(port: int, command: RemotingCommand, first_s: float, seen: Seen) -> None:
    """Connect after a time, and register again and again what the tables show of this broker."""
    await asyncio.sleep(first_s)
    async with AsyncPeer(port, HOST) as peer:
        while True:
            began_s = time.monotonic()
            seen.failed += (await peer.ask(command)).code != 0
            seen.waits_s.append(time.monotonic() - began_s)
            await asyncio.sleep(began_s + REGISTER_EVERY_S - time.monotonic())


def registrations_of(plan: Plan) -> list[RemotingCommand]:
    """Return the request of each broker of the plan; all have the same body."""
    table = {plan.topic(0, number): TopicConfig(8, 8, 6) for number in range(plan.topics)}
    headers = (
        RegisterBrokerHeader(
            broker_name=plan.broker_name(number), broker_addr=address_of(number), cluster_name="c", broker_id=0
        )
        for number in range(plan.brokers)
    )
    return [registration_of(header, table, 0, started_ms=1) for header in headers]


async def register_for(port: int, said: list[RemotingCommand], seconds: float) -> Seen:
    """Let each broker register every 30 s, evenly spread, for `seconds`."""
    seen, share_s = Seen(), REGISTER_EVERY_S / len(said)
    brokers = asyncio.gather(*(broker(port, each, number * share_s, seen) for number, each in enumerate(said)))
    with suppress(TimeoutError):
        await asyncio.wait_for(brokers, seconds)
    return seen


def log_bytes(kafka: Path) -> int:
    """Return the size of the topic's log on disk."""
    return sum(path.stat().st_size for path in kafka.rglob("broker-heartbeats-0/*.log"))


def keep_fresh(registry: Registry, stop: threading.Event) -> None:
    """Publish a snapshot every few seconds until `stop` is set; for a thread."""
    while not stop.wait(_PUBLISH_EVERY_S):
        registry.publish_again()


def measure(folder: Path, plan: Plan, seconds: float) -> dict[str, str]:
    """Return the figures."""
    said, stop = registrations_of(plan), threading.Event()
    registry = Registry(folder / "registry", plan, [token_of(each) for each in said])
    registry.publish_all()
    publishing = threading.Thread(target=keep_fresh, args=(registry, stop))
    publishing.start()
    try:
        with running_kafka(folder) as (_, options), gateway_process(folder, options) as (port, pid):
            before_bytes, before_cpu_s = log_bytes(folder / "kafka"), cpu_seconds(pid)
            seen = asyncio.run(register_for(port, said, seconds))
            written = log_bytes(folder / "kafka") - before_bytes
            cpu_s = cpu_seconds(pid) - before_cpu_s
    finally:
        stop.set()
        publishing.join()
    return {
        "bytes of the registrations, MB": f"{len(said[0].body) * len(seen.waits_s) / 1e6:,.1f}",
        "written to Kafka, ticks included, MB": f"{written / 1e6:,.3f}",
        "registrations answered": f"{len(seen.waits_s):,}, {seen.failed} failed",
        "longest wait for an answer, ms": f"{max(seen.waits_s) * 1e3:,.0f}",
        "CPU of the gateway, s": f"{cpu_s:.1f}",
    }


@benchmark(option("--brokers", 30), option("--topics", 10_000), option("--seconds", 60.0))
def main(bench: Bench, brokers: int, topics: int, seconds: float) -> None:
    """Print the figures."""
    plan = Plan(brokers, topics, has_own_topics=False)
    title = f"{plan.rows:,} rows; {seconds:g} s after the gateway's start"
    bench.columns({"value": measure(bench.folder, plan, seconds)}, title)


if __name__ == "__main__":
    main()
