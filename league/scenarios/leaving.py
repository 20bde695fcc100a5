"""Who leaves the routes, and who must not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from league.broker import Broker
from league.scenario import Needs, scenario
from league.trial import Trial

_RACES = 60
_LOAD_TOPICS = 5_000
_SHORT_MS = 1_000
_NOTICED_WITHIN_S = 3.0
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
    before and is done after, and takes the fresh registration away for up to 30 s. Tried with 60 brokers while others
    register.

    Right: The end of an old connection takes nothing away that came over a new one.
    """
    brokers = [trial.broker(f"broker-{number}") for number in range(_RACES)]
    topics = trial.topics("t", "u")
    for broker in brokers:
        broker.register(topics)
    fresh = [broker.over(trial.connect()) for broker in brokers]
    with _load(trial), ThreadPoolExecutor(_RACES) as pool:
        for before, after in zip(brokers, fresh, strict=True):
            before.line.close()
            pool.submit(after.register, topics)
    trial.settle()
    trial.expect("brokers in the route", len(trial.addresses("t")), _RACES)


@scenario("apache/rocketmq#11043", needs=Needs.SERVERS | Needs.V5)
def a_fresh_registration_survives_the_end_of_the_old_lease(trial: Trial) -> None:
    """A broker is silent for longer than its timeout, is closed, and registers anew. The removal that its silence led
    to is done after that. Tried with 60 brokers while others register.

    Right: A broker that has registered after its timeout is there.
    """
    topics = trial.topics("t", "u")
    brokers = [trial.broker(f"broker-{number}", timeout_ms=_SHORT_MS) for number in range(_RACES)]
    for broker in brokers:
        broker.register(topics)

    def come_back(broker: Broker) -> None:
        broker.line.is_closed_by_server(_NOTICED_WITHIN_S)
        broker.timeout_ms = None
        again = broker.over(trial.connect())
        again.register(topics)

    with _load(trial), ThreadPoolExecutor(_RACES) as pool:
        list(pool.map(come_back, brokers))
    trial.settle()
    trial.expect("brokers in the route", len(trial.addresses("t")), _RACES)


@scenario("apache/rocketmq#11043", needs=Needs.SERVERS)
def a_registration_survives_the_unregistration_before_it(trial: Trial) -> None:
    """A broker restarts in order: it unregisters, and registers at once over a new connection. The unregistration was
    answered, waits in a queue, and takes the fresh registration away. Tried with 60 brokers while others register.

    Right: What is answered first is done first.
    """
    topics = trial.topics("t", "u")
    brokers = [trial.broker(f"broker-{number}") for number in range(_RACES)]
    for broker in brokers:
        broker.register(topics)
    fresh = [broker.over(trial.connect()) for broker in brokers]

    def restart(before: Broker, after: Broker) -> None:
        before.unregister()
        after.register(topics)

    with _load(trial), ThreadPoolExecutor(_RACES) as pool:
        list(pool.map(restart, brokers, fresh))
    trial.settle()
    trial.expect("brokers in the route", len(trial.addresses("t")), _RACES)


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
    trial.broker(timeout_ms=_SHORT_MS).register(trial.topics("t", "u"))
    trial.await_right("the addresses in the route", lambda: trial.addresses("t"), [], _GONE_WITHIN_S)


@contextmanager
def _load(trial: Trial) -> Iterator[None]:
    """Within the `with` other brokers with many topics register without end, so that the servers have work."""
    stop = threading.Event()
    others = [trial.broker(f"other-{number}") for number in range(2)]
    topics = trial.topics(*(f"load-{number}" for number in range(_LOAD_TOPICS)))

    def register(broker: Broker) -> None:
        with suppress(ConnectionError):
            while not stop.is_set():
                broker.register(topics)

    with ThreadPoolExecutor(len(others)) as pool:
        for broker in others:
            broker.register(topics)
            pool.submit(register, broker)
        try:
            yield
        finally:
            stop.set()
