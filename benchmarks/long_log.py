"""Measure what a table's log costs on a local disk once it has many entries.

    .venv/bin/python -m benchmarks.long_log --entries 200 --entries 172800

172,800 entries are those of a table that is written twice a minute for 60 days. Maintenance shortens logs to
`snapshot.exact`, an hour, so a log is as long only where no maintenance runs.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.harness import Bench, benchmark, option, timed
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.tables.root import OpenTables, Root, select
from namesrv_stream.tables.schemas import LIVE
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter


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


def of_log(folder: Path, entries: int) -> dict[str, str]:
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
        newest = writer.merge(LIVE, newest, RowChanges([lease]), CommitTag(1, 1))

    def follow() -> None:
        select(followed.at(LIVE, newest), LIVE)

    figures_s = {
        "a look for a newer version": timed(table.update_incremental, 15),
        "a write": timed(write, 15),
        "following one commit": timed(follow, 16, before=write),
    }
    return {figure: f"{taken_s * 1e3:.1f}" for figure, taken_s in figures_s.items()}


@benchmark(option("--entries", (200, 172_800)))
def main(bench: Bench, entries: tuple[int, ...]) -> None:
    """Print the milliseconds of each step, a column for each length of the log."""
    columns = {f"{size:,} entries": of_log(bench.folder / str(size), size) for size in entries}
    bench.columns(columns, "one table on a local disk, ms")


if __name__ == "__main__":
    main()
