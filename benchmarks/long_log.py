"""Measure what a table's log costs on a local disk once it has many entries.

    .venv/bin/python -m benchmarks.long_log --entries 200 --entries 172800

172,800 entries are those of a table that is written twice a minute for 60 days. Maintenance shortens logs to
`snapshot.exact`, an hour, so a log is as long only where no maintenance runs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.tables.root import OpenTables, Root, select
from namesrv_stream.tables.schemas import LIVE
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter

_TAG = CommitTag(1, 1)
_TIMES = 15


def lengthen(root: Root, entries: int) -> int:
    """Give the new table `live` a log of so many entries, the newest a checkpoint; return the newest version."""
    table = root.open(LIVE)
    table.create_checkpoint()
    log, version = Path(root.uri(LIVE), "_delta_log"), entries - 1
    for number in range(1, entries):
        (log / f"{number:020}.json").write_text('{"commitInfo":{"operation":"WRITE"}}\n')
    shutil.move(log / f"{0:020}.checkpoint.parquet", log / f"{version:020}.checkpoint.parquet")
    last = log / "_last_checkpoint"
    last.write_text(last.read_text().replace('"version":0', f'"version":{version}'))
    return version


def median_ms(act: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Return the median milliseconds of an action that is done several times, each time after `before`."""
    taken_s = []
    for _ in range(_TIMES):
        before()
        started_s = time.perf_counter()
        act()
        taken_s.append(time.perf_counter() - started_s)
    return 1_000 * statistics.median(taken_s)


def of_log(folder: Path, entries: int) -> dict[str, float]:
    """Return the milliseconds of each step on a log of so many entries."""
    root = Root(str(folder))
    writer = RustWriter(root)
    writer.ensure_table(LIVE)
    newest = lengthen(root, entries)
    table, writer = root.open(LIVE), RustWriter(root)
    followed = OpenTables(root)
    followed.at(LIVE, newest)

    def write() -> None:
        nonlocal newest
        lease = LiveRow("10.0.0.1:10911", "c", "broker-a", 0, newest, 120_000, DataVersion(0, 0, newest), "", 0)
        newest = writer.merge(LIVE, newest, RowChanges([lease]), _TAG)

    def follow() -> None:
        select(followed.at(LIVE, newest), LIVE)

    found = {"a look for a newer version": median_ms(table.update_incremental), "a write": median_ms(write)}
    follow()
    return {**found, "following one commit": median_ms(follow, before=write)}


@click.command()
@click.option("--entries", "sizes", type=int, multiple=True, default=(200, 172_800), show_default=True)
def main(sizes: tuple[int, ...]) -> None:
    """Print the milliseconds of each step, a column for each length of the log."""
    grid = Table("one table on a local disk, ms", *(f"{size:,} entries" for size in sizes))
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="bench-long-log-") as folder:
            found.append(of_log(Path(folder), size))
    for step in found[0]:
        grid.add_row(step, *(f"{of_size[step]:.1f}" for of_size in found))
    console = Console()
    console.print(grid)
    console.print(f"{os.cpu_count()} cores; load average {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
