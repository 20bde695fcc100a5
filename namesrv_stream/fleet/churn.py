"""What happens to brokers by chance. Each kind has its own dice, so that adding one leaves the others as they were."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from namesrv_stream.fleet.broker import Broker
from namesrv_stream.fleet.plan import Churn
from namesrv_stream.fleet.topology import random_topic
from namesrv_stream.rules.requests import BrokerRequest

if TYPE_CHECKING:
    from namesrv_stream.fleet.model import FleetModel

RESTART_MS = (5_000, 20_000)
"""How long an orderly restart takes, from and to."""
CRASH_LEASES = (0.5, 2.5)
"""How long a crashed broker stays away, in leases: some are back before anybody noticed."""
FLAPS = 3
FLAP_LEASES = 1.2
PROMOTION_MS = 5_000


Action = Callable[["FleetModel", random.Random, Broker, int], Iterable[BrokerRequest]]


def schedule_churn(model: FleetModel, kind: Churn, per_minute: float, from_ms: int) -> None:
    """Lets actions of this kind happen from now on, at random times, `per_minute` of them on average."""
    rng = random.Random(f"{model.plan.seed}/{kind}")
    fits, act = _KINDS[kind]

    def happen(at_ms: int) -> Iterable[BrokerRequest]:
        model.at(at_ms + _gap_ms(rng, per_minute), happen)
        candidates = [broker for broker in model.brokers() if broker.up and fits(broker)]
        if not candidates:
            return ()
        model.happened[kind] += 1
        return act(model, rng, rng.choice(candidates), at_ms)

    model.at(from_ms + _gap_ms(rng, per_minute), happen)


def _crash(model: FleetModel, rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Falls silent and comes back some time later."""
    away_ms = round(rng.uniform(*CRASH_LEASES) * model.plan.lease_ms)
    model.at(at_ms + away_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _restart(model: FleetModel, rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Shuts down in order and starts again."""
    model.at(at_ms + rng.randint(*RESTART_MS), partial(model.start, broker))
    return model.unregister(broker, at_ms)


def _flap(model: FleetModel, _rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """Goes and comes several times in a row, each time long enough for its lease to end."""
    silence_ms = round(FLAP_LEASES * model.plan.lease_ms)
    for turn in range(1, FLAPS):
        model.at(at_ms + 2 * turn * silence_ms, partial(model.crash, broker))
    for turn in range(FLAPS):
        model.at(at_ms + (2 * turn + 1) * silence_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _promote(model: FleetModel, _rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """A master falls silent, a slave of it takes over at its own address, and the old one returns as slave."""
    model.at(at_ms + PROMOTION_MS, partial(model.promote, broker.group))
    model.at(at_ms + 2 * model.plan.lease_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _move(model: FleetModel, _rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """It and the others of its name are now another cluster's."""
    return model.move(broker.group, at_ms)


def _create_topic(model: FleetModel, rng: random.Random, broker: Broker, at_ms: int) -> Iterable[BrokerRequest]:
    """A user makes a topic on this master."""
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


_KINDS: dict[Churn, tuple[Callable[[Broker], bool], Action]] = {
    Churn.CRASH: (_is_any, _crash),
    Churn.RESTART: (_is_any, _restart),
    Churn.FLAP: (_is_any, _flap),
    Churn.PROMOTE: (_has_slave, _promote),
    Churn.MOVE: (_is_any, _move),
    Churn.CREATE_TOPIC: (_is_master, _create_topic),
}
