"""Publish a long history of a fleet by event time, by the rules and into Delta, without Kafka and Spark.

It is the kind of month that an operations team remembers: random events (crashes, restarts, new topics), rolling
restarts to a newer release with write permissions wiped around them, a broker that flaps, the outage of a zone, a
broker that returns at another address, and one that joins another cluster. The time of each is a share of the whole
time, so that a short history has them too. Slaves are away for hours, in two weeks one for days, and in four weeks one
for over a week.
"""

from __future__ import annotations

import heapq
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.kafka.record_reader import LOG_PARTITION
from namesrv_stream.reporting.logs import Progress
from namesrv_stream.reporting.texts import moment_text
from namesrv_stream.rules.record_types import (
    DEFAULT_HEARTBEAT_TIMEOUT_MS,
    AddWritePerm,
    BrokerRequest,
    Command,
    DeleteTopic,
    Request,
    Scan,
    UnregisterBroker,
    WipeWritePerm,
)
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RustWriter, changes_to_write
from namesrv_stream.tools.fleet.broker import BrokerGroup, ChurnKind, FleetPlan, SimulatedBroker
from namesrv_stream.tools.fleet.model import FleetModel

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MINUTE_MS = 60_000
TICK_MS = MINUTE_MS

SHAPE = {"brokers": 12, "clusters": 2, "zones": 3}
"""Fields of FleetPlan whose values for a history differ from the defaults."""

CHURN_AN_HOUR = 0.01
"""Share of the brokers that crash or restart at random in an hour."""
TOPICS_A_DAY = 3.0

FLAPS = 15
FLAP_AWAY_MS, FLAP_BACK_MS = 3 * MINUTE_MS, 4 * MINUTE_MS
OUTAGE_MS = 25 * MINUTE_MS
LONG_OUTAGES = ((0.1, 5 * HOUR_MS, 1), (0.2, 2 * DAY_MS, 14), (0.35, 9 * DAY_MS, 28))
"""Long outages: when each begins (a share of the time), its length, and the fewest days of a history that has it."""

RELEASES = ("5.3.2", "5.3.3", "5.4.0")
"""Releases of RocketMQ, of which all brokers begin with the first."""

ROLL_EVERY_MS = 7 * DAY_MS
ROLL_STEP_MS = 5 * MINUTE_MS
_NEW_HOST = "10.0.200.1"


def chronicle_plan(seed: int, **shape: Any) -> FleetPlan:
    """Return a fleet that sends few enough records for months: a sign of life a minute, a full registration an hour.

    `shape` has fields of FleetPlan that replace those in SHAPE.
    """
    sizes: dict[str, Any] = {**SHAPE, **shape}
    by_chance = sizes["brokers"] * CHURN_AN_HOUR / 60 / 2
    churn = {ChurnKind.CRASH: by_chance, ChurnKind.RESTART: by_chance, ChurnKind.CREATE_TOPIC: TOPICS_A_DAY / (24 * 60)}
    return FleetPlan(
        period_ms=HOUR_MS,
        heartbeat_interval_ms=MINUTE_MS,
        startup_ms=MINUTE_MS,
        churn=churn,
        seed=seed,
        **sizes,
    )


class Chronicle:
    """All records of brokers, operators and ticks from `start_ms` on for `days`, fully determined by the arguments."""

    def __init__(self, plan: FleetPlan, start_ms: int, days: float) -> None:
        self.start_ms = start_ms
        self.end_ms = start_ms + round(days * DAY_MS)
        self._model = FleetModel(plan, start_ms)
        self._commands: list[tuple[int, Command]] = []
        self._rng = random.Random(f"{plan.seed}/chronicle")
        self._away: set[SimulatedBroker] = set()
        for broker in self._model.brokers():
            broker.release = RELEASES[0]
        self._long_outages(random.Random(f"{plan.seed}/outages"), days)
        self._flap(self._at(0.3))
        self._delete_topic(self._at(0.45))
        self._zone_outage(self._at(0.6))
        self._model.schedule(self._at(0.75), partial(self._model.rehost, self._broker(), _NEW_HOST))
        self._move(self._at(0.85))
        for at_ms in range(self._at(0.15), self.end_ms, ROLL_EVERY_MS):
            self._rolling_restart(at_ms)

    @property
    def records_an_hour(self) -> int:
        """The approximate number of records in an hour, for the size of micro-batches."""
        plan = self._model.plan
        return plan.brokers * HOUR_MS // MINUTE_MS + HOUR_MS // TICK_MS

    def records(self) -> Iterator[tuple[int, Request]]:
        """Return (epoch milliseconds, request) in order of time. Call it only once, because it consumes the model."""
        ticks = ((at_ms, Scan()) for at_ms in range(self.start_ms, self.end_ms + 1, TICK_MS))
        of_brokers: Iterator[tuple[int, Request]] = self._model.due(self.end_ms)
        return _with_ends_of_leases(heapq.merge(of_brokers, sorted(self._commands, key=_time), ticks, key=_time))

    def _at(self, share: float) -> int:
        return self.start_ms + round(share * (self.end_ms - self.start_ms))

    def _broker(self, *, master: bool = True) -> SimulatedBroker:
        brokers = [broker for broker in self._model.brokers() if broker.is_master is master]
        return self._rng.choice(brokers or list(self._model.brokers()))

    def _rolling_restart(self, at_ms: int) -> None:
        """Restart the brokers of a cluster one after the other; the topics of a master are read-only meanwhile."""
        clusters = sorted({group.cluster_name for group in self._model.groups})
        chosen = self._rng.choice(clusters)
        brokers = [b for g in self._model.groups if g.cluster_name == chosen for b in g.brokers]
        for number, broker in enumerate(brokers):
            begin_ms = at_ms + number * ROLL_STEP_MS
            if broker.is_master:
                name = broker.group.broker_name
                self._command(begin_ms, WipeWritePerm(broker_name=name, requested_by="ann@operations"))
                self._command(begin_ms + 4 * MINUTE_MS, AddWritePerm(broker_name=name, requested_by="ann@operations"))
            self._model.schedule(begin_ms + MINUTE_MS, partial(self._model.unregister, broker))
            self._model.schedule(begin_ms + 2 * MINUTE_MS, partial(self._upgrade, broker))

    def _upgrade(self, broker: SimulatedBroker, at_ms: int) -> list[BrokerRequest]:
        """Start a broker with the next release."""
        broker.release = RELEASES[min(RELEASES.index(str(broker.release)) + 1, len(RELEASES) - 1)]
        return self._start(broker, at_ms)

    def _start(self, broker: SimulatedBroker, at_ms: int) -> list[BrokerRequest]:
        """Start a broker, unless its machine is away for longer."""
        return [] if broker in self._away else self._model.start(broker, at_ms)

    def _long_outages(self, rng: random.Random, days: float) -> None:
        """Let the machine of a slave fail for a long time, and then the next one."""
        slaves = [broker for broker in self._model.brokers() if not broker.is_master]
        for share, length_ms, least_days in LONG_OUTAGES:
            if slaves and days >= least_days:
                broker = slaves.pop(rng.randrange(len(slaves)))
                self._model.schedule(self._at(share), partial(self._leave, broker))
                self._model.schedule(self._at(share) + length_ms, partial(self._come_back, broker))

    def _leave(self, broker: SimulatedBroker, at_ms: int) -> list[BrokerRequest]:
        self._away.add(broker)
        return self._model.crash(broker, at_ms)

    def _come_back(self, broker: SimulatedBroker, at_ms: int) -> list[BrokerRequest]:
        self._away.discard(broker)
        return self._start(broker, at_ms)

    def _flap(self, at_ms: int) -> None:
        broker = self._broker(master=False)
        for turn in range(FLAPS):
            away_ms = at_ms + turn * (FLAP_AWAY_MS + FLAP_BACK_MS)
            self._model.schedule(away_ms, partial(self._model.crash, broker))
            self._model.schedule(away_ms + FLAP_AWAY_MS, partial(self._start, broker))

    def _zone_outage(self, at_ms: int) -> None:
        """Crash all brokers of a zone at once and start them again one after the other."""
        zone = self._rng.choice([group.zone_name for group in self._model.groups])
        away = [broker for group in self._model.groups if group.zone_name == zone for broker in group.brokers]
        for number, broker in enumerate(away):
            self._model.schedule(at_ms, partial(self._model.crash, broker))
            self._model.schedule(at_ms + OUTAGE_MS + number * 10_000, partial(self._start, broker))

    def _move(self, at_ms: int) -> None:
        groups: list[BrokerGroup] = self._model.groups
        self._model.schedule(at_ms, partial(self._model.move, self._rng.choice(groups)))

    def _delete_topic(self, at_ms: int) -> None:
        """Delete a topic, as by an operator's mistake. Its brokers restore it with their next full registration."""
        topics = sorted({topic for group in self._model.groups for topic in group.topics if "_" in topic})
        self._command(at_ms, DeleteTopic(topic=self._rng.choice(topics), requested_by="bob@desk"))

    def _command(self, at_ms: int, command: Command) -> None:
        if at_ms <= self.end_ms:
            self._commands.append((at_ms, command))


def _time(timed: tuple[int, object]) -> int:
    return timed[0]


def _with_ends_of_leases(records: Iterable[tuple[int, Request]]) -> Iterator[tuple[int, Request]]:
    """Yield the records, and a tick at each time at which a silent broker's lease ends, as gateways send them."""
    due_ms: dict[str, int] = {}  # address -> the end of its lease, in order of time
    for at_ms, request in records:
        while due_ms and (end_ms := next(iter(due_ms.values()))) < at_ms:
            del due_ms[next(iter(due_ms))]
            yield end_ms, Scan()
        yield at_ms, request
        if address := getattr(request, "broker_addr", None):
            due_ms.pop(address, None)
            if not isinstance(request, UnregisterBroker):
                due_ms[address] = at_ms + DEFAULT_HEARTBEAT_TIMEOUT_MS + 1


def publish_history(
    records: Iterable[tuple[int, Request]],
    root: Path,
    records_a_batch: int,
    report: Callable[[str], None],
    shown: Progress,
) -> None:
    """Publish (event time in ms, request) pairs, in order of time, as a registry at `root`, by the rules alone.

    Each `records_a_batch` records are one epoch. A gap of time in the records counts as silence (D9 is off). The tables
    are those that the job would make of the same records. They are made beside `root` and moved there at the end, so
    nothing that is there is a part of a history. `report` is called with each finished step, `shown` gets the present
    activity. Raises NamesrvError if `root` is not empty: records of the past must not follow those of another log.
    """
    if root.exists() and any(root.iterdir()):
        raise NamesrvError(f"folder {root} is not empty. Give a new folder, or remove this one.")
    root.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{root.name}-", dir=root.absolute().parent) as work:
        made = Path(work, "registry")
        history = _Published(Root(str(made)))
        try:
            for number, (at_ms, request) in enumerate(records):
                history.rules.apply(request, LogPosition(at_ms, LOG_PARTITION, number))
                if (number + 1) % records_a_batch == 0:
                    epoch = history.publish(at_ms, number + 1)
                    shown.activity = f"{number + 1:,} records, snapshot {epoch}, up to {moment_text(at_ms)}"
            epoch = history.publish(at_ms, number + 1)
        except KeyboardInterrupt:
            raise NamesrvError(f"stopped after {shown.activity}. Nothing of it is left in {root}.") from None
        shown.activity = "sorting the files of each month"
        maintain(Root(str(made)), vacuum=False)
        if root.exists():
            root.rmdir()
        made.rename(root.absolute())
    report(f"{number + 1:,} records in {epoch:,} snapshots")


class _Published:
    """The rules, and the tables of what they have changed."""

    def __init__(self, root: Root) -> None:
        self.rules = RouteRegistry(NamesrvSettings(tick_gap_millis=0))
        self._publisher = Publisher.claim(RustWriter(root), "history", _now_ms())

    def publish(self, event_ms: int, next_offset: int) -> int:
        """Publish all changes since the last call, with the last heartbeats; return the epoch."""
        came = self.rules.take_changes()
        changes = changes_to_write(came.changes, self.rules.take_signs_of_life())
        batch = Batch(
            None, None, event_ms, {LOG_PARTITION: next_offset}, changes, came.events, [], clock=self.rules.clock
        )
        return self._publisher.publish(batch, _now_ms()).epoch


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
