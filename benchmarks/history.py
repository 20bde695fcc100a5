"""Measure the cookbook's questions on a year of history: seconds, rows scanned, files read.

    make bench-history                          # or: .venv/bin/python -m benchmarks.history --events 10000000
    .venv/bin/python -m benchmarks.history --no-clustering
    .venv/bin/python -m benchmarks.history --cold                  # each question as the first of a new session
    .venv/bin/python -m benchmarks.history --events 1000000 --events 10000000 --plot docs/history.svg

A generator for this benchmark alone, not the rules, makes the year: each broker registers and leaves again at random
times. With 10 million lines a broker leaves seven times a day, far more often than with 1 % churn an hour, so that the
questions about sessions have as much to do as that many lines allow. One broker of 50 loses its id to another address
instead of its lease. Maintenance then clusters the history.

A line changes rows of `live` and `broker`, or of 5 topics, with all columns that the rules write. The topics are some
of the 40 that a broker name has, others each time, and sometimes the one that the cookbook asks for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from benchmarks.harness import Bench, benchmark, now_ms, option
from namesrv_stream.analysis.views import register_views
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import BrokerEventRow, BrokerRow, LiveRow, LogPosition, RowChange, TopicRow
from namesrv_stream.tables.arrow import row_changes_to_arrow
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT, DATA_VERSION, ROW_CHANGE, TIMESTAMP
from namesrv_stream.tables.writer import RowChanges, RustWriter
from namesrv_stream.tools.local.jars import CHECKOUT
from namesrv_stream.tools.local.spark import local_session

BROKERS = 1_000
BROKER_NAMES = BROKERS // 2
_TOPICS_A_NAME = 40
DAYS = 28
"""Number of days of a month in this benchmark."""
MONTHS = [datetime(2026, month, 1, tzinfo=UTC) for month in range(1, 13)]
YEAR_END_MS = int(datetime(2026, 12, 31, tzinfo=UTC).timestamp() * 1000)
_OF_A_CYCLE = np.array(["REGISTERED", "TOPICS_CHANGED", "EXPIRED", "TOPICS_CHANGED"])
_CAUSES = np.array(["REGISTER_BROKER", "REGISTER_BROKER", "SILENCE", "SILENCE"])
_ONE_LOSES_ITS_ID_OF = 50
_TOPICS_A_LINE = 5
_LIMIT_S = 10.0


class Lines(NamedTuple):
    """Lines in order of time: `phase` counts through _OF_A_CYCLE; `lasted_ms`: of the lease that a cycle ends."""

    at_ms: np.ndarray
    broker: np.ndarray
    phase: np.ndarray
    lasted_ms: np.ndarray


def month_of_events(start: datetime, count: int, rng: np.random.Generator) -> Lines:
    """Return about `count` lines of one month, in cycles of four for each broker."""
    cycles = count // (4 * BROKERS)
    length_ms = DAYS * 24 * 3_600_000
    edges = np.sort(rng.integers(0, length_ms, (BROKERS, 2 * cycles)), axis=1)  # up, down, up, down, ...
    lasted = np.repeat(edges[:, 1::2] - edges[:, ::2], 4, axis=1).ravel()
    times = np.repeat(edges, 2, axis=1).ravel() + int(start.timestamp() * 1000)
    broker = np.repeat(np.arange(BROKERS), 4 * cycles)
    phase = np.tile(np.arange(4), BROKERS * cycles)
    order = np.lexsort((phase, times))
    return Lines(times[order], broker[order], phase[order], lasted[order])


def _events(lines: Lines) -> pa.Table:
    """Return the rows of `broker_event`."""
    times, broker, phase, lasted = lines
    rows = len(times)
    loses_id = (phase == 2) & (broker % _ONE_LOSES_ITS_ID_OF == 0)
    ended = pa.array((phase == 2) & ~loses_id)
    heard = pa.array(times - 120_001, pa.timestamp("ms", "UTC")).cast(TIMESTAMP)
    version = pa.nulls(rows, DATA_VERSION)
    of_topics, removes = phase % 2 == 1, phase > 1
    columns = {
        "epoch": pa.nulls(rows, pa.int64()),
        "seq": pa.nulls(rows, pa.int64()),
        "event_time": pa.array(times, pa.timestamp("ms", "UTC")).cast(TIMESTAMP),
        "partition": pa.array(np.zeros(rows, np.int32)),
        "offset": pa.array(np.arange(rows)),
        "type": pa.array(np.where(loses_id, "ID_LOST", _OF_A_CYCLE[phase])),
        "cluster_name": _of_broker("cluster_name").take(broker),
        "zone_name": _of_broker("zone_name").take(broker),
        "broker_name": _of_broker("broker_name").take(broker),
        "broker_id": pa.array(broker % 2),
        "broker_addr": _of_broker("broker_addr").take(broker),
        "data_version": version,
        "cause": pa.array(_CAUSES[phase]),
        "requested_by": pa.nulls(rows, pa.string()),
        "held_id": ended,
        "topics_added": pa.array(np.where(of_topics & ~removes, _TOPICS_A_LINE, 0), pa.int32()),
        "topics_changed": pa.array(np.zeros(rows, np.int32)),
        "topics_removed": pa.array(np.where(of_topics & removes, _TOPICS_A_LINE, 0), pa.int32()),
        "last_heard_at": pc.if_else(ended, heard, pa.scalar(None, TIMESTAMP)),
        "lease_millis": pc.if_else(ended, pa.array(lasted), pa.scalar(None, pa.int64())),
    }
    later = {field.name: pa.nulls(rows, field.type) for field in BROKER_EVENT.schema if field.name not in columns}
    return pa.table(columns | later).select(BROKER_EVENT.schema.names).cast(BROKER_EVENT.schema)


def _of_broker(column: str) -> pa.Array:
    rows = (lease if column in LiveRow._fields else held for held, lease in map(_broker_rows, range(BROKERS)))
    return pa.array([getattr(row, column) for row in rows])


def _row_changes(lines: Lines, epoch: int) -> pa.Table:
    """Return the rows of `row_change`: two rows of a lease, or five topics, chosen by the line's time."""
    base, first_of_topics = _base()
    is_end, of_topics = lines.phase > 1, lines.phase % 2 == 1
    topics = lines.broker // 2 * _TOPICS_A_NAME + lines.at_ms % _TOPICS_A_NAME
    first = np.where(of_topics, first_of_topics + _TOPICS_A_LINE * topics, 2 * lines.broker)
    first += np.where(is_end, len(base) // 2, 0)
    count = np.where(of_topics, _TOPICS_A_LINE, 2)
    seq = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(seq)) - np.repeat(np.cumsum(count) - count, count)
    found = base.take(pa.array(first[seq] + place))
    at = pa.array(lines.at_ms[seq], pa.timestamp("ms", "UTC")).cast(TIMESTAMP)
    for number, values in enumerate((pa.array(np.full(len(seq), epoch)), pa.array(seq), at)):
        found = found.set_column(number, found.schema.field(number), values)
    return found


@cache
def _base() -> tuple[pa.Table, int]:
    """Return the changes of all lines that begin, then of all that end, and the place of the first topic in a half."""
    leases = [
        [("broker", row[0][:2], row[0]), ("live", row[1][:1], row[1])] for row in map(_broker_rows, range(BROKERS))
    ]
    topics = [
        [_topic_row(name + BROKER_NAMES * ((first + more) % _TOPICS_A_NAME)) for more in range(_TOPICS_A_LINE)]
        for name in range(BROKER_NAMES)
        for first in range(_TOPICS_A_NAME)
    ]
    rows = [*chain(*leases), *(("topic", row[:2], row) for row in chain(*topics))]
    begin = [RowChange(table, key, None, row) for table, key, row in rows]
    end = [RowChange(table, key, row, None) for table, key, row in rows]
    line = BrokerEventRow(0, 0, 0, 0, 0, "", None, None, None, None, None, None, "", None, changes=(*begin, *end))
    return row_changes_to_arrow(0, [line]), 2 * BROKERS


def make_year(publisher: Publisher, events: int) -> None:
    """Write months of 28 days, an epoch a day."""
    rng = np.random.default_rng(0)
    for month in MONTHS:
        lines = month_of_events(month, events // len(MONTHS), rng)
        of_a_day = -(-len(lines.at_ms) // DAYS)
        for first in range(0, len(lines.at_ms), of_a_day):
            _publish(publisher, Lines(*(each[first : first + of_a_day] for each in lines)), {})


def end_year(publisher: Publisher) -> None:
    """Start all brokers again and publish a snapshot that names the tables as maintenance has left them."""
    zero = np.zeros(BROKERS, np.int64)
    _publish(publisher, Lines(zero + YEAR_END_MS, np.arange(BROKERS), zero, zero), _routes())


def _publish(publisher: Publisher, lines: Lines, routes: dict[str, RowChanges]) -> None:
    batch_id = publisher.last.epoch
    changes = routes | {ROW_CHANGE.name: _row_changes(lines, batch_id + 1)}
    batch = Batch("bench", batch_id, int(lines.at_ms.max()), {0: batch_id}, changes, _events(lines))
    publisher.publish(batch, now_ms())


def _routes() -> dict[str, RowChanges]:
    """Return all brokers with leases that began at YEAR_END_MS, and all topics."""
    brokers, leases = zip(*map(_broker_rows, range(BROKERS)), strict=True)
    topics = [_topic_row(number) for number in range(_TOPICS_A_NAME * BROKER_NAMES)]
    return {"broker": RowChanges(brokers), "live": RowChanges(leases), "topic": RowChanges(topics)}


def _broker_rows(number: int) -> tuple[BrokerRow, LiveRow]:
    address, name, broker_id = f"10.0.{number}:10911", f"broker-a-{number // 2}", number % 2
    cluster, at_ms = f"cluster-{number // 2 % 10}", YEAR_END_MS
    lease = LiveRow(address, cluster, name, broker_id, at_ms, 120_000, DataVersion(0, at_ms, 1), "", at_ms)
    return BrokerRow(name, broker_id, address, cluster, f"zone-{number % 3}", False, LogPosition(at_ms, 0, 0)), lease


def _topic_row(number: int) -> TopicRow:
    topic = f"topic-{number}" if number else "order_created"
    return TopicRow(topic, f"broker-a-{number % BROKER_NAMES}", 8, 8, 6, 0)


def scans(node: Any) -> Iterator[tuple[int, int, int]]:
    """Return (identity, rows, files) of each scan in Spark's executed plan; a scan that is used twice may appear twice.

    An adaptive plan drops stages that the results of others made needless, so the initial plan is counted too.
    """
    name = node.nodeName()
    if name.startswith("AdaptiveSparkPlan"):
        yield from scans(node.initialPlan())
        yield from scans(node.executedPlan())
    elif name.endswith("QueryStage"):
        yield from scans(node.plan())
    elif name.startswith("Scan parquet"):
        rows, files = (node.metrics().apply(metric) for metric in ("numOutputRows", "numFiles"))
        yield rows.id(), rows.value(), files.value()
    for below in (node.children(), node.subqueries()):
        for index in range(below.size()):
            yield from scans(below.apply(index))


def measure(spark: SparkSession, statement: str) -> tuple[float, int, int]:
    """Return seconds, rows scanned, files read."""
    started_s = time.monotonic()
    frame = spark.sql(statement)
    frame.collect()
    taken_s = time.monotonic() - started_s
    found = {scan: counts for scan, *counts in scans(frame._jdf.queryExecution().executedPlan())}
    return taken_s, sum(rows for rows, _ in found.values()), sum(files for _, files in found.values())


def cold_s(root: str, statement: str) -> tuple[float, float]:
    """Return the seconds of `register_views` in a new session, and of the question that is then its first."""
    spark = local_session("bench-history", {"spark.driver.memory": "2g"}, cores="2", log=Path(root, "../cold.log"))
    started_s = time.monotonic()
    register_views(spark, Root(root))
    return time.monotonic() - started_s, measure(spark, statement)[0]


def questions() -> list[tuple[str, str]]:
    """Return heading and statement of each question of the cookbook."""
    text = (CHECKOUT / "docs" / "cookbook.md").read_text("utf-8")
    return re.findall(r"^## (.*?)\n.*?```sql\n(.*?);\n```", text, re.DOTALL | re.MULTILINE)


def of_year(bench: Bench, folder: Path, events: int, clustering: bool, cold: bool) -> dict[str, float]:
    """Print the questions on a year of so many lines. Return the seconds of each, in a new session with `cold`."""
    root = Root(f"{folder}/registry")
    started_s = time.monotonic()
    publisher = Publisher.claim(RustWriter(root), "bench", now_ms())
    make_year(publisher, events)
    print(f"a year of {events:,} lines made in {time.monotonic() - started_s:.0f} s")
    spark = local_session("bench-history", {"spark.driver.memory": "2g"}, cores="2", log=folder / "spark.log")
    if clustering:
        started_s = time.monotonic()
        maintain(root)
        print(f"maintained in {time.monotonic() - started_s:.0f} s")
    end_year(publisher)
    register_views(spark, root)
    taken_s = _print_questions(spark, bench)
    spark.stop()
    return _print_cold(f"{folder}/registry", bench) if cold else taken_s


def _print_questions(spark: SparkSession, bench: Bench) -> dict[str, float]:
    lines, found = [], {}
    first_s = []
    for question, statement in questions():  # each printed as it ends, so that one that does not end has a name
        first_s.append(measure(spark, statement)[0])
        print(f"{first_s[-1]:.1f} s: {question}", flush=True)
    for (question, statement), asked_s in zip(questions(), first_s, strict=True):
        found[question], rows, files = measure(spark, statement)
        lines.append((question, f"{asked_s:.1f}", f"{found[question]:.1f}", f"{rows:,}", f"{files:,}"))
    bench.rows(("question", "first, s", "again, s", "rows scanned", "files read"), lines)
    return found


def _print_cold(root: str, bench: Bench) -> dict[str, float]:
    """Ask each question in a process of its own, so in a JVM that has compiled nothing."""
    lines, found = [], {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for question, statement in questions():
            views_s, found[question] = processes.submit(cold_s, root, statement).result()
            lines.append((question, f"{views_s:.1f}", f"{found[question]:.1f}"))
    bench.rows(("question", "register_views in a new session, s", "as its first, s"), lines)
    return found


@benchmark(
    option("--events", (10_000_000,)),
    option("--clustering/--no-clustering", True, "Maintain the tables before."),
    option("--cold", False, "Ask each question in a new session too.", is_flag=True),
    plot=True,
)
def main(bench: Bench, events: tuple[int, ...], clustering: bool, cold: bool) -> bool:
    """Print one line for each question; exit with 1 if one took longer than the limit, its first time aside.

    All are run once before: in a new session each takes seconds more, while the JVM compiles. With --cold the time of a
    new session's first question counts too.
    """
    found = [of_year(bench, bench.folder / str(count), count, clustering, cold) for count in events]
    bench.draw("lines of history", events, {f"{name}, s": [each[name] for each in found] for name in found[0]})
    return any(max(taken_s.values()) > _LIMIT_S for taken_s in found)


if __name__ == "__main__":
    main()
