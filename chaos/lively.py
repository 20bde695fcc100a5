"""Brokers of RocketMQ 5.x over a gateway, on a thread of their own: leases of 10 s and a heartbeat every second."""

from __future__ import annotations

import select
import threading
from contextlib import suppress
from typing import Self

from benchmarks.lively_brokers import HEARTBEAT_EVERY_S, REGISTER_EVERY_S, Broker

_BEATS_A_REGISTRATION = round(REGISTER_EVERY_S / HEARTBEAT_EVERY_S)


class LivelyBrokers:
    """`count` brokers that have connections to the gateway at the port within a `with`.

    One that loses its connection connects and registers anew at its next heartbeat, as RocketMQ's do.
    """

    def __init__(self, port: int, count: int) -> None:
        self.reconnected = 0
        """Number of connections that were lost and made again."""
        self._port = port
        self._brokers: dict[int, Broker] = {}
        self._silent: set[int] = set()
        self._count = count
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lively-brokers", daemon=True)

    def __enter__(self) -> Self:
        self._brokers = {number: Broker(self._port, number) for number in range(self._count)}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        for broker in self._brokers.values():
            broker.socket.close()

    @property
    def living(self) -> set[str]:
        """The addresses of the brokers that send heartbeats."""
        return {broker.address for number, broker in self._brokers.items() if number not in self._silent}

    def silence(self, number: int) -> str:
        """Return the address of a broker that sends nothing more, as after a power cut: its connection stays open."""
        self._silent.add(number)
        return self._brokers[number].address

    def _run(self) -> None:
        beat = 0
        while not self._stopped.wait(HEARTBEAT_EVERY_S if beat else 0):
            for number in self._brokers.keys() - self._silent:
                with suppress(OSError):  # the gateway may refuse it for now: it tries again at its next heartbeat
                    self._beat(number, registers=(beat + number) % _BEATS_A_REGISTRATION == 0 or beat == 0)
            beat += 1

    def _beat(self, number: int, *, registers: bool) -> None:
        broker = self._brokers[number]
        try:
            while select.select([broker.socket], [], [], 0)[0]:
                broker.receive()
            broker.socket.sendall(broker.heartbeat + (broker.registration if registers else b""))
        except (OSError, ValueError):  # ValueError: it is closed, as the gateway has refused the last attempt
            broker.socket.close()
            self._brokers[number] = anew = Broker(self._port, number)
            self.reconnected += 1
            anew.socket.sendall(anew.registration)
