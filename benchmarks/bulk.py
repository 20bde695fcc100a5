"""Measure whether a driver has the time and memory for bulk merges by delta-rs: all rows of `topic` new, then changed.

    .venv/bin/python -m benchmarks.bulk --brokers 100 --brokers 300

A process of its own writes each registry. Everyday merges into it are measured too, and the effect of the number of
buckets on both: `--buckets 1` has one file for all.
"""

from __future__ import annotations

import shutil
import statistics
import time
from functools import partial

import pyarrow as pa

from benchmarks.driver import apart
from benchmarks.harness import Bench, benchmark, memory_mb, option
from benchmarks.large_registry import TOPICS_PER_BROKER, Plan
from namesrv_stream.tables import schemas
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TOPIC
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter

_ONE_ROW_TIMES = 9


def merged(plan: Plan, root: str) -> dict[str, str]:
    """Merge everything, one row, one row of each broker, all rows of one, and everything again."""
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
    return figures | {
        "one row changed, median ms": f"{statistics.median(one_row_s) * 1e3:.0f}",
        "all rows of one broker changed, ms": f"{merge_s(changed.slice(0, plan.topics)) * 1e3:.0f}",
        "one row of every broker changed, ms": f"{merge_s(changed.take(of_each)) * 1e3:.0f}",
        "all rows changed, s": f"{merge_s(changed):.1f}",
        "files": str(len(Root(root).open(TOPIC).file_uris())),
        "memory for it beside the rows, at most, MB": f"{memory_mb(highest=True) - before_mb:,.0f}",
    }


def merged_in(buckets: int, plan: Plan, root: str) -> dict[str, str]:
    """Merge with another number of buckets."""
    schemas.TOPIC_BUCKETS = buckets
    return merged(plan, root)


@benchmark(
    option("--brokers", (100, 300)),
    option("--topics", TOPICS_PER_BROKER, "Of each broker."),
    option("--buckets", (schemas.TOPIC_BUCKETS,)),
)
def main(bench: Bench, brokers: tuple[int, ...], topics: int, buckets: tuple[int, ...]) -> None:
    """Print one column for each registry and number of buckets."""
    columns = {}
    for count in brokers:
        for bucket_count in buckets:
            plan, place = Plan(count, topics, has_own_topics=False), bench.folder / "registry"
            name = f"{plan.rows:,} rows, {bucket_count} buckets"
            columns[name] = apart(partial(merged_in, bucket_count), plan, str(place))
            shutil.rmtree(place)
    bench.columns(columns)


if __name__ == "__main__":
    main()
