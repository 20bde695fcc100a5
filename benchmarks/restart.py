"""Start a gateway on published tables, let all brokers register there anew, and measure what that writes to Kafka.

    .venv/bin/python -m benchmarks.restart                                  # 30 brokers with 10,000 topics each
    .venv/bin/python -m benchmarks.restart --brokers 300 --seconds 120

Each broker opens a connection and registers every 30 s what the tables show of it. The gateway is a process of its own
with a real Kafka; this process publishes a snapshot every few seconds, as the job would.
"""

from __future__ import annotations

import os
import select
import socket
import tempfile
import threading
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.large_registry import Plan, Registry, address_of
from benchmarks.processes import cpu_seconds, gateway_process, machine_text
from benchmarks.registration_body import encode_registration
from namesrv_stream.gateway.known_brokers import token_of
from namesrv_stream.rules.record_types import DataVersion, TopicConfig
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import RegisterBrokerHeader, header_fields
from namesrv_stream.wire.registration_request import (
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
)
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
    body = encode_registration(RegisterBrokerBody(TopicConfigSerializeWrapper(DataVersion(0, 1, 0), table)), 493)
    headers = [
        RegisterBrokerHeader(
            broker_name=plan.broker_name(number), broker_addr=address_of(number), cluster_name="c", broker_id=0
        )
        for number in range(plan.brokers)
    ]
    own = {"compressed": "false", "brokerId": "0"}
    return [
        RemotingCommand(code=RequestCode.REGISTER_BROKER, ext_fields=header_fields(each) | own, body=body)
        for each in headers
    ]


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


def measure(folder: Path, plan: Plan, seconds: float) -> Table:
    """Return the figures as a table."""
    said, stop = registrations_of(plan), threading.Event()
    registry = Registry(folder / "registry", plan, [token_of(each) for each in said])
    registry.publish_all()
    publishing = threading.Thread(target=keep_fresh, args=(registry, stop))
    publishing.start()
    try:
        options = {}
        with LocalKafka(folder / "kafka") as kafka:
            options["kafka.bootstrap.servers"] = kafka.bootstrap_servers
            with gateway_process(folder, options) as (port, pid):
                brokers = [Broker(port, each) for each in said]
                before_bytes, before_cpu_s = log_bytes(folder / "kafka"), cpu_seconds(pid)
                register_for(brokers, seconds)
                written = log_bytes(folder / "kafka") - before_bytes
                cpu_s = cpu_seconds(pid) - before_cpu_s
    finally:
        stop.set()
        publishing.join()
    waits_s = sorted(wait for broker in brokers for wait in broker.waits_s)
    table = Table("figure", "value", title=f"{plan.rows:,} rows; {seconds:g} s after the gateway's start")
    table.add_row("bytes of the registrations, MB", f"{len(said[0].body) * len(waits_s) / 1e6:,.1f}")
    table.add_row("written to Kafka, ticks included, MB", f"{written / 1e6:,.3f}")
    table.add_row("registrations answered", f"{len(waits_s):,}, {sum(broker.failed for broker in brokers)} failed")
    table.add_row("longest wait for an answer, ms", f"{waits_s[-1] * 1e3:,.0f}")
    table.add_row("CPU of the gateway, s", f"{cpu_s:.1f}")
    return table


@click.command()
@click.option("--brokers", type=click.IntRange(1), default=30, show_default=True)
@click.option("--topics", type=click.IntRange(1), default=10_000, show_default=True)
@click.option("--seconds", type=click.FloatRange(1), default=60.0, show_default=True)
def main(brokers: int, topics: int, seconds: float) -> None:
    """Print the figures."""
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="namesrv-bench-") as folder:
        table = measure(Path(folder), Plan(brokers, topics, has_own_topics=False), seconds)
    console = Console(width=100)
    console.print(table)
    console.print(machine_text(before))


if __name__ == "__main__":
    main()
