"""Remove the snapshots that are not kept, and the versions that only they name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import pyarrow.compute as pc
from deltalake import CommitProperties

from namesrv_stream.errors import TableDamagedError
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage import TableFiles
from namesrv_stream.tables.keeping import drop_unnamed, keep, kept_by_hand, kept_epochs
from namesrv_stream.tables.object_store import writer_of
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import PAST_SNAPSHOT, PINNED_TABLES, ROUTE_TABLES, SNAPSHOT, TableSpec
from namesrv_stream.tables.snapshots import Snapshots, among
from namesrv_stream.tables.writer import CommitTag

log = logging.getLogger(__name__)

_CHECKPOINT = ".checkpoint.parquet"


class NamedVersions(NamedTuple):
    """The lowest and the highest version of a table that snapshots of the last `snapshot.exact` name.

    Files of both may have been replaced before that time: those of the lowest by a compaction that no snapshot named
    since, those of the highest if the job has stopped. A version between was the newest one within that time.
    """

    lowest: int
    highest: int


def thin_out(root: Root, now_ms: int, exact_ms: int, on_kept: Callable[[], None]) -> None:
    """Copy the tables of the kept snapshots that are older than `exact_ms`, and remove all other snapshots as old.

    Their rows go to `past_snapshot`. A snapshot whose tables cannot be copied, because a file is damaged, goes too.
    `on_kept` is called before each snapshot that is copied, and may end the work by an error: the next call goes on.
    """
    snapshots = Snapshots(root)
    rows, by_hand = snapshots.readable()[::-1], kept_by_hand(root)
    kept = kept_epochs(rows, now_ms, exact_ms, snapshots.retention_ms, by_hand)
    old = [row for row in rows[:-1] if row.epoch in kept and now_ms - row.published_at > exact_ms]
    for row in old:
        on_kept()
        if not _is_copied(root, row):
            kept.discard(row.epoch)
    _drop(root, rows[-1], [row.epoch for row in rows if row.epoch not in kept], kept)
    drop_unnamed(root, [row for row in rows if row.epoch in by_hand or row in old], by_hand)


def _is_copied(root: Root, row: SnapshotRow) -> bool:
    try:
        for spec in ROUTE_TABLES:
            keep(root, spec, row)
    except TableDamagedError as error:
        log.warning("epoch %d is not kept, the history alone has that time: %s", row.epoch, error)
        return False
    return True


def _drop(root: Root, newest: SnapshotRow, epochs: Collection[int], left: Collection[int]) -> None:
    """Move the rows of snapshots to `past_snapshot`; `left` are the other epochs that `snapshot` has.

    A run that dies in between leaves rows in both tables; the next run adds none of them again.
    """
    if not epochs:
        return
    gone = among(epochs, [*epochs, *left])
    writer = writer_of(root)
    writer.ensure_table(PAST_SNAPSHOT, Snapshots(root).retention_ms)
    head = writer.head(PAST_SNAPSHOT)
    remembered = writer.read(PAST_SNAPSHOT, head)["epoch"]
    rows = select(root.open(SNAPSHOT), SNAPSHOT, gone, "ORDER BY epoch").select(PAST_SNAPSHOT.schema.names)
    new = rows.filter(pc.invert(pc.is_in(rows["epoch"], value_set=remembered)))
    writer.append(PAST_SNAPSHOT, head, new, CommitTag(newest.epoch, newest.term))
    root.open(SNAPSHOT).delete(gone, commit_properties=CommitProperties(max_commit_retries=0))


def _version_of(path: str) -> int:
    """Return the version in the name of a file of the log, or of Hadoop's hidden checksum beside it; else -1."""
    digits = path.rpartition("/")[2].lstrip(".").partition(".")[0]
    return int(digits) if digits.isdecimal() else -1


def named_versions(root: Root, since_ms: int) -> Mapping[str, NamedVersions]:
    """Return the versions that snapshots published at `since_ms` or later name, and the newest one in any case."""
    rows = Snapshots(root).readable()
    recent: Sequence[SnapshotRow] = [rows[0], *(row for row in rows if row.published_at >= since_ms)]
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
