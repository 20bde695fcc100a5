"""Start a gateway on published tables, let all brokers register there anew, and measure what that writes to Kafka.

    .venv/bin/python -m benchmarks.restart                                  # 30 brokers with 10,000 topics each
    .venv/bin/python -m benchmarks.restart --brokers 300 --seconds 120

Each broker opens a connection and registers every 30 s what the tables show of it. The gateway is a process of its own
with a real Kafka; this process publishes a snapshot every few seconds, as the job would.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from pathlib import Path

from benchmarks.harness import Bench, benchmark, cpu_seconds, gateway_process, option, running_kafka
from benchmarks.large_registry import Plan, Registry, address_of
from benchmarks.peers import registration_of
from namesrv_stream.gateway.known_brokers import token_of
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import RegisterBrokerHeader
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

REGISTER_EVERY_S = 30.0
_PUBLISH_EVERY_S = 10.0
_ANSWER_LIMIT_S = 24.0


class Broker:
    """A broker whose registration is what the tables show."""

    def __init__(self, port: int, command: RemotingCommand) -> None:
        self._frame = encode_command(command)
        self._decoder = FrameDecoder()
        self._sent_s = 0.0
        self._port = port
        self._socket: socket.socket | None = None
        self.waits_s: list[float] = []
        self.failed = 0

    def register(self) -> socket.socket:
        """Send the registration, over a connection that is opened for the first one. Return its socket."""
        if self._socket is None:  # a gateway closes a connection over which nothing comes for 10 s
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=_ANSWER_LIMIT_S)
        self._sent_s = time.monotonic()
        self._socket.sendall(self._frame)
        return self._socket

    def receive(self) -> None:
        """Read answers."""
        assert self._socket is not None, "it has registered"
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionResetError("the gateway has closed the connection")
        for answer in self._decoder.feed(data):
            self.waits_s.append(time.monotonic() - self._sent_s)
            self.failed += answer.code != 0


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


def register_for(brokers: list[Broker], seconds: float) -> None:
    """Let each broker register every 30 s, evenly spread, for `seconds`."""
    poll = select.epoll()
    by_number: dict[int, Broker] = {}
    share_s = REGISTER_EVERY_S / len(brokers)
    began_s, count = time.monotonic(), 0
    while (now_s := time.monotonic()) < began_s + seconds:
        due_s = began_s + count * share_s
        if now_s >= due_s:
            broker = brokers[count % len(brokers)]
            number = broker.register().fileno()
            if number not in by_number:
                by_number[number] = broker
                poll.register(number, select.EPOLLIN)
            count += 1
            continue
        for number, _ in poll.poll(due_s - now_s):
            by_number[number].receive()


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
            brokers = [Broker(port, each) for each in said]
            before_bytes, before_cpu_s = log_bytes(folder / "kafka"), cpu_seconds(pid)
            register_for(brokers, seconds)
            written = log_bytes(folder / "kafka") - before_bytes
            cpu_s = cpu_seconds(pid) - before_cpu_s
    finally:
        stop.set()
        publishing.join()
    waits_s = sorted(wait for broker in brokers for wait in broker.waits_s)
    return {
        "bytes of the registrations, MB": f"{len(said[0].body) * len(waits_s) / 1e6:,.1f}",
        "written to Kafka, ticks included, MB": f"{written / 1e6:,.3f}",
        "registrations answered": f"{len(waits_s):,}, {sum(broker.failed for broker in brokers)} failed",
        "longest wait for an answer, ms": f"{waits_s[-1] * 1e3:,.0f}",
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
