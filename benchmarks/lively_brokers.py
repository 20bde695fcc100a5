"""Run brokers with leases of 10 s that send a heartbeat every second, in a process of its own.

    python -m benchmarks.lively_brokers PORT BROKERS SECONDS

It prints `ready` when all have registered, and at the end one line of JSON. Brokers behave as 5.x does with
enableSlaveActingMaster: a oneway BROKER_HEARTBEAT every second, and a registration every 30 s.
"""

from __future__ import annotations

import heapq
import json
import resource
import select
import socket
import sys
import time

from benchmarks.peers import registration_of
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import Flag, RequestCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import RegisterBrokerHeader
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

LEASE_MS = 10_000
HEARTBEAT_EVERY_S = 1.0
REGISTER_EVERY_S = 30.0
TOPICS = 20
_REGISTERING = 64
"""Number of brokers that register at the same time at the start."""


class Broker:
    """One broker over one connection; `late_s` is how long after its time it sent a heartbeat, at most."""

    def __init__(self, port: int, number: int) -> None:
        self.address = f"172.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}:10911"
        host = f"127.{1 + (number >> 14)}.{number >> 7 & 127}.{1 + (number & 127)}"
        self.socket = socket.create_connection(("127.0.0.1", port), 30, source_address=(host, 0))
        named = {"brokerAddr": self.address, "brokerName": f"lively-{number}", "clusterName": "lively"}
        beat = RemotingCommand(code=RequestCode.BROKER_HEARTBEAT, flag=Flag.ONEWAY, ext_fields=named)
        self.heartbeat = encode_command(beat)
        self.registration = encode_command(registration(self.address, number))
        self.decoder = FrameDecoder()
        self.failed = 0

    def receive(self) -> int:
        """Read answers. Return their number. Raises ConnectionError if the gateway has closed the connection."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionResetError(f"the gateway has closed the connection of {self.address}")
        answers = list(self.decoder.feed(data))
        self.failed += sum(answer.code != 0 for answer in answers)
        return len(answers)


def registration(address: str, number: int, counter: int = 1) -> RemotingCommand:
    """Return the registration of a master with 20 topics and a lease of 10 s."""
    table = {f"topic-{topic:02}": TopicConfig(8 + counter % 2, 8, 6) for topic in range(TOPICS)}
    header = RegisterBrokerHeader(
        broker_name=f"lively-{number}",
        broker_addr=address,
        cluster_name="lively",
        broker_id=0,
        heartbeat_timeout_millis=LEASE_MS,
        enable_acting_master=True,
    )
    return registration_of(header, table, counter)


def register_all(brokers: list[Broker]) -> None:
    """Register all brokers, some at a time."""
    for first in range(0, len(brokers), _REGISTERING):
        several = brokers[first : first + _REGISTERING]
        for broker in several:
            broker.socket.sendall(broker.registration)
        for broker in several:
            while not broker.receive():
                pass


def run(brokers: list[Broker], seconds: float) -> dict[str, float]:
    """Send heartbeats and registrations for `seconds`, spread evenly over time. Return what was seen."""
    poll = select.epoll()
    by_number = {broker.socket.fileno(): broker for broker in brokers}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    started_s = time.monotonic()
    share_s = HEARTBEAT_EVERY_S / len(brokers)
    due = [(started_s + share_s * at, at, 0) for at in range(len(brokers))]
    sent, latest_s = 0, 0.0
    while due[0][0] < started_s + seconds:
        at_s, which, times = due[0]
        now_s = time.monotonic()
        if at_s > now_s:
            for number, _ in poll.poll(at_s - now_s):
                by_number[number].receive()
            continue
        latest_s = max(latest_s, now_s - at_s)
        registers = times % round(REGISTER_EVERY_S / HEARTBEAT_EVERY_S) == which % 30 and times
        broker = brokers[which]
        broker.socket.sendall(broker.heartbeat + (broker.registration if registers else b""))
        sent += 1
        heapq.heapreplace(due, (at_s + HEARTBEAT_EVERY_S, which, times + 1))
    taken_s = time.monotonic() - started_s
    return {
        "heartbeats_per_s": sent / taken_s,
        "latest_ms": latest_s * 1e3,
        "failed": sum(broker.failed for broker in brokers),
    }


def main(port: int, count: int, seconds: float) -> None:
    """Run the brokers."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    brokers = [Broker(port, number) for number in range(count)]
    register_all(brokers)
    print("ready", flush=True)
    print(json.dumps(run(brokers, seconds)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
