"""Run fifty brokers that register and a hundred clients that look topics up, in a process of its own.

    python -m benchmarks.good_peers PORT CALM_SECONDS STORM_SECONDS

It prints one line of JSON after the calm, and one after the storm.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.gateway import TOPICS
from benchmarks.harness import percentile
from benchmarks.peers import AsyncPeer, registration
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand

BROKERS = 50
CLIENTS = 100
BROKER_TOPICS = 200
CLUSTER = "good"
REGISTER_EVERY_S = 5.0
_ASK_EVERY_S = 0.1
_ANSWER_LIMIT_S = 24.0
"""Longest time that a broker waits for the answer to its registration."""


@dataclass
class Seen:
    """Events of the good peers since the last printed line."""

    lookup_seconds: list[float] = field(default_factory=list)
    registration_seconds: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        """Return the events as JSON, for the process that started this one."""
        return json.dumps(
            {
                "lookups": len(self.lookup_seconds),
                "p50_ms": percentile(self.lookup_seconds, 0.50) * 1e3,
                "p99_ms": percentile(self.lookup_seconds, 0.99) * 1e3,
                "registrations": len(self.registration_seconds),
                "slowest_registration_s": max(self.registration_seconds, default=math.inf),
                "problems": self.problems,
                "ended_at_ms": time.time_ns() // 1_000_000,
            }
        )


async def broker(port: int, number: int, seen: Seen) -> None:
    """Register over one connection, again and again. A lost connection is a problem, and ends this broker."""
    registered = registration(number, BROKER_TOPICS, cluster=CLUSTER)
    await asyncio.sleep(REGISTER_EVERY_S * number / BROKERS)
    try:
        async with AsyncPeer(port, f"127.0.1.{number + 1}") as peer:
            while True:
                started_s = time.perf_counter()
                async with asyncio.timeout(_ANSWER_LIMIT_S):
                    answer = await peer.ask(registered)
                seen.registration_seconds.append(time.perf_counter() - started_s)
                if answer.code:
                    seen.problems.append(f"broker {number}: code {answer.code}, {answer.remark}")
                await asyncio.sleep(REGISTER_EVERY_S)
    except OSError as error:  # includes TimeoutError
        seen.problems.append(f"broker {number}: {type(error).__name__} {error}")


LOOKED_UP = tuple(f"topic-{number:05}" for number in range(TOPICS))


async def client(port: int, number: int, seen: Seen, topics: Sequence[str] = LOOKED_UP) -> None:
    """Look up one topic after the other over one connection."""
    await asyncio.sleep(_ASK_EVERY_S * number / CLIENTS)
    try:
        async with AsyncPeer(port, f"127.0.2.{number + 1}") as peer:
            for asked in range(sys.maxsize):
                topic = topics[(number * 7 + asked) % len(topics)]
                command = RemotingCommand(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": topic})
                started_s = time.perf_counter()
                answer = await peer.ask(command)
                seen.lookup_seconds.append(time.perf_counter() - started_s)
                if answer.code:
                    seen.problems.append(f"client {number}: code {answer.code}, {answer.remark}")
                await asyncio.sleep(_ASK_EVERY_S)
    except OSError as error:
        seen.problems.append(f"client {number}: {type(error).__name__} {error}")


async def run(port: int, phases_s: list[float]) -> None:
    """Run all peers for the two phases; print one line after each."""
    seen = Seen()
    peers = [broker(port, number, seen) for number in range(BROKERS)]
    peers += [client(port, number, seen) for number in range(CLIENTS)]
    tasks = [asyncio.ensure_future(peer) for peer in peers]
    await asyncio.sleep(REGISTER_EVERY_S)
    for phase_s in phases_s:
        seen.lookup_seconds.clear()
        seen.registration_seconds.clear()
        await asyncio.sleep(phase_s)
        print(seen.line(), flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), [float(phase_s) for phase_s in sys.argv[2:]]))
