"""Random events of brokers. Each kind has its own random numbers, so that a new kind leaves the others as they were."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from namesrv_stream.rules.record_types import BrokerRequest, TopicConfig
from namesrv_stream.tools.fleet.broker import Broker, BrokerGroup
from namesrv_stream.tools.fleet.plan import Churn, FleetPlan
from namesrv_stream.tools.fleet.topology import random_topic

RESTART_MS = (5_000, 20_000)
"""Shortest and longest time that an orderly restart takes."""
CRASH_LEASES = (0.5, 2.5)
"""Shortest and longest absence of a crashed broker, in leases: some return before their lease ends."""
FLAPS = 3
FLAP_LEASES = 1.2
PROMOTION_MS = 5_000


class ChurnedFleet(Protocol):
    """The part of a fleet's model that random events use. Times are epoch milliseconds.

    Each action on a broker or a group returns the records that brokers send because of it.
    """

    plan: FleetPlan
    happened: Counter[Churn]

    def brokers(self) -> Iterable[Broker]:
        """Return all brokers, down or up."""

    def schedule(self, at_ms: int, action: Callable[[int], Iterable[BrokerRequest]], /) -> None:
        """Plan an action, which is called with its time."""

    def start(self, broker: Broker, at_ms: int, /) -> Iterable[BrokerRequest]:
        """Start a broker that is down."""

    def crash(self, broker: Broker, at_ms: int, /) -> Iterable[BrokerRequest]:
        """End a broker that sends nothing more."""

    def unregister(self, broker: Broker, at_ms: int, /) -> Iterable[BrokerRequest]:
        """Shut a broker down in order."""

    def promote(self, group: BrokerGroup, at_ms: int, /) -> Iterable[BrokerRequest]:
        """Make a slave of the group its master."""

    def move(self, group: BrokerGroup, at_ms: int, /) -> Iterable[BrokerRequest]:
        """Put the group under another cluster or broker name."""

    def put_topic(self, group: BrokerGroup, topic: str, config: TopicConfig, at_ms: int, /) -> Iterable[BrokerRequest]:
        """Create or change a topic of the group."""


Act = Callable[[ChurnedFleet, random.Random, Broker, int], Iterable[BrokerRequest]]
"""Let one event happen to a broker at a time; return the records that brokers send because of it."""


def schedule_churn(model: ChurnedFleet, kind: Churn, per_minute: float, from_ms: int) -> None:
    """Plan events of this kind from `from_ms` on, at random times, `per_minute` of them on average."""
    rng = random.Random(f"{model.plan.seed}/{kind}")
    fits, act = _KINDS[kind]

    def happen(at_ms: int) -> Iterable[BrokerRequest]:
        model.schedule(at_ms + _gap_ms(rng, per_minute), happen)
        candidates = [broker for broker in model.brokers() if broker.up and fits(broker)]
        if not candidates:
            return ()
        model.happened[kind] += 1
        return act(model, rng, rng.choice(candidates), at_ms)

    model.schedule(from_ms + _gap_ms(rng, per_minute), happen)


def _crash(model: ChurnedFleet, rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Crash a broker and start it again after a random time."""
    away_ms = round(rng.uniform(*CRASH_LEASES) * model.plan.lease_ms)
    model.schedule(at_ms + away_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _restart(model: ChurnedFleet, rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Shut a broker down in order and start it again."""
    model.schedule(at_ms + rng.randint(*RESTART_MS), partial(model.start, broker))
    return model.unregister(broker, at_ms)


def _flap(model: ChurnedFleet, _rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Crash and start a broker several times in a row; each absence is long enough for its lease to end."""
    silence_ms = round(FLAP_LEASES * model.plan.lease_ms)
    for turn in range(1, FLAPS):
        model.schedule(at_ms + 2 * turn * silence_ms, partial(model.crash, broker))
    for turn in range(FLAPS):
        model.schedule(at_ms + (2 * turn + 1) * silence_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _promote(model: ChurnedFleet, _rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Crash a master; one of its slaves becomes master at its own address, and the old master returns as a slave."""
    model.schedule(at_ms + PROMOTION_MS, partial(model.promote, broker.group))
    model.schedule(at_ms + 2 * model.plan.lease_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _move(model: ChurnedFleet, _rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Move a broker and the others of its name to another cluster or name."""
    return model.move(broker.group, at_ms)


def _create_topic(model: ChurnedFleet, rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Create a topic on a master, as a user would."""
    topic = f"new_topic_{model.happened[Churn.CREATE_TOPIC]}"
    return model.put_topic(broker.group, topic, random_topic(rng), at_ms)


def _is_any(_broker: Broker) -> bool:
    return True


def _is_master(broker: Broker) -> bool:
    return broker.is_master


def _has_slave(broker: Broker) -> bool:
    return broker.is_master and any(other.up and not other.is_master for other in broker.group.brokers)


def _gap_ms(rng: random.Random, per_minute: float) -> int:
    return max(1, round(rng.expovariate(per_minute) * 60_000))


_KINDS: dict[Churn, tuple[Callable[[Broker], bool], Act]] = {
    Churn.CRASH: (_is_any, _crash),
    Churn.RESTART: (_is_any, _restart),
    Churn.FLAP: (_is_any, _flap),
    Churn.PROMOTE: (_has_slave, _promote),
    Churn.MOVE: (_is_any, _move),
    Churn.CREATE_TOPIC: (_is_master, _create_topic),
}
