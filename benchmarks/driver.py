"""Measure the job's registry on the driver: memory a row, the seconds to load, fill and change it, and merges.

    .venv/bin/python -m benchmarks.driver --brokers 100 --brokers 300

It uses rules and tables alone, without Spark and Kafka. Each group of figures has a process of its own. Of merges of
`topic` by delta-rs bulk and everyday ones are measured, with each number of `--buckets`.
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from benchmarks.harness import Bench, benchmark, memory_mb, option
from benchmarks.large_registry import TOPICS_PER_BROKER, Plan, Registry, master
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import DataVersion, RegisterBroker, TopicConfig
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables import schemas
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import ROUTE_TABLES, TOPIC
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter

_MB = 1024 * 1024
_ONE_ROW_TIMES = 9


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
    version = DataVersion(0, 1, queues)
    return master(broker, topics, broker_name=plan.broker_name(broker), data_version=version)


def published(plan: Plan, root: str) -> dict[str, str]:
    """Publish the tables that are to be loaded."""
    Registry(Path(root), plan).publish_all()
    return {}


def apart(measure: Callable[[Plan, str], dict[str, str]], plan: Plan, root: str) -> dict[str, str]:
    """Measure in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (plan, root))


def merged(buckets: int, plan: Plan, root: str) -> dict[str, str]:
    """Merge everything by delta-rs, one row, one row of each broker, all rows of one, and everything again."""
    schemas.TOPIC_BUCKETS = buckets
    writer, rows = RustWriter(Root(root)), plan.all_rows()
    writer.ensure_tables()
    before_mb, version = memory_mb(), 0

    def merge_s(changed: pa.Table) -> float:
        nonlocal version
        began_s = time.perf_counter()
        version = writer.merge(TOPIC, version, RowChanges(changed), CommitTag(1, 1))
        return time.perf_counter() - began_s

    figures = {"all rows new, s": f"{merge_s(rows):.1f}"}
    changed = rows.set_column(4, "perm", pa.repeat(pa.scalar(4, pa.int32()), len(rows)))
    one_row_s = [merge_s(changed.slice(at * plan.topics + 1, 1)) for at in range(min(_ONE_ROW_TIMES, plan.brokers))]
    of_each = list(range(2, plan.rows, plan.topics))
    figures |= {
        "one row changed, median ms": f"{statistics.median(one_row_s) * 1e3:.0f}",
        "all rows of one broker changed, ms": f"{merge_s(changed.slice(0, plan.topics)) * 1e3:.0f}",
        "one row of every broker changed, ms": f"{merge_s(changed.take(of_each)) * 1e3:.0f}",
        "all rows changed, s": f"{merge_s(changed):.1f}",
        "files": str(len(Root(root).open(TOPIC).file_uris())),
        "memory for it beside the rows, at most, MB": f"{memory_mb(highest=True) - before_mb:,.0f}",
    }
    return {f"merge, {buckets} buckets: {name}": figure for name, figure in figures.items()}


@benchmark(
    option("--brokers", (100, 300)),
    option("--topics", TOPICS_PER_BROKER, "Of each broker."),
    option("--own-topics/--shared-topics", False, "No two brokers share a topic."),
    option("--buckets", (schemas.TOPIC_BUCKETS,), "Of the table `topic`; 1 has one file for all."),
)
def main(bench: Bench, brokers: tuple[int, ...], topics: int, own_topics: bool, buckets: tuple[int, ...]) -> None:
    """Print one column for each registry."""
    columns = {}
    for count in brokers:
        plan, place = Plan(count, topics, own_topics), bench.folder / str(count)
        apart(published, plan, str(place))
        found = apart(loaded, plan, str(place)) | apart(filled, plan, str(place))
        for each in buckets:
            shutil.rmtree(place)
            found |= apart(partial(merged, each), plan, str(place))
        columns[f"{plan.rows:,} rows"] = found
    bench.columns(columns)


if __name__ == "__main__":
    main()
