"""Gauges for Prometheus from the verdict about the newest snapshot: what people are woken for.

Labels are bounded: no topic and no broker has a name here, and clusters beyond the largest share one line.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from deltalake.exceptions import DeltaError
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from namesrv_stream.answers.absences import holding
from namesrv_stream.answers.claims import claims, in_vain
from namesrv_stream.answers.definitions import (
    down_brokers,
    flapping_brokers,
    gone_brokers,
    planned_brokers,
    unplanned_ends,
)
from namesrv_stream.answers.verdict import members, verdict_of
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.metrics_server import bounded
from namesrv_stream.rules.record_types import MASTER_ID
from namesrv_stream.tables.moment import RegistryAt

log = logging.getLogger(__name__)

_LEVELS = ("ok", "warning", "critical")
_STATES = {"alive": "up", "late": "late", "suspect": "suspect", "down": "down", "planned": "planned"}
"""State of a broker -> its label. `up` is without late and suspect ones."""

_MASS_WITHIN_MS = 120_000
_TOPIC_STATES = ("writable", "read_only", "degraded", "not_writable", "without_route")


class HealthCollector(Collector):
    """The gauges of the snapshot that `newest` returns, None before the first, as they are asked for.

    `least_s`: the least time between two computations, in seconds. The thread of a scrape computes them.
    """

    def __init__(self, newest: Callable[[], RegistryAt | None], least_s: float = 0.0) -> None:
        self._newest = newest
        self._least_s = least_s
        self._made_s = -float("inf")
        self._made: list[Metric] = []

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering it asks for no snapshot."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges; none before the first snapshot, and the last ones if the history cannot be read."""
        registry = self._newest()
        if registry is not None and time.monotonic() - self._made_s >= self._least_s:
            try:
                self._made = list(_gauges(registry))
            except (NamesrvError, DeltaError, OSError) as error:
                log.warning("the gauges of the health line stay as they were: %s", error)
            self._made_s = time.monotonic()
        yield from self._made


def _gauges(registry: RegistryAt) -> Iterator[Metric]:
    told = verdict_of(registry)
    yield GaugeMetricFamily(
        "namesrv_registry_level",
        "Level of the health line: 0 ok, 1 warning, 2 critical.",
        value=_LEVELS.index(told.level),
    )
    expected = members(registry, down_brokers(registry))
    away = planned_brokers(registry)
    states = Counter((each.cluster, _STATES[each.state]) for each in expected)
    states.update((each.cluster_name, "planned") for each in away)
    brokers = GaugeMetricFamily(
        "namesrv_registry_brokers", "Brokers by state; up without late and suspect ones.", labels=["cluster", "state"]
    )
    for state in _STATES.values():
        of_state = {cluster: states[cluster, state] for cluster in {cluster for cluster, _ in states}}
        for cluster, count in bounded(of_state).items():
            brokers.add_metric([cluster, state], count)
    yield brokers
    names = {(each.cluster, each.name) for each in expected}
    mastered = {each.name for each in expected if each.broker_id == MASTER_ID and each.state != "down"}
    stopped = {
        each.broker_name
        for each in gone_brokers(registry)
        if each.broker_id == MASTER_ID and not each.is_down_at(registry.now_ms)
    }
    lacking = Counter({cluster: 0 for cluster, _ in names})
    lacking.update(cluster for cluster, name in names if name not in mastered | stopped)
    yield _by_cluster(
        "namesrv_registry_groups_without_master", "Broker groups whose master is down, or never registered.", lacking
    )
    topics = GaugeMetricFamily("namesrv_registry_topics", "Topics by state, without system topics.", labels=["state"])
    for state in _TOPIC_STATES:
        topics.add_metric([state], getattr(told.topics, state))
    yield topics
    flapping = Counter({cluster: 0 for cluster, _ in names})
    flapping.update(cluster for cluster, _, _ in flapping_brokers(registry))
    yield _by_cluster(
        "namesrv_registry_flapping_brokers", "Brokers with five unplanned ends or more within an hour.", flapping
    )
    since_ms = registry.now_ms - _MASS_WITHIN_MS
    yield GaugeMetricFamily(
        "namesrv_registry_ended_leases",
        "Leases that ended unplanned within the last two minutes of event time.",
        value=sum(at_ms > since_ms for _, at_ms in unplanned_ends(registry)),
    )
    yield GaugeMetricFamily(
        "namesrv_registry_claimed_identities",
        "Brokers as which several addresses register in turn.",
        value=len(claims(registry)),
    )
    yield GaugeMetricFamily(
        "namesrv_registry_unusable_addresses",
        "Brokers that announce an address which other machines cannot use.",
        value=len(in_vain(registry)),
    )
    yield GaugeMetricFamily(
        "namesrv_registry_planned_absences", "Planned absences that hold or are to come.", value=len(holding(registry))
    )


def _by_cluster(name: str, documentation: str, counts: Mapping[str, int]) -> Metric:
    found = GaugeMetricFamily(name, documentation, labels=["cluster"])
    for cluster, count in bounded(counts).items():
        found.add_metric([cluster], count)
    return found
