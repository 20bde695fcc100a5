"""Measure whether a driver has the time and memory for bulk merges by delta-rs: all rows of `topic` new, then changed.

    .venv/bin/python -m benchmarks.bulk --brokers 100 --brokers 300

A process of its own writes each registry. Everyday merges into it are measured too, and the effect of the number of
buckets on both: `--buckets 1` has one file for all.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time

import click
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.driver import apart, highest_b, memory_b
from benchmarks.large_registry import TOPICS_PER_BROKER, Plan
from namesrv_stream.tables import schemas
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TOPIC
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter

_TAG = CommitTag(1, 1)
_MB = 1024 * 1024
_ONE_ROW_TIMES = 9


def merged(plan: Plan, root: str) -> dict[str, str]:
    """Merge everything, one row, one row of each broker, all rows of one, and everything again."""
    writer, rows = RustWriter(Root(root)), plan.all_rows()
    writer.ensure_tables()
    before_b, version = memory_b(), 0

    def merge_s(changed: pa.Table) -> float:
        nonlocal version
        began_s = time.perf_counter()
        version = writer.merge(TOPIC, version, RowChanges(changed), _TAG)
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
        "memory for it beside the rows, at most, MB": f"{(highest_b() - before_b) / _MB:,.0f}",
    }


class MergedIn:
    """The function `merged` with another number of buckets, in a form that can be passed to another process."""

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets

    def __call__(self, plan: Plan, root: str) -> dict[str, str]:
        """Call `merged`."""
        schemas.TOPIC_BUCKETS = self._buckets
        return merged(plan, root)


@click.command()
@click.option("--brokers", type=int, multiple=True, default=(100, 300), show_default=True)
@click.option("--topics", type=int, default=TOPICS_PER_BROKER, show_default=True, help="Of each broker.")
@click.option("--buckets", type=int, multiple=True, default=(schemas.TOPIC_BUCKETS,), show_default=True)
def main(brokers: tuple[int, ...], topics: int, buckets: tuple[int, ...]) -> None:
    """Print one column for each registry and number of buckets."""
    table = Table("figure", title=f"load average {os.getloadavg()[0]:.1f} before")
    columns = []
    for count in brokers:
        for bucket_count in buckets:
            plan = Plan(count, topics, has_own_topics=False)
            table.add_column(f"{plan.rows:,} rows, {bucket_count} buckets", justify="right")
            folder = tempfile.mkdtemp(prefix="namesrv-bulk-")
            try:
                columns.append(apart(MergedIn(bucket_count), plan, folder))
            finally:
                shutil.rmtree(folder)
    for name in columns[0]:
        table.add_row(name, *(column[name] for column in columns))
    Console(width=max(120, 60 + 25 * len(columns))).print(table)
    print(f"load average {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
