"""Files as old as time would make them, and what readers show of all snapshots."""

import os
import re
from pathlib import Path

from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import DAY_MS
from tests.tables.batches import batches_shown


def views_of_all(root):
    reader = Registry(root)
    rows = reader.read(lambda snapshots: snapshots.readable())
    return {row.epoch: batches_shown(reader.at(epoch=row.epoch), root) for row in rows}


def make_older(files, by_ms):
    """Make commits and data files older, for Delta, which counts by its log and by the times of files."""
    for file in files:
        if file.suffix == ".json":
            older = re.sub(
                r'"(timestamp|deletionTimestamp)":(\d+)',
                lambda found: f'"{found[1]}":{int(found[2]) - by_ms}',
                file.read_text(),
            )
            file.write_text(older)
        at_s = file.stat().st_mtime - by_ms / 1000
        os.utime(file, (at_s, at_s))


def pass_time(root, days):
    """Make all commits so many days older."""
    make_older([file for file in Path(root.url).rglob("*") if file.is_file()], days * DAY_MS)
