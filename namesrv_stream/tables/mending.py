"""Find the damaged tables of a registry, save their readable rows, and write a table anew above its old log.

Versions that need no damaged file stay as they are. Versions that need one stay unreadable.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.fs import DeltaStorageHandler

from namesrv_stream.errors import NotARegistryError
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.as_of import unrecorded
from namesrv_stream.tables.damage import (
    LAST_CHECKPOINT,
    UNREADABLE,
    Damage,
    TableFiles,
    newest_version,
    table_damages,
)
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    LIVE,
    PINNED_TABLES,
    REJECTED,
    ROUTE_TABLES,
    ROW_CHANGE,
    SNAPSHOT,
    TABLES,
    TableSpec,
)
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.tables.writer import CommitTag, RustWriter

KEYS: Mapping[str, tuple[str, ...]] = {
    SNAPSHOT.name: ("epoch",),
    BROKER_EVENT.name: ("epoch", "seq"),
    ROW_CHANGE.name: ("epoch", "seq", "table_name", *dict.fromkeys(name for spec in ROUTE_TABLES for name in spec.key)),
    REJECTED.name: ("partition", "offset"),
}
"""Columns that identify a row of an append-only table."""

_BEFORE_ALL = SnapshotRow(0, 0, "", None, None, 0, None, {}, {}, {})
_ROOM = 10
"""Versions left free below a table that is written anew. A job that has not noticed yet that it was replaced commits
there."""


def damages(root: Root) -> list[Damage]:
    """Return the damaged files of the newest snapshot, with all of the history. Reads every file that it needs.

    If no data file is damaged, return the route tables that can be read and have other rows than `row_change` has last.

    If the table `snapshot` cannot be read, it is the newest one in its readable files.
    """
    found = _damages_at_head(root, SNAPSHOT)
    is_hurt = any(damage.table == SNAPSHOT.name for damage in found)
    newest = saved_snapshots(root)[:1] if is_hurt else [Snapshots(root).newest()]
    found += [damage for spec in PINNED_TABLES for damage in _damages_of(root, spec, newest)]
    hurt = {damage.table for damage in found}
    if newest and ROW_CHANGE.name not in hurt and all(damage.is_of_checkpoint for damage in found):
        whole = (spec for spec in ROUTE_TABLES if spec.name not in hurt)
        found += [damage for spec in whole for damage in _other_rows(root, spec, newest[0])]
    return found


def _other_rows(root: Root, spec: TableSpec, newest: SnapshotRow) -> Iterator[Damage]:
    """Yield the damage of a table with other rows than `row_change` has last: a flipped bit, or another program."""
    if changes := unrecorded(root, newest, spec):
        example = ", ".join(map(str, changes[0].key))
        problem = f"{len(changes):,} rows of epoch {newest.epoch} are not what row_change has last, as {example}"
        yield Damage(spec.name, "", problem, (newest.versions[spec.name],), (newest.epoch,))


def saved_snapshots(root: Root) -> list[SnapshotRow]:
    """Return the rows of the table `snapshot` that can still be read, newest first.

    If the newest publication's row is lost, the first one is what `lost_publication` makes of it. If all are lost, the
    others are made of the history.
    """
    lost, rows = lost_publication(root), read_snapshots(root)
    return [*([lost] if lost else []), *(rows or _rows_of_history(root, lost))]


def _rows_of_history(root: Root, newest: SnapshotRow | None) -> list[SnapshotRow]:
    """Return a row for each epoch before the newest that has lines, newest first, at the time of its last event."""
    if newest is None:
        return []
    made: dict[int, SnapshotRow] = {}
    event_time = 0
    for line in sorted(rows_from_arrow(BROKER_EVENT, saved_rows(root, BROKER_EVENT))):
        event_time = max(event_time, line.event_time)  # it never falls from epoch to epoch
        made[line.epoch] = newest._replace(epoch=line.epoch, event_time=event_time, published_at=event_time)
    made.pop(newest.epoch, None)
    return list(made.values())[::-1]


def read_snapshots(root: Root) -> list[SnapshotRow]:
    """Return the rows of `snapshot` in readable files, newest first."""
    rows: list[SnapshotRow] = rows_from_arrow(SNAPSHOT, saved_rows(root, SNAPSHOT))
    return sorted(rows, key=lambda row: row.epoch, reverse=True)


def lost_publication(root: Root) -> SnapshotRow | None:
    """Return a row for the newest publication if its own cannot be read: None if it can, or if no row can.

    Its versions are those that the tables had then by the tags of their commits. Its place in the log is that of the
    last record with a line or a rejected row. If all rows are lost, the identity of its Kafka is unknown.
    """
    former, tags = next(iter(read_snapshots(root)), _BEFORE_ALL), [tag for _, tag in _tags(root, SNAPSHOT)]
    tag = next(filter(None, tags), CommitTag(0, 0))
    if not any(tags[:1]) and former.epoch <= tag.epoch:  # the commit cannot be read, nor can the row that it added
        tag = max(tag, newest_tag(root))
    return _made_row(root, former, tag) if tag.epoch > former.epoch else None


def newest_tag(root: Root) -> CommitTag:
    """Return the highest tag of a commit that can be read, of any table that snapshots name, and of `snapshot`."""
    tags = (tag for spec in (SNAPSHOT, *PINNED_TABLES) for _, tag in _tags(root, spec) if tag)
    return max(tags, default=CommitTag(0, 0))


def _made_row(root: Root, former: SnapshotRow, tag: CommitTag) -> SnapshotRow:
    at_least = dict.fromkeys((spec.name for spec in PINNED_TABLES), 0) | former.versions
    versions = {spec.name: _version_at(root, spec, tag.epoch, at_least[spec.name]) for spec in PINNED_TABLES}
    read = {spec: saved_rows(root, spec, versions[spec.name]) for spec in (BROKER_EVENT, REJECTED)}
    lines = [line for line in rows_from_arrow(BROKER_EVENT, read[BROKER_EVENT]) if former.epoch < line.epoch]
    offsets, event_time = dict(former.offsets), former.event_time or 0
    for each in (*lines, *rows_from_arrow(REJECTED, read[REJECTED])):
        event_time = max(event_time, each.event_time)
        if each.offset is not None:
            offsets[each.partition] = max(offsets.get(each.partition, 0), each.offset + 1)
    heard_ms = pc.max(readable_rows(root, LIVE, versions[LIVE.name])["clock_millis"]).as_py()
    return former._replace(
        epoch=tag.epoch,
        term=tag.term,
        published_at=max(former.published_at, event_time),
        event_time=event_time or None,
        offsets=offsets,
        versions=versions,
        changes={},
        kind="PUBLICATION",
        last_append=former.last_append if offsets == former.offsets else None,
        clock_millis=max(filter(None, (former.clock_millis, heard_ms)), default=None),
    )


def _version_at(root: Root, spec: TableSpec, epoch: int, at_least: int) -> int:
    """Return the newest version of a table without a commit of a later epoch."""
    version = newest_version(root, spec)
    for number, tag in _tags(root, spec):
        if tag is not None and tag.epoch <= epoch:
            break
        version = version if tag is None else number - 1
    return max(version, at_least)


def _tags(root: Root, spec: TableSpec) -> Iterator[tuple[int, CommitTag | None]]:
    """Yield each commit that has a tag, newest first: its version and tag, None if the commit cannot be read."""
    files = TableFiles(root, spec)
    for path in sorted((path for path in files.listed("_delta_log") if path.endswith(".json")), reverse=True):
        version = int(Path(path).stem)
        try:
            tags = [each["commitInfo"].get("userMetadata") for each in files.actions(path) if "commitInfo" in each]
        except msgspec.DecodeError:
            yield version, None
            continue
        for tag in filter(None, tags):
            with suppress(msgspec.DecodeError, TypeError):
                yield version, CommitTag(**msgspec.json.decode(tag))


def _damages_of(root: Root, spec: TableSpec, newest: Sequence[SnapshotRow]) -> list[Damage]:
    """Return the damaged files of the version that the newest snapshot names, and of the head, on top of it."""
    head = newest_version(root, spec)
    named = {row.versions[spec.name]: [row.epoch] for row in newest}
    return table_damages(root, spec, dict(sorted(({head: []} | named).items())))


def _damages_at_head(root: Root, spec: TableSpec) -> list[Damage]:
    head = newest_version(root, spec)
    return table_damages(root, spec, {head: ()}) if head >= 0 or root.has_data(spec) else []


def drop_checkpoint(root: Root, damage: Damage) -> None:
    """Remove a damaged checkpoint, and the hint at it. Delta reads the commits before it instead, if they are there."""
    files = TableFiles(root, TABLES[damage.table])
    for path in {damage.file, LAST_CHECKPOINT}.intersection(files.listed("_delta_log")):
        files.storage.delete_file(path)


def rewrite_table(root: Root, spec: TableSpec, rows: pa.Table, above: int, tag: CommitTag) -> int:
    """Write the rows as a version of the table that needs nothing of the versions before it, and return that version.

    It is higher than `above` and than all versions in the log. Its checkpoint holds the whole table, so Delta reads
    nothing older.
    """
    name = f"_mending-{uuid.uuid4().hex[:8]}"
    beside = Root(f"{root.url.rstrip('/')}/{name}", root.storage_options)
    writer = RustWriter(beside)
    writer.ensure_table(spec)
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
    if LAST_CHECKPOINT in TableFiles(root, spec).listed("_delta_log"):
        store.delete_file(f"{spec.name}/{LAST_CHECKPOINT}")
    for path in files.listed(""):
        store.delete_file(f"{name}/{spec.name}/{path}")
    if "://" not in root.url:
        shutil.rmtree(Path(root.url, name))


def saved_rows(root: Root, spec: TableSpec, version: int | None = None) -> pa.Table:
    """Return the rows of an append-only table that can still be read, each once.

    If the log does not name the files of the version, by default the newest, all are read that a commit added. Other
    files then give only rows of epochs that these lack, because a run that died may have left lines of an epoch that
    another run has published. Without any commit all files are read.
    """
    files = TableFiles(root, spec)
    others = frozenset[str]()
    try:
        known = files.paths(newest_version(root, spec) if version is None else version)
    except (*UNREADABLE, NotARegistryError):
        stored = frozenset(path for path in files.listed("") if path.endswith(".parquet") and not path.startswith("_"))
        known = stored & frozenset(_added(files))
        others = stored - known
    rows = pa.concat_tables([spec.schema.empty_table(), *_readable(files, known)])
    first = spec.schema.names[0]
    known_epochs = rows.column(first)
    more = (each.filter(pc.invert(pc.is_in(each.column(first), known_epochs))) for each in _readable(files, others))
    return _each_once(spec, pa.concat_tables([rows, *more]))


def readable_rows(root: Root, spec: TableSpec, version: int) -> pa.Table:
    """Return the rows of a version in files that can be read; none if the log does not name its files."""
    files, paths = TableFiles(root, spec), frozenset[str]()
    with suppress(*UNREADABLE):
        paths = files.paths(version)
    return pa.concat_tables([spec.schema.empty_table(), *_readable(files, paths)])


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
