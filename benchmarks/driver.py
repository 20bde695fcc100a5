"""Measure the job's registry on the driver: memory a row, and the seconds to load, fill and change it.

    .venv/bin/python -m benchmarks.driver --brokers 100 --brokers 300

It uses rules and tables alone, without Spark and Kafka. Each figure is measured in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

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
    before_b, began_s = memory_b(), time.perf_counter()
    registry.load({spec.name: publisher.rows(spec) for spec in ROUTE_TABLES})
    load_s = time.perf_counter() - began_s
    figures = {
        "load from the tables, s": f"{load_s:.1f}",
        "memory a row, bytes": f"{(memory_b() - before_b) / plan.rows:.0f}",
        "memory of the process, MB": f"{memory_b() / _MB:,.0f}",
        "highest while loading, MB": f"{highest_b() / _MB:,.0f}",
    }
    for queues, changed, what in ((9, 1, "one topic"), (10, plan.topics, "all topics")):
        began_s = time.perf_counter()
        registry.apply(registration(plan, 0, queues, changed), LogPosition(1_000, 0, queues))
        registry.take_changes()
        figures[f"a registration that changes {what} of {plan.topics:,}, ms"] = _ms(time.perf_counter() - began_s)
    return figures


def filled(plan: Plan, _root: str) -> dict[str, str]:
    """Register all brokers as one micro-batch."""
    registry = RouteRegistry(NamesrvSettings())
    before_b, spent_s = memory_b(), 0.0
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
        "highest meanwhile, MB": f"{highest_b() / _MB:,.0f}",
        "memory a row afterwards, bytes": f"{(memory_b() - before_b) / plan.rows:.0f}",
    }


def registration(plan: Plan, broker: int, queues: int, changed: int) -> RegisterBroker:
    """Return a broker's registration; its first `changed` topics have `queues` queues, the others 8."""
    return RegisterBroker(
        cluster_name="c",
        broker_name=plan.broker_name(broker),
        broker_id=0,
        broker_addr=f"10.0.{broker // 250}.{broker % 250}:10911",
        data_version=DataVersion(0, 1, queues),
        topic_config_table={
            plan.topic(broker, number): _config(queues if number < changed else 8) for number in range(plan.topics)
        },
    )


def _config(queues: int) -> TopicConfig:
    return TopicConfig(queues, queues, 6)


def memory_b() -> int:
    """Return the resident memory of this process, in bytes."""
    return _status_b("VmRSS")


def highest_b() -> int:
    """Return the highest resident memory of this process so far, in bytes."""
    return _status_b("VmHWM")


def _status_b(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f}"


def apart(measure: Callable[[Plan, str], dict[str, str]], plan: Plan, root: str) -> dict[str, str]:
    """Measure in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (plan, root))


@click.command()
@click.option("--brokers", type=int, multiple=True, default=(100, 300), show_default=True)
@click.option("--topics", type=int, default=TOPICS_PER_BROKER, show_default=True, help="Of each broker.")
@click.option("--own-topics/--shared-topics", default=False, show_default=True, help="No two brokers share a topic.")
def main(brokers: tuple[int, ...], topics: int, own_topics: bool) -> None:
    """Print one column for each registry."""
    table = Table("figure", title=f"load average {os.getloadavg()[0]:.1f} before")
    columns = []
    for count in brokers:
        plan = Plan(count, topics, own_topics)
        table.add_column(f"{plan.rows:,} rows", justify="right")
        folder = Path(tempfile.mkdtemp(prefix="namesrv-driver-"))
        try:
            apart(published, plan, str(folder))
            columns.append(apart(loaded, plan, str(folder)) | apart(filled, plan, str(folder)))
        finally:
            shutil.rmtree(folder)
    for name in columns[0]:
        table.add_row(name, *(column[name] for column in columns))
    Console(width=120).print(table)


def published(plan: Plan, root: str) -> dict[str, str]:
    """Publish the tables that are to be loaded."""
    Registry(Path(root), plan).publish_all()
    return {}


if __name__ == "__main__":
    main()
