"""What the cookbook's questions cost on a year of history: seconds, rows scanned, files read.

    make bench-history     # or: .venv/bin/python -m benchmarks.history --events 10000000

The year is made by a generator for this benchmark alone, not by the rules: each broker registers and goes again, at
random times, with lines as wide as the rules write them. Maintenance runs on it once, as it would each day.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from namesrv_stream.history.views import register_views
from namesrv_stream.local.jars import CHECKOUT
from namesrv_stream.local.spark import local_session
from namesrv_stream.rules.rows import BrokerRow, LogPosition, TopicRow
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.publication import Batch, Publisher, Writers
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.schemas import BROKER_EVENT, DATA_VERSION, TIMESTAMP
from namesrv_stream.tables.writer import RowChanges

BROKERS = 1_000
MONTHS = [datetime(2026, month, 1, tzinfo=UTC) for month in range(1, 13)]
_OF_A_CYCLE = np.array(["REGISTERED", "TOPICS_CHANGED", "EXPIRED", "TOPICS_CHANGED"])
_CAUSES = np.array(["REGISTER_BROKER", "REGISTER_BROKER", "SILENCE", "SILENCE"])
_LIMIT_S = 10.0


def month_of_events(start: datetime, count: int, rng: np.random.Generator) -> pa.Table:
    """About `count` lines of one month in order of time, cycles of four a broker."""
    cycles = count // (4 * BROKERS)
    length_ms = 28 * 24 * 3_600_000
    times = np.sort(rng.integers(0, length_ms, (BROKERS, 2 * cycles)), axis=1)  # up, down, up, down, ...
    times = np.repeat(times, 2, axis=1).ravel() + int(start.timestamp() * 1000)
    broker = np.repeat(np.arange(BROKERS), 4 * cycles)
    phase = np.tile(np.arange(4), BROKERS * cycles)
    order = np.lexsort((phase, times))
    return _events(times[order], broker[order], phase[order])


def _events(times: np.ndarray, broker: np.ndarray, phase: np.ndarray) -> pa.Table:
    rows = len(times)
    text = pa.array(broker.astype(str))
    name = pc.binary_join_element_wise("broker-a", pc.cast(pa.array(broker // 2), pa.string()), "-")
    address = pc.binary_join_element_wise("10.0.", text, ":10911", "")
    told = pc.binary_join_element_wise(
        '{"live":[{"broker_addr":"', address, '","cluster_name":"cluster-a","broker_name":"', name,
        '","heartbeat_timeout_millis":120000,"data_version":{"state_version":0,"timestamp":',
        pc.cast(pa.array(times), pa.string()), ',"counter":1}}],"broker":[{"broker_addr":"', address, '"}]}', "",
    )  # fmt: skip
    ended, is_begin = pa.array(phase == 2), pa.array(phase < 2)
    heard = pa.array(times - 120_001, pa.timestamp("ms", "UTC")).cast(TIMESTAMP)
    version = pa.nulls(rows, DATA_VERSION)
    columns = {
        "epoch": pa.nulls(rows, pa.int64()),
        "seq": pa.nulls(rows, pa.int64()),
        "event_time": pa.array(times, pa.timestamp("ms", "UTC")).cast(TIMESTAMP),
        "partition": pa.array(np.zeros(rows, np.int32)),
        "offset": pa.array(np.arange(rows)),
        "type": pa.array(_OF_A_CYCLE[phase]),
        "cluster_name": pc.binary_join_element_wise("cluster", pc.cast(pa.array(broker % 10), pa.string()), "-"),
        "broker_name": name,
        "broker_id": pa.array(broker % 2),
        "broker_addr": address,
        "data_version": version,
        "cause": pa.array(_CAUSES[phase]),
        "requested_by": pa.nulls(rows, pa.string()),
        "before": pc.if_else(is_begin, pa.scalar(None, pa.string()), told),
        "after": pc.if_else(is_begin, told, pa.scalar(None, pa.string())),
        "last_heard_at": pc.if_else(ended, heard, pa.scalar(None, TIMESTAMP)),
        "lease_millis": pc.if_else(ended, pa.scalar(3_600_000), pa.scalar(None, pa.int64())),
    }
    return pa.table(columns).cast(BROKER_EVENT.schema)


def make_year(root: Root, events: int) -> None:
    """A registry whose epochs are months."""
    rng = np.random.default_rng(0)
    now_ms = time.time_ns() // 1_000_000
    publisher = Publisher.claim(Writers.only(RustWriter(root)), "bench", now_ms)
    brokers: list[tuple[Any, ...]] = [
        BrokerRow(f"broker-a-{i // 2}", i % 2, f"10.0.{i}:10911", f"cluster-{i % 10}", f"zone-{i % 3}", False,
                  LogPosition(now_ms, 0, i))
        for i in range(BROKERS)
    ]  # fmt: skip
    topics: list[tuple[Any, ...]] = [TopicRow(f"topic-{i}", f"broker-a-{i % 500}", 8, 8, 6, 0) for i in range(20_000)]
    for number, month in enumerate(MONTHS):
        lines = month_of_events(month, events // len(MONTHS), rng)
        changes = {} if number else {"broker": RowChanges(brokers), "topic": RowChanges(topics)}
        event_time_ms = pc.max(lines["event_time"]).value // 1_000
        publisher.publish(Batch("bench", number, event_time_ms, {0: number}, changes, lines), now_ms)


def scans(node: Any) -> Iterator[tuple[int, int]]:
    """(rows, files) of each scan below a node of Spark's executed plan."""
    name = node.nodeName()
    if name.startswith("AdaptiveSparkPlan"):
        yield from scans(node.executedPlan())
    elif name.endswith("QueryStage"):
        yield from scans(node.plan())
    elif name.startswith("Scan parquet"):
        metrics = node.metrics()
        yield metrics.apply("numOutputRows").value(), metrics.apply("numFiles").value()
    for below in (node.children(), node.subqueries()):
        for index in range(below.size()):
            yield from scans(below.apply(index))


def measure(spark: SparkSession, statement: str) -> tuple[float, int, int]:
    """Seconds, rows scanned, files read."""
    started_s = time.monotonic()
    frame = spark.sql(statement)
    frame.collect()
    taken_s = time.monotonic() - started_s
    found = list(scans(frame._jdf.queryExecution().executedPlan()))
    return taken_s, sum(rows for rows, _ in found), sum(files for _, files in found)


@click.command()
@click.option("--events", type=int, default=10_000_000, show_default=True)
def main(events: int) -> None:
    """Print one line a question; ends with 1 if one took more than the limit."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="bench-history-") as folder:
        root = Root(f"{folder}/registry")
        started_s = time.monotonic()
        make_year(root, events)
        console.print(f"a year of {events:,} lines made in {time.monotonic() - started_s:.0f} s")
        spark = local_session("bench-history", {"spark.driver.memory": "2g"}, cores="2", log=Path(folder, "spark.log"))
        started_s = time.monotonic()
        maintain(spark, root)
        console.print(f"maintained in {time.monotonic() - started_s:.0f} s")
        register_views(spark, root)
        slow = _print_questions(spark, console)
        spark.stop()
    raise SystemExit(1 if slow else 0)


def _print_questions(spark: SparkSession, console: Console) -> list[str]:
    text = (CHECKOUT / "docs" / "cookbook.md").read_text("utf-8")
    questions = re.findall(r"^## (.*?)\n.*?```sql\n(.*?);\n```", text, re.DOTALL | re.MULTILINE)
    grid, slow = Table("question", "seconds", "rows scanned", "files read"), []
    for question, statement in questions:
        taken_s, rows, files = measure(spark, statement)
        slow += [question] if taken_s > _LIMIT_S else []
        grid.add_row(question, f"{taken_s:.1f}", f"{rows:,}", f"{files:,}")
    console.print(grid)
    return slow


if __name__ == "__main__":
    main()
