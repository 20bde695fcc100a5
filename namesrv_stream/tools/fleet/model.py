"""Decide which records a fleet sends and when, without clock and Kafka. Equal plans and starts give equal records.

Times are epoch milliseconds that the caller passes in. A model can be played in real time, faster, or all at once.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count

from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.texts import broker_text
from namesrv_stream.rules.record_types import MASTER_ID, BrokerRequest, TopicConfig
from namesrv_stream.tools.fleet.broker import (
    BrokerGroup,
    ChurnKind,
    FleetPlan,
    SimulatedBroker,
    build_groups,
    cluster_name,
    random_topic,
)

FIRST_PERIODIC_MS = 10_000
"""Time from the registration at start to the next one; it does not depend on the period (B1)."""

RESTART_MS = (5_000, 20_000)
"""Shortest and longest time that an orderly restart takes."""
CRASH_LEASES = (0.5, 2.5)
"""Shortest and longest absence of a crashed broker, in leases: some return before their lease ends."""
FLAPS = 3
FLAP_LEASES = 1.2
PROMOTION_MS = 5_000

Action = Callable[[int], Iterable[BrokerRequest]]
"""Function that lets something happen at a time, and returns the records that brokers send because of it."""


class FleetModel:
    """The brokers of a plan, from their start at `start_ms` on.

    `happened` counts the actions of churn. Each action on a broker or a group returns the records that brokers send
    because of it. Not thread-safe.
    """

    def __init__(self, plan: FleetPlan, start_ms: int) -> None:
        self.plan = plan
        self.groups = build_groups(plan, start_ms)
        self.happened: Counter[ChurnKind] = Counter()
        self._agenda: list[tuple[int, int, Action]] = []
        self._order = count()
        self._plan_start(start_ms)
        for kind, per_minute in plan.churn.items():
            schedule_churn(self, kind, per_minute, start_ms + plan.startup_ms)

    def brokers(self) -> Iterator[SimulatedBroker]:
        """Yield all brokers, down or up."""
        return chain.from_iterable(group.brokers for group in self.groups)

    def broker(self, broker_name: str, broker_id: int) -> SimulatedBroker:
        """Return the broker that has this id of this name now. Raises NamesrvError."""
        for broker in self.brokers():
            if broker.broker_id == broker_id and broker.group.broker_name == broker_name:
                return broker
        raise NamesrvError(f"the fleet has no broker {broker_text(broker_name, broker_id)}")

    @property
    def next_at_ms(self) -> int | None:
        """The time of the next planned action, None if there is none."""
        return self._agenda[0][0] if self._agenda else None

    def due(self, until_ms: float) -> Iterator[tuple[int, BrokerRequest]]:
        """Yield (time, record) in order of time up to `until_ms`, inclusive. Each record is yielded once."""
        while self._agenda and self._agenda[0][0] <= until_ms:
            at_ms, _, action = heapq.heappop(self._agenda)
            for request in action(at_ms):
                yield at_ms, request

    def schedule(self, at_ms: int, action: Action) -> None:
        """Plan an action. Actions planned for the same time happen in the order in which they were planned."""
        heapq.heappush(self._agenda, (at_ms, next(self._order), action))

    def start(self, broker: SimulatedBroker, at_ms: int) -> list[BrokerRequest]:
        """Start a broker as a new process: it registers at once, then periodically.

        A broker that is up is left alone.
        """
        if broker.up:
            return []
        broker.up = True
        broker.starts += 1
        self.schedule(at_ms + FIRST_PERIODIC_MS, partial(self._register, broker, broker.starts))
        if self.plan.heartbeat_interval_ms:
            self.schedule(at_ms + self.plan.heartbeat_interval_ms, partial(self._heartbeat, broker, broker.starts))
        return [broker.registration(self.plan)]

    def crash(self, broker: SimulatedBroker, _at_ms: int) -> list[BrokerRequest]:
        """Take a broker down; it sends nothing."""
        broker.up = False
        return []

    def unregister(self, broker: SimulatedBroker, _at_ms: int) -> list[BrokerRequest]:
        """Shut a broker down in order (B5). A broker that is down is left alone."""
        if not broker.up:
            return []
        broker.up = False
        return [broker.unregistration()]

    def put_topic(self, group: BrokerGroup, topic: str, config: TopicConfig, at_ms: int) -> list[BrokerRequest]:
        """Create or change a topic.

        The master registers that topic alone at once; slaves register it with their next periodic registration.
        """
        group.put_topic(topic, config, at_ms)
        return [b.registration(self.plan, {topic: config}) for b in group.brokers if b.up and b.is_master]

    def promote(self, group: BrokerGroup, at_ms: int) -> list[BrokerRequest]:
        """Make the running slave with the smallest id the master, under a higher state version, and register it.

        The former master takes that slave's id, which it uses when it returns. Nothing happens if no slave runs.
        """
        slaves = [broker for broker in group.brokers if broker.up and not broker.is_master]
        if not slaves:
            return []
        promoted = min(slaves, key=lambda broker: broker.broker_id)
        for broker in group.brokers:
            if broker.is_master:
                broker.broker_id = promoted.broker_id
        promoted.broker_id = MASTER_ID
        group.next_version(at_ms, state_version=group.version.state_version + 1)
        return [promoted.registration(self.plan)]

    def move(self, group: BrokerGroup, at_ms: int) -> list[BrokerRequest]:
        """Restart the group's running brokers under the next cluster, or under a new name if there is one cluster (D1).

        They do not unregister first.
        """
        if self.plan.clusters > 1:
            names = [cluster_name(number) for number in range(self.plan.clusters)]
            group.move_to(names[(names.index(group.cluster_name) + 1) % len(names)], group.broker_name, at_ms)
        else:
            group.move_to(group.cluster_name, f"{group.broker_name}-moved", at_ms)
        moving = [broker for broker in group.brokers if broker.up]
        return [request for b in moving for request in (*self.crash(b, at_ms), *self.start(b, at_ms))]

    def rehost(self, broker: SimulatedBroker, ip: str, at_ms: int) -> list[BrokerRequest]:
        """Move a broker to another machine as a new process; the lease of its old address is not unregistered."""
        was_up = broker.up
        self.crash(broker, at_ms)
        broker.ip = ip
        return self.start(broker, at_ms) if was_up else []

    def _plan_start(self, start_ms: int) -> None:
        for number, broker in enumerate(self.brokers()):
            at_ms = start_ms + self.plan.startup_ms * number // self.plan.brokers
            self.schedule(at_ms, partial(self.start, broker))

    def _register(self, broker: SimulatedBroker, life: int, at_ms: int) -> Iterable[BrokerRequest]:
        if broker.up and broker.starts == life:
            self.schedule(at_ms + self.plan.period_ms, partial(self._register, broker, life))
            yield broker.registration(self.plan)

    def _heartbeat(self, broker: SimulatedBroker, life: int, at_ms: int) -> Iterable[BrokerRequest]:
        if broker.up and broker.starts == life and self.plan.heartbeat_interval_ms:
            self.schedule(at_ms + self.plan.heartbeat_interval_ms, partial(self._heartbeat, broker, life))
            yield broker.heartbeat()


Act = Callable[[FleetModel, random.Random, SimulatedBroker, int], Iterable[BrokerRequest]]
"""Function that lets an event happen to a broker, and returns the records that brokers send because of it."""


def schedule_churn(model: FleetModel, kind: ChurnKind, per_minute: float, from_ms: int) -> None:
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


def _crash(model: FleetModel, rng: random.Random, broker: SimulatedBroker, at_ms: int) -> Iterable[BrokerRequest]:
    """Crash a broker and start it again after a random time."""
    away_ms = round(rng.uniform(*CRASH_LEASES) * model.plan.lease_ms)
    model.schedule(at_ms + away_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _restart(model: FleetModel, rng: random.Random, broker: SimulatedBroker, at_ms: int) -> Iterable[BrokerRequest]:
    """Shut a broker down in order and start it again."""
    model.schedule(at_ms + rng.randint(*RESTART_MS), partial(model.start, broker))
    return model.unregister(broker, at_ms)


def _flap(model: FleetModel, _rng: random.Random, broker: SimulatedBroker, at_ms: int) -> Iterable[BrokerRequest]:
    """Crash and start a broker several times in a row; each absence is long enough for its lease to end."""
    silence_ms = round(FLAP_LEASES * model.plan.lease_ms)
    for turn in range(1, FLAPS):
        model.schedule(at_ms + 2 * turn * silence_ms, partial(model.crash, broker))
    for turn in range(FLAPS):
        model.schedule(at_ms + (2 * turn + 1) * silence_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _promote(model: FleetModel, _rng: random.Random, broker: SimulatedBroker, at_ms: int) -> Iterable[BrokerRequest]:
    """Crash a master; one of its slaves becomes master at its own address, and the old master returns as a slave."""
    model.schedule(at_ms + PROMOTION_MS, partial(model.promote, broker.group))
    model.schedule(at_ms + 2 * model.plan.lease_ms, partial(model.start, broker))
    return model.crash(broker, at_ms)


def _move(model: FleetModel, _rng: random.Random, broker: SimulatedBroker, at_ms: int) -> Iterable[BrokerRequest]:
    """Move a broker and the others of its name to another cluster or name."""
    return model.move(broker.group, at_ms)


def _create_topic(
    model: FleetModel, rng: random.Random, broker: SimulatedBroker, at_ms: int
) -> Iterable[BrokerRequest]:
    """Create a topic on a master, as a user would."""
    topic = f"new_topic_{model.happened[ChurnKind.CREATE_TOPIC]}"
    return model.put_topic(broker.group, topic, random_topic(rng), at_ms)


def _is_any(_broker: SimulatedBroker) -> bool:
    return True


def _is_master(broker: SimulatedBroker) -> bool:
    return broker.is_master


def _has_slave(broker: SimulatedBroker) -> bool:
    return broker.is_master and any(other.up and not other.is_master for other in broker.group.brokers)


def _gap_ms(rng: random.Random, per_minute: float) -> int:
    return max(1, round(rng.expovariate(per_minute) * 60_000))


_KINDS: dict[ChurnKind, tuple[Callable[[SimulatedBroker], bool], Act]] = {
    ChurnKind.CRASH: (_is_any, _crash),
    ChurnKind.RESTART: (_is_any, _restart),
    ChurnKind.FLAP: (_is_any, _flap),
    ChurnKind.PROMOTE: (_has_slave, _promote),
    ChurnKind.MOVE: (_is_any, _move),
    ChurnKind.CREATE_TOPIC: (_is_master, _create_topic),
}
