"""Find the damaged tables of a registry, save their readable rows, and write a table anew above its old log.

Versions that need no damaged file stay as they are. Versions that need one stay unreadable.
"""

from __future__ import annotations

import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.fs import DeltaStorageHandler

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage import UNREADABLE, Damage, TableFiles, newest_version, table_damages
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT, PAST_SNAPSHOT, PINNED_TABLES, REJECTED, SNAPSHOT, TableSpec
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.writer import CommitTag, RustWriter

KEYS: Mapping[str, tuple[str, ...]] = {
    SNAPSHOT.name: ("epoch",),
    PAST_SNAPSHOT.name: ("epoch",),
    BROKER_EVENT.name: ("epoch", "seq"),
    REJECTED.name: ("partition", "offset"),
}
"""Columns that identify a row of an append-only table."""

_ROOM = 10
"""Versions left free below a table that is written anew. A job that has not noticed yet that it was replaced commits
there."""

_HINT = "_delta_log/_last_checkpoint"
"""File that names the checkpoint at which a reader may begin. Without it readers look for the newest."""


def damages(root: Root) -> list[Damage]:
    """Return the damaged files of all snapshots that retention keeps. Reads every file that they need.

    If the table `snapshot` cannot be read, these versions are not known, and only the newest ones are checked.
    """
    found = [*_damages_at_head(root, SNAPSHOT), *_damages_at_head(root, PAST_SNAPSHOT)]
    if any(damage.table == SNAPSHOT.name for damage in found):
        return [*found, *(damage for spec in PINNED_TABLES for damage in _damages_at_head(root, spec))]
    rows = Snapshots(root).readable()
    return [*found, *(damage for spec in PINNED_TABLES for damage in _damages_of(root, spec, rows))]


def _damages_of(root: Root, spec: TableSpec, rows: Sequence[SnapshotRow]) -> list[Damage]:
    """Return the damaged files of the versions that snapshots name, and of the newest one, on which the job writes."""
    head = newest_version(root, spec)
    found = table_damages(root, spec, dict(sorted(({head: []} | naming(spec, rows)).items())))
    needed = {head, rows[0].versions[spec.name]}
    return [damage._replace(is_past=needed.isdisjoint(damage.versions)) for damage in found]


def naming(spec: TableSpec, rows: Sequence[SnapshotRow]) -> dict[int, list[int]]:
    """Return each version of a table that a snapshot names, with the epochs of these snapshots, both in order."""
    epochs = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.epoch):
        epochs[row.versions[spec.name]].append(row.epoch)
    return dict(sorted(epochs.items()))


def _damages_at_head(root: Root, spec: TableSpec) -> list[Damage]:
    head = newest_version(root, spec)
    return table_damages(root, spec, {head: ()}) if head >= 0 else []


def lay_anew(root: Root, spec: TableSpec, rows: pa.Table, retention_ms: int, above: int, tag: CommitTag) -> int:  # noqa: PLR0913, PLR0917
    """Write the rows as a version of the table that needs nothing of the versions before it, and return that version.

    It is higher than `above` and than all versions in the log. Its checkpoint holds the whole table, so Delta reads
    nothing older.
    """
    name = f"_mending-{uuid.uuid4().hex[:8]}"
    beside = Root(f"{root.url.rstrip('/')}/{name}", root.storage_options)
    writer = RustWriter(beside)
    writer.ensure_table(spec, retention_ms)
    made = writer.append(spec, 0, rows, tag)
    beside.open(spec).create_checkpoint()
    version = max(above, newest_version(root, spec)) + _ROOM
    _move(root, spec, name, made, version)
    return version


def _move(root: Root, spec: TableSpec, name: str, made: int, version: int) -> None:
    """Move the files of the table in folder `name` to the registry's table.

    Its newest version `made` becomes `version`.
    """
    store = DeltaStorageHandler(root.url, dict(root.storage_options or {}))
    files = TableFiles(Root(f"{root.url.rstrip('/')}/{name}", root.storage_options), spec)
    log = {
        f"_delta_log/{made:020}{kind}": f"_delta_log/{version:020}{kind}" for kind in (".checkpoint.parquet", ".json")
    }
    data = {path: path for path in files.listed("") if not path.startswith("_delta_log")}
    for path, there in (data | log).items():  # the log last: then all files exist that it names
        store.move(f"{name}/{spec.name}/{path}", f"{spec.name}/{there}")
    if _HINT in TableFiles(root, spec).listed("_delta_log"):
        store.delete_file(f"{spec.name}/{_HINT}")
    for path in files.listed(""):
        store.delete_file(f"{name}/{spec.name}/{path}")
    if "://" not in root.url:
        shutil.rmtree(Path(root.url, name))


def saved_rows(root: Root, spec: TableSpec, version: int | None = None) -> pa.Table:
    """Return the rows of an append-only table that can still be read, each once.

    If the log names a version's files, these are read. Otherwise all files are read that a commit added. Other files
    then give only rows of epochs that these lack, because a run that died may have left lines of an epoch that another
    run has published.
    """
    files = TableFiles(root, spec)
    try:
        at = newest_version(root, spec) if version is None else version
        known, others = files.paths(at), frozenset[str]()
    except UNREADABLE:
        stored = frozenset(path for path in files.listed("") if path.endswith(".parquet") and not path.startswith("_"))
        known = stored & frozenset(_added(files))
        others = stored - known
    rows = pa.concat_tables([spec.schema.empty_table(), *_readable(files, known)])
    first = spec.schema.names[0]
    for more in _readable(files, others):
        rows = pa.concat_tables([rows, more.filter(pc.invert(pc.is_in(more.column(first), rows.column(first))))])
    return _each_once(spec, rows)


def _added(files: TableFiles) -> Iterator[str]:
    for path in sorted(files.listed("_delta_log")):
        if path.endswith(".json"):
            with suppress(msgspec.DecodeError):
                yield from [action["add"]["path"] for action in files.actions(path) if "add" in action]


def _readable(files: TableFiles, paths: frozenset[str]) -> Iterator[pa.Table]:
    return (files.rows(path) for path in sorted(paths) if files.problem(path) is None)


def _each_once(spec: TableSpec, rows: pa.Table) -> pa.Table:
    keys = zip(*(rows.column(name).to_pylist() for name in KEYS[spec.name]), strict=True)
    places = {key: place for place, key in enumerate(keys)}
    return rows.take(pa.array(sorted(places.values()), pa.int64()))
