"""The records of a fleet and their times, without clock and Kafka: the same for the same plan and start.

Times are epoch milliseconds that the caller passes in. A model can be played in real time, faster, or all at once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count

from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.record_types import MASTER_ID, BrokerRequest, TopicConfig
from namesrv_stream.tools.fleet.broker import Broker, BrokerGroup
from namesrv_stream.tools.fleet.churn import schedule_churn
from namesrv_stream.tools.fleet.plan import Churn, FleetPlan
from namesrv_stream.tools.fleet.topology import build_groups, cluster_name

FIRST_PERIODIC_MS = 10_000
"""Time from the registration at start to the next one; it does not depend on the period (B1)."""

Action = Callable[[int], Iterable[BrokerRequest]]
"""Let something happen at a time; return the records that brokers send because of it."""


class UnknownBrokerError(NamesrvError):
    """The fleet has no broker with this name and id."""

    def __init__(self, broker_name: str, broker_id: int, known: Iterable[str]) -> None:
        names = sorted(known)
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        super().__init__(f"the fleet has no broker {broker_name} with id {broker_id}. Its broker names: {shown}")
        self.broker_name = broker_name
        self.broker_id = broker_id


class FleetModel:
    """The brokers of a plan, from their start at `start_ms` on.

    `happened` counts the actions of churn. Each action on a broker or a group returns the records that brokers send
    because of it. Not thread-safe.
    """

    def __init__(self, plan: FleetPlan, start_ms: int) -> None:
        self.plan = plan
        self.groups = build_groups(plan, start_ms)
        self.happened: Counter[Churn] = Counter()
        self._by_address = {broker.address: broker for broker in self.brokers()}
        self._agenda: list[tuple[int, int, Action]] = []
        self._order = count()
        self._plan_start(start_ms)
        for kind, per_minute in plan.churn.items():
            schedule_churn(self, kind, per_minute, start_ms + plan.startup_ms)

    def brokers(self) -> Iterator[Broker]:
        """Return all brokers, down or up."""
        return chain.from_iterable(group.brokers for group in self.groups)

    def broker(self, broker_name: str, broker_id: int) -> Broker:
        """Return the broker that has this id of this name now. Raises UnknownBrokerError."""
        for broker in self.brokers():
            if broker.broker_id == broker_id and broker.group.broker_name == broker_name:
                return broker
        raise UnknownBrokerError(broker_name, broker_id, {group.broker_name for group in self.groups})

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

    def send_failed(self, broker_addr: str) -> None:
        """Make the broker's next registration a full one, since it is unknown which of its records are in the log."""
        self._by_address[broker_addr].full_sent = None

    def start(self, broker: Broker, at_ms: int) -> list[BrokerRequest]:
        """Start a broker as a new process: it registers at once and in full, then periodically.

        A broker that is up is left alone.
        """
        if broker.up:
            return []
        broker.up, broker.full_sent = True, None
        broker.starts += 1
        self.schedule(at_ms + FIRST_PERIODIC_MS, partial(self._register, broker, broker.starts))
        if self.plan.heartbeat_interval_ms:
            self.schedule(at_ms + self.plan.heartbeat_interval_ms, partial(self._heartbeat, broker, broker.starts))
        return [broker.register(self.plan, at_ms)]

    def crash(self, broker: Broker, _at_ms: int) -> list[BrokerRequest]:
        """Take a broker down; it sends nothing."""
        broker.up = False
        return []

    def unregister(self, broker: Broker, _at_ms: int) -> list[BrokerRequest]:
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
        return [promoted.register(self.plan, at_ms)]

    def move(self, group: BrokerGroup, at_ms: int) -> list[BrokerRequest]:
        """Restart the group's running brokers under the next cluster, or under a new name if there is one cluster (D1).

        They do not unregister before.
        """
        if self.plan.clusters > 1:
            names = [cluster_name(number) for number in range(self.plan.clusters)]
            group.move_to(names[(names.index(group.cluster_name) + 1) % len(names)], group.broker_name, at_ms)
        else:
            group.move_to(group.cluster_name, f"{group.broker_name}-moved", at_ms)
        moving = [broker for broker in group.brokers if broker.up]
        return [request for b in moving for request in (*self.crash(b, at_ms), *self.start(b, at_ms))]

    def rehost(self, broker: Broker, ip: str, at_ms: int) -> list[BrokerRequest]:
        """Move a broker to another machine as a new process; the lease of its old address is not unregistered."""
        was_up = broker.up
        self.crash(broker, at_ms)
        broker.ip = ip
        self._by_address[broker.address] = broker
        return self.start(broker, at_ms) if was_up else []

    def _plan_start(self, start_ms: int) -> None:
        for number, broker in enumerate(self.brokers()):
            at_ms = start_ms + self.plan.startup_ms * number // self.plan.brokers
            self.schedule(at_ms, partial(self.start, broker))

    def _register(self, broker: Broker, life: int, at_ms: int) -> Iterable[BrokerRequest]:
        if broker.up and broker.starts == life:
            self.schedule(at_ms + self.plan.registration_period_ms, partial(self._register, broker, life))
            yield broker.register(self.plan, at_ms)

    def _heartbeat(self, broker: Broker, life: int, at_ms: int) -> Iterable[BrokerRequest]:
        if broker.up and broker.starts == life and self.plan.heartbeat_interval_ms:
            self.schedule(at_ms + self.plan.heartbeat_interval_ms, partial(self._heartbeat, broker, life))
            yield broker.heartbeat()
