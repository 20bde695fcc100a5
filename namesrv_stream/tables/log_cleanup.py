"""Remove the versions of tables that no snapshot of the last `snapshot.exact` names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from namesrv_stream.tables.damage import TableFiles
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import PINNED_TABLES, TableSpec
from namesrv_stream.tables.snapshots import Snapshots

_CHECKPOINT = ".checkpoint.parquet"


class NamedVersions(NamedTuple):
    """The lowest and the highest version of a table that snapshots of the last `snapshot.exact` name.

    Files of both may have been replaced before that time: those of the lowest by a compaction that no snapshot named
    since, those of the highest if the job has stopped. A version between was the newest one within that time.
    """

    lowest: int
    highest: int


def _version_of(path: str) -> int:
    """Return the version in the name of a file of the log, or of Hadoop's hidden checksum beside it; else -1."""
    digits = path.rpartition("/")[2].lstrip(".").partition(".")[0]
    return int(digits) if digits.isdecimal() else -1


def named_versions(root: Root, since_ms: int) -> Mapping[str, NamedVersions]:
    """Return the versions that snapshots published at `since_ms` or later name, and the newest one in any case."""
    recent = Snapshots(root).published_since(since_ms)
    return {
        spec.name: NamedVersions(
            min(row.versions[spec.name] for row in recent), max(row.versions[spec.name] for row in recent)
        )
        for spec in PINNED_TABLES
    }


def shorten_log(root: Root, spec: TableSpec, first: int) -> None:
    """Remove the commits and checkpoints of a table before version `first`, which gets a checkpoint before that.

    The oldest go first: what remains has no gap, also if this run dies.
    """
    files = TableFiles(root, spec)
    log_files = {path: _version_of(path) for path in files.listed("_delta_log")}
    old = [path for path, version in log_files.items() if 0 <= version < first]
    if not old:
        return
    if f"_delta_log/{first:020}{_CHECKPOINT}" not in log_files:
        root.open(spec, first).create_checkpoint()
    for path in sorted(old):
        with suppress(FileNotFoundError):
            files.storage.delete_file(path)
