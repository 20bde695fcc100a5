"""The size and behaviour of a simulated fleet: everything that decides its records, the seed included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from namesrv_stream.errors import SettingError
from namesrv_stream.rules.record_types import DEFAULT_HEARTBEAT_TIMEOUT_MS


class Churn(StrEnum):
    """The kinds of random events. model.py describes each beside its function."""

    CRASH = "crash"
    RESTART = "restart"
    FLAP = "flap"
    PROMOTE = "promote"
    MOVE = "move"
    CREATE_TOPIC = "create-topic"


@dataclass(frozen=True, kw_only=True)
class FleetPlan:
    """A fleet, fully determined: two models with the same plan and start time send the same records.

    `brokers` counts processes, slaves included. `topics` counts those of users; the brokers' own are added.
    `period_ms`: time between two registrations of a broker, each of which is in full. `startup_ms`: the brokers start
    evenly over this time. `heartbeat_interval_ms`: time between two BROKER_HEARTBEAT, as with enableSlaveActingMaster
    (B6); None sends none. `heartbeat_timeout_ms` None leaves the field out, which means 120 s (L1). `churn`: actions a
    minute over the whole fleet, by kind.
    """

    brokers: int = 8
    clusters: int = 1
    slaves_per_master: int = 1
    topics: int = 30
    zones: int = 0
    period_ms: int = 30_000
    startup_ms: int = 0
    heartbeat_interval_ms: int | None = None
    heartbeat_timeout_ms: int | None = None
    acting_master: bool = False
    churn: Mapping[Churn, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.clusters <= self.broker_names:
            problem = f"{self.clusters} clusters for {self.broker_names} broker names"
            raise SettingError("clusters", problem, "Each cluster needs a broker name: take fewer, or more brokers.")

    @property
    def broker_names(self) -> int:
        """The number of masters. The last of them may have fewer slaves than the others."""
        return -(-self.brokers // (1 + self.slaves_per_master))

    @property
    def lease_ms(self) -> int:
        """The time after its last sign of life for which a silent broker of this fleet stays in the routes."""
        return self.heartbeat_timeout_ms or DEFAULT_HEARTBEAT_TIMEOUT_MS
