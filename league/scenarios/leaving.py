"""Brokers that leave the routes, and brokers that must not leave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from league.broker import Broker
from league.scenario import Needs, scenario
from league.trial import Trial

_BROKERS = 60
_ROUNDS = 3
_LOAD_TOPICS = 20_000
_SHORT_MS = 1_000
_SILENT_MS = 10_000
_NOTICED_WITHIN_S = 3.0
_SEEN_WITHIN_S = 180.0
_GONE_WITHIN_S = 60.0


@scenario("apache/rocketmq#5374")
def a_late_unregistration_takes_away_its_sender_alone(trial: Trial) -> None:
    """After a switch the new master has registered at another address. The old one's unregistration comes late and
    takes the new master away, because it goes by name and id.

    Right: Who unregisters takes away itself alone.
    """
    old, new = trial.broker(), trial.broker()
    for broker in (old, new):
        broker.register(trial.topics("t", "u"))
    old.unregister()
    trial.settle()
    trial.expect("the addresses in the route", trial.addresses("t"), [new.address])


@scenario("apache/rocketmq#11043", needs=Needs.SERVERS)
def a_fresh_registration_survives_the_end_of_the_old_connection(trial: Trial) -> None:
    """A broker's connection breaks and it registers over a new one. The removal for the old connection was decided
    before and is done after, and takes the fresh registration away for up to 30 s. Tried with 60 brokers three times,
    while one with 20,000 topics registers.

    Right: The end of an old connection takes nothing away that came over a new one.
    """

    def reconnect(before: Broker, after: Broker) -> None:
        before.line.close()
        after.register(trial.topics("t", "u"))

    _race(trial, reconnect)


@scenario("apache/rocketmq#11043", needs=Needs.SERVERS | Needs.V5)
def a_fresh_registration_survives_the_end_of_the_old_lease(trial: Trial) -> None:
    """A broker is silent for longer than its timeout, is closed, and registers anew. The removal that its silence led
    to is done after that. Tried with 60 brokers three times, while one with 20,000 topics registers.

    Right: A broker that has registered after its timeout is there.
    """

    def come_back(before: Broker, after: Broker) -> None:
        before.line.is_closed_by_server(_NOTICED_WITHIN_S)
        after.timeout_ms = None
        after.register(trial.topics("t", "u"))

    _race(trial, come_back, timeout_ms=_SHORT_MS)


@scenario("apache/rocketmq#11043", needs=Needs.SERVERS)
def a_registration_survives_the_unregistration_before_it(trial: Trial) -> None:
    """A broker restarts in order: it unregisters, and registers at once over a new connection. The unregistration was
    answered, waits in a queue, and takes the fresh registration away. Tried with 60 brokers three times, while one with
    20,000 topics registers.

    Right: What is answered first is done first.
    """

    def restart(before: Broker, after: Broker) -> None:
        before.unregister()
        after.register(trial.topics("t", "u"))

    _race(trial, restart)


@scenario("apache/rocketmq#11043", needs=Needs.SERVERS)
def a_broker_leaves_with_its_last_connection_to_any_server(trial: Trial) -> None:
    """A broker is connected to two name servers and loses one connection. That server removes it, although it lives and
    the other one knows.

    Right: A broker that is connected to one of the servers is in the routes of all.
    """
    first = trial.broker(server=0)
    second = first.over(trial.connect(server=1))
    for broker in (first, second):
        broker.register(trial.topics("t", "u"))
    first.line.close()
    for server in (0, 1):
        trial.settle(server)
    seen = [trial.addresses("t", server=server) for server in (0, 1)]
    trial.expect("the addresses at each server", seen, [[first.address]] * 2)


@scenario("apache/rocketmq#9290", needs=Needs.SERVERS | Needs.V5)
def a_silent_broker_leaves_although_its_connection_is_open(trial: Trial) -> None:
    """The network to a broker is cut. Its connection stays open without a sign of life.

    Right: It leaves the routes once its timeout is over.
    """
    broker = trial.broker(timeout_ms=_SILENT_MS)

    def seen_while_it_speaks() -> list[str]:
        broker.register(trial.topics("t", "u"))
        return trial.addresses("t")

    trial.await_right("the addresses while it lives", seen_while_it_speaks, [broker.address], _SEEN_WITHIN_S)
    trial.await_right("the addresses in the route", lambda: trial.addresses("t"), [], _GONE_WITHIN_S)


def _race(trial: Trial, comes_back: Callable[[Broker, Broker], None], **more: Any) -> None:
    """Have many brokers come back at the same time, each over a new connection, and expect all of them in the route."""
    topics = trial.topics("t", "u")
    for number in range(_ROUNDS):
        before = [trial.broker(f"broker-{number}-{each}", **more) for each in range(_BROKERS)]
        for broker in before:
            broker.register(topics)
        after = [broker.over(trial.connect()) for broker in before]
        with _load(trial), ThreadPoolExecutor(_BROKERS) as pool:
            list(pool.map(comes_back, before, after))
        trial.settle()
        trial.expect(f"brokers in the route, round {number + 1}", len(trial.addresses("t")), _BROKERS)
        for broker in after:
            broker.unregister()


@contextmanager
def _load(trial: Trial) -> Iterator[None]:
    """Within the `with` another broker with many topics registers without end, so that the server has work."""
    stop = threading.Event()
    other = trial.broker("other")
    registration = other.registration(trial.topics(*(f"load-{number}" for number in range(_LOAD_TOPICS))))
    other.line.ask(registration)

    def register() -> None:
        with suppress(ConnectionError):
            while not stop.is_set():
                other.line.ask(registration)

    loading = threading.Thread(target=register, name="load")
    loading.start()
    try:
        yield
    finally:
        stop.set()
        loading.join()
