"""Measure the job's registry on the driver: memory a row, and the seconds to load, fill and change it.

    .venv/bin/python -m benchmarks.driver --brokers 100 --brokers 300

It uses rules and tables alone, without Spark and Kafka. Each figure is measured in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Bench, benchmark, memory_mb, option
from benchmarks.large_registry import TOPICS_PER_BROKER, Plan, Registry
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import DataVersion, RegisterBroker, TopicConfig
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import ROUTE_TABLES
from namesrv_stream.tables.writer import RustWriter

_MB = 1024 * 1024


def loaded(plan: Plan, root: str) -> dict[str, str]:
    """Load the published tables, then let one broker change one topic, and then all."""
    publisher = Publisher.claim(RustWriter(Root(root)), "benchmark", time.time_ns() // 1_000_000)
    registry = RouteRegistry(NamesrvSettings())
    before_mb, began_s = memory_mb(), time.perf_counter()
    registry.load({spec.name: publisher.rows(spec) for spec in ROUTE_TABLES})
    load_s = time.perf_counter() - began_s
    figures = {
        "load from the tables, s": f"{load_s:.1f}",
        "memory a row, bytes": f"{(memory_mb() - before_mb) * _MB / plan.rows:.0f}",
        "memory of the process, MB": f"{memory_mb():,.0f}",
        "highest while loading, MB": f"{memory_mb(highest=True):,.0f}",
    }
    for queues, changed, what in ((9, 1, "one topic"), (10, plan.topics, "all topics")):
        request = registration(plan, 0, queues, changed)
        began_s = time.perf_counter()
        registry.apply(request, LogPosition(1_000, 0, queues))
        registry.take_changes()
        taken_ms = 1e3 * (time.perf_counter() - began_s)
        figures[f"a registration that changes {what} of {plan.topics:,}, ms"] = f"{taken_ms:,.0f}"
    return figures


def filled(plan: Plan, _root: str) -> dict[str, str]:
    """Register all brokers as one micro-batch."""
    registry = RouteRegistry(NamesrvSettings())
    before_mb, spent_s = memory_mb(), 0.0
    for broker in range(plan.brokers):
        request = registration(plan, broker, 8, plan.topics)
        began_s = time.perf_counter()
        registry.apply(request, LogPosition(broker, 0, broker))
        spent_s += time.perf_counter() - began_s
    began_s = time.perf_counter()
    taken = registry.take_changes()
    spent_s += time.perf_counter() - began_s
    assert sum(change.table == "topic" for change in taken.changes) == plan.rows
    del taken
    return {
        "all brokers registered in one batch, s": f"{spent_s:.1f}",
        "highest meanwhile, MB": f"{memory_mb(highest=True):,.0f}",
        "memory a row afterwards, bytes": f"{(memory_mb() - before_mb) * _MB / plan.rows:.0f}",
    }


def registration(plan: Plan, broker: int, queues: int, changed: int) -> RegisterBroker:
    """Return a broker's registration; its first `changed` topics have `queues` queues, the others 8."""
    others, first = (TopicConfig(count, count, 6) for count in (8, queues))
    topics = {plan.topic(broker, number): first if number < changed else others for number in range(plan.topics)}
    return RegisterBroker(
        cluster_name="c",
        broker_name=plan.broker_name(broker),
        broker_id=0,
        broker_addr=f"10.0.{broker // 250}.{broker % 250}:10911",
        data_version=DataVersion(0, 1, queues),
        topic_config_table=topics,
    )


def published(plan: Plan, root: str) -> dict[str, str]:
    """Publish the tables that are to be loaded."""
    Registry(Path(root), plan).publish_all()
    return {}


def apart(measure: Callable[[Plan, str], dict[str, str]], plan: Plan, root: str) -> dict[str, str]:
    """Measure in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (plan, root))


@benchmark(
    option("--brokers", (100, 300)),
    option("--topics", TOPICS_PER_BROKER, "Of each broker."),
    option("--own-topics/--shared-topics", False, "No two brokers share a topic."),
)
def main(bench: Bench, brokers: tuple[int, ...], topics: int, own_topics: bool) -> None:
    """Print one column for each registry."""
    columns = {}
    for count in brokers:
        plan = Plan(count, topics, own_topics)
        place = str(bench.folder / str(count))
        apart(published, plan, place)
        columns[f"{plan.rows:,} rows"] = apart(loaded, plan, place) | apart(filled, plan, place)
    bench.columns(columns)


if __name__ == "__main__":
    main()
