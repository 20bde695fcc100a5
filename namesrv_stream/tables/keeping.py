"""Which snapshots are kept, and where: the rows of a kept snapshot's tables lie in Delta tables of their own.

Delta has all versions of the last `snapshot.exact`. Of the time before, one snapshot an hour is kept for a week and one
a day for `snapshot.retention`. Version 57 of the table `topic` is then the table `kept/57/topic`, in one file. Another
kept snapshot that names the same version shares it. `broker_event` and `rejected` need no copy, because their newest
version has all former rows. A snapshot that somebody keeps by hand has a copy of them too: a query of hours then reads
files that no maintenance replaces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType, PyFileSystem

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.as_of import rows_until
from namesrv_stream.tables.damage import naming_damage
from namesrv_stream.tables.root import DAY_MS, HOUR_MS, KEPT_FOLDER, Root, batches
from namesrv_stream.tables.schemas import PINNED_TABLES, ROUTE_TABLES, TableSpec

_HOURLY_FOR_MS = 7 * DAY_MS
_BY_HAND = "by_hand"


def kept_epochs(
    rows: Iterable[SnapshotRow], now_ms: int, exact_ms: int, retention_ms: int, by_hand: Collection[int] = ()
) -> set[int]:
    """Return the epochs of `rows`, which are in order of epoch, that are kept.

    These are all of the last `exact_ms`, the first of each hour for a week, the first of each day for `retention_ms`,
    those kept by hand, and the newest. A snapshot that is kept for its day was kept for its hour before.
    """
    kept, slots, newest = set(by_hand), set[tuple[int, int]](), 0
    for row in rows:
        age_ms, newest = now_ms - row.published_at, row.epoch
        if age_ms <= exact_ms:
            kept.add(row.epoch)
        elif age_ms <= retention_ms:
            slot_ms = HOUR_MS if age_ms <= _HOURLY_FOR_MS else DAY_MS
            slot = slot_ms, row.published_at // slot_ms
            if slot not in slots:
                slots.add(slot)
                kept.add(row.epoch)
    return kept | {newest}


def kept_by_hand(root: Root) -> set[int]:
    """Return the epochs that somebody keeps."""
    return {int(path.rpartition("/")[2]) for path in _files(_storage(root), f"{KEPT_FOLDER}/{_BY_HAND}")}


def keep_by_hand(root: Root, row: SnapshotRow) -> None:
    """Keep a snapshot until `release`, with copies of all its tables."""
    with PyFileSystem(_storage(root)).open_output_stream(_mark(row.epoch), buffer_size=16) as mark:
        mark.write(b"kept\n")
    for spec in PINNED_TABLES:
        keep(root, spec, row)


def release(root: Root, epoch: int) -> None:
    """Keep a snapshot no longer by hand. The next maintenance removes it unless it is kept for its hour or day."""
    _storage(root).delete_file(_mark(epoch))


def keep(root: Root, spec: TableSpec, row: SnapshotRow) -> None:
    """Copy the rows of one table of a snapshot, if there is no copy yet."""
    version = row.versions[spec.name]
    with naming_damage(root.kept(version), spec):
        if root.copy_of(spec, version):
            return
    with naming_damage(root, spec, version):
        _, table = root.open_past(spec, version)
        rows = batches(table, pa.schema(table.schema().to_arrow()), rows_until(spec, row))
        options, place = dict(root.storage_options or {}), root.kept(version)
        try:
            write_deltalake(place.uri(spec), rows, mode="error", name=spec.name, storage_options=options)
        except DeltaError:
            if not root.copy_of(spec, version):  # else somebody else has just written it
                raise


def drop_unnamed(root: Root, rows: Iterable[SnapshotRow], by_hand: Collection[int]) -> None:
    """Remove the copies that none of the snapshots `rows` needs."""
    needed = {
        (str(row.versions[spec.name]), spec.name)
        for row in rows
        for spec in (PINNED_TABLES if row.epoch in by_hand else ROUTE_TABLES)
    }
    storage = _storage(root)
    for path in _files(storage, KEPT_FOLDER):
        _, version, name, *_ = path.split("/")
        if version != _BY_HAND and (version, name) not in needed:
            storage.delete_file(path)
            if "://" not in root.url:
                _remove_empty_folders(Path(root.url, path), Path(root.url, KEPT_FOLDER))


def _remove_empty_folders(file: Path, top: Path) -> None:
    with suppress(OSError):  # one that is not empty
        for folder in takewhile(lambda each: each != top, file.parents):
            folder.rmdir()


def _mark(epoch: int) -> str:
    return f"{KEPT_FOLDER}/{_BY_HAND}/{epoch}"


def _storage(root: Root) -> DeltaStorageHandler:
    return DeltaStorageHandler(root.url, dict(root.storage_options or {}))


def _files(storage: DeltaStorageHandler, folder: str) -> list[str]:
    """Return the files below a folder, the log of each table first: without it the table is not read any more."""
    found = storage.get_file_info_selector(FileSelector(folder, allow_not_found=True, recursive=True))
    paths = [info.path for info in found if info.type == FileType.File]
    return sorted(paths, key=lambda path: ("_delta_log" not in path, path))
