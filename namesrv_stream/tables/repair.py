"""Find the damaged tables of a registry, and make them readable again.

A damaged keyed table is made from the last rows that `row_change` has. A damaged append-only table loses the rows that
cannot be read; where these are of the history, that is a hole (tables/holes.py). Files that cannot be read are moved to
`_damaged` in the table's folder.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from namesrv_stream.errors import NotARegistryError, TableDamagedError
from namesrv_stream.rules.rows import Hole, SnapshotRow
from namesrv_stream.tables.arrow import query_rows, rows_from_arrow, rows_to_arrow, with_partition_column
from namesrv_stream.tables.changes import RowsByKey, folded, rows_by_key
from namesrv_stream.tables.damage import (
    LAST_CHECKPOINT,
    UNREADABLE,
    Damage,
    TableFiles,
    newest_version,
    table_damages,
    version_of,
)
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root, select, table_properties
from namesrv_stream.tables.schemas import (
    BROKER,
    BROKER_EVENT,
    CLUSTER,
    FILTER,
    LIVE,
    PINNED_TABLES,
    REJECTED,
    ROUTE_TABLES,
    ROW_CHANGE,
    SNAPSHOT,
    TABLES,
    TOPIC,
    TOPIC_MAPPING,
    TableSpec,
)
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tables.writer import CommitTag, RustWriter

_HISTORY = (BROKER_EVENT, ROW_CHANGE)
_OF_NAMES = (TOPIC.name, TOPIC_MAPPING.name, CLUSTER.name)
_KEYS = {
    SNAPSHOT.name: ("epoch",),
    BROKER_EVENT.name: ("epoch", "seq"),
    ROW_CHANGE.name: ("epoch", "seq", "table_name", *dict.fromkeys(name for spec in ROUTE_TABLES for name in spec.key)),
}
"""Columns that identify a row of an append-only table, the epoch first."""

_ALL = frozenset(spec.name for spec in PINNED_TABLES)


def damages(root: Root) -> list[Damage]:
    """Return the damaged files of the newest snapshot, with all of the history. Reads every file that it needs.

    If no data file is damaged, return the route tables that can be read and have other rows than `row_change` has last.
    """
    found = _damages_at_head(root, SNAPSHOT)
    newest = [] if found else [SnapshotTable(root).newest()]
    found += [damage for spec in PINNED_TABLES for damage in _damages_of(root, spec, newest)]
    hurt = {damage.table for damage in found}
    if newest and ROW_CHANGE.name not in hurt:
        found += _failed_queries(root, newest[0])
        hurt = {damage.table for damage in found}
    if newest and ROW_CHANGE.name not in hurt and all(damage.is_of_checkpoint for damage in found):
        whole = (spec for spec in ROUTE_TABLES if spec.name not in hurt)
        found += [damage for spec in whole for damage in _other_rows(root, spec, newest[0])]
    return found


def _failed_queries(root: Root, newest: SnapshotRow) -> Iterator[Damage]:
    """Yield the damage of `row_change` if delta-rs reads its rows, and fails if it looks for some of them."""
    try:
        for spec in ROUTE_TABLES:
            Registry(root).published(newest).recorded(spec)
    except (*UNREADABLE, TableDamagedError) as error:
        problem = f"an index in one of its files is damaged: {' '.join(str(error).split())}"
        yield Damage(ROW_CHANGE.name, "", problem, newest.versions[ROW_CHANGE.name])


def _other_rows(root: Root, spec: TableSpec, newest: SnapshotRow) -> Iterator[Damage]:
    """Yield the damage of a table with other rows than `row_change` has last: a flipped bit, or another program."""
    if changes := Registry(root).published(newest).drift(spec):
        example = ", ".join(map(str, changes[0].key))
        problem = f"{len(changes):,} rows of snapshot {newest.epoch} differ from row_change, such as {example}"
        yield Damage(spec.name, "", problem, newest.versions[spec.name])


def _damages_of(root: Root, spec: TableSpec, newest: Sequence[SnapshotRow]) -> list[Damage]:
    """Return the damaged files of the version that the newest snapshot names, and of the head, on top of it."""
    head, named = newest_version(root, spec), [row.versions[spec.name] for row in newest]
    found = {each[:2]: each for version in {head, *named} for each in table_damages(root, spec, version)}
    return list(found.values())


def _damages_at_head(root: Root, spec: TableSpec) -> list[Damage]:
    head = newest_version(root, spec)
    return table_damages(root, spec, head) if head >= 0 or root.has_data(spec) else []


def newest_tag(root: Root) -> CommitTag:
    """Return the highest tag of a commit that can be read, of any table that snapshots name, and of `snapshot`."""
    tags = (next(commit_tags(root, spec), CommitTag(0, 0)) for spec in (SNAPSHOT, *PINNED_TABLES))
    return max(tags, default=CommitTag(0, 0))


def commit_tags(root: Root, spec: TableSpec) -> Iterator[CommitTag]:
    """Yield the tags of a table's commits, newest first."""
    files = TableFiles(root, spec)
    for path in sorted((path for path in files.listed("_delta_log") if path.endswith(".json")), reverse=True):
        with suppress(msgspec.DecodeError):
            for each in files.actions(path):
                with suppress(msgspec.DecodeError, TypeError):
                    yield CommitTag(**msgspec.json.decode(each.get("commitInfo", {}).get("userMetadata") or ""))


def drop_checkpoint(root: Root, damage: Damage) -> None:
    """Remove a damaged checkpoint, and the hint at it. Delta reads the commits before it instead, if they are there."""
    files = TableFiles(root, TABLES[damage.table])
    for path in {damage.file, LAST_CHECKPOINT}.intersection(files.listed("_delta_log")):
        files.storage.delete_file(path)


class Readable(NamedTuple):
    """The part of a damaged table that can be read.

    `version`: the highest readable one, -1 if there is none. `paths`: the data files of that version. `lost`: those of
    them that cannot be read. `more`: rows of later epochs. Only commits after a broken one name their files, and they
    are as many as `snapshot` says. `is_rewritten`: the repair reads all rows and writes them to new files.
    """

    version: int
    paths: frozenset[str]
    lost: frozenset[str]
    more: pa.Table | None = None
    is_rewritten: bool = False


def _readable(root: Root, spec: TableSpec, found: Iterable[Damage], named: int | None) -> Readable:
    """Return what can be read of a table up to the version `named`, by default of its newest one."""
    files, head = TableFiles(root, spec), newest_version(root, spec)
    version = head if named is None else min(head, named)
    while version >= 0 and (problem := files.log_problem(version)):
        version = min(version, version_of(problem[0])) - 1
    paths: frozenset[str] = frozenset()
    with suppress(*UNREADABLE, NotARegistryError):
        paths = files.paths(version)
    damaged = {damage.file for damage in found if damage.table == spec.name}
    lost = frozenset(path for path in paths if path in damaged or files.problem(path))
    is_rewritten = any(damage.table == spec.name and not damage.file for damage in found)
    return Readable(version, paths - lost, lost, is_rewritten=is_rewritten)


def _rows(root: Root, spec: TableSpec, readable: Readable) -> pa.Table:
    files, more = TableFiles(root, spec), [] if readable.more is None else [readable.more]
    return pa.concat_tables([spec.schema.empty_table(), *map(files.rows, sorted(readable.paths)), *more])


def _rows_of_other_files(
    root: Root, spec: TableSpec, readable: Readable, number_of: Callable[[int], int | None]
) -> pa.Table:
    """Return the rows of whole epochs in files that the readable version does not name. Each row is in one place.

    `number_of` returns how many rows an epoch has to have, None for one that is not wanted. An epoch with another
    number is left out: a run that died may have written rows of an epoch that another run has published.
    """
    files = TableFiles(root, spec)
    others = (path for path in files.listed("") if path.endswith(".parquet") and not path.startswith("_"))
    stray = [path for path in others if path not in readable.paths and files.problem(path) is None]
    rows = pa.concat_tables([spec.schema.empty_table(), *map(files.rows, sorted(stray))])
    keys = zip(*(rows[name].to_pylist() for name in _KEYS[spec.name]), strict=True)
    places = {key: place for place, key in enumerate(keys)}  # compaction leaves a row in two files
    counts = Counter(epoch for epoch, *_ in places)
    return rows.take(pa.array([at for key, at in places.items() if counts[key[0]] == number_of(key[0])], pa.int64()))


class Repair(NamedTuple):
    """The plan of a repair: the tables as they will be, and what is lost.

    `newest`: the snapshot on which the repaired one follows. `found`: the damage. `rows`: keyed table -> its rows.
    `made`: keyed tables whose rows are the last ones in `row_change`. `lost`: table -> number of lost rows, None if it
    is not known; a table without a loss is not in it. `kept`: damaged append-only table -> number of rows that stay.
    `holes`: the new ones. `readable`: damaged append-only table -> its version and the files that stay.
    """

    newest: SnapshotRow
    found: Sequence[Damage]
    rows: Mapping[str, Sequence[Any]]
    made: frozenset[str]
    lost: Mapping[str, int | None]
    kept: Mapping[str, int]
    holes: tuple[Hole, ...]
    readable: Mapping[str, Readable]

    @property
    def needs_full_registrations(self) -> bool:
        """True if rows of keyed tables may be lost, which brokers have to send again.

        A repair that has died before it published left its holes in the newest row.
        """
        unfinished = [hole for hole in self.newest.holes if hole.to_epoch >= self.newest.epoch]
        return any(hole.table_name in self.rows for hole in (*self.holes, *unfinished))


def newest_readable(root: Root, found: Sequence[Damage]) -> SnapshotRow | None:
    """Return the newest row of `snapshot` that can be read, None if none can."""
    return max(_snapshots(root, found), key=lambda row: row.epoch, default=None)


def _snapshots(root: Root, found: Sequence[Damage]) -> list[SnapshotRow]:
    return rows_from_arrow(SNAPSHOT, _rows(root, SNAPSHOT, _readable_snapshots(root, found)))


def _readable_snapshots(root: Root, found: Sequence[Damage]) -> Readable:
    """Return what can be read of `snapshot`; if a commit of it is broken, with the rows that later commits added."""
    kept = _readable(root, SNAPSHOT, found, None)
    if 0 <= kept.version == newest_version(root, SNAPSHOT):
        return kept
    known = set(_rows(root, SNAPSHOT, kept)["epoch"].to_pylist())
    more = _rows_of_other_files(root, SNAPSHOT, kept, lambda epoch: None if epoch in known else 1)
    return kept._replace(more=more)


def planned(root: Root, found: Sequence[Damage], newest: SnapshotRow) -> Repair:
    """Return what a repair makes of the damaged tables. Changes nothing."""
    hurt = {damage.table for damage in found}.union(_ALL - newest.versions.keys())
    now_ms, snapshots = time.time_ns() // 1_000_000, {row.epoch: row for row in _snapshots(root, found)}
    readable: dict[str, Readable] = {}
    lost: dict[str, int | None] = {}
    holes: list[Hole] = []
    for spec in (each for each in (SNAPSHOT, *_HISTORY, REJECTED) if each.name in hurt):
        named = None if spec is SNAPSHOT else newest.versions.get(spec.name)
        kept = _readable_snapshots(root, found) if spec is SNAPSHOT else _readable(root, spec, found, named)
        readable[spec.name] = kept
        if spec is REJECTED:
            lost |= {spec.name: None} if kept.lost or kept.version != named else {}
            continue
        counts = _lost_rows(root, spec, kept, snapshots, newest, is_sure=SNAPSHOT.name not in hurt)
        if counts and spec in _HISTORY and kept.version != named:
            wanted = {epoch: snapshots[epoch].changes[spec.name] for epoch in counts if epoch in snapshots}
            kept = readable[spec.name] = kept._replace(more=_rows_of_other_files(root, spec, kept, wanted.get))
            counts = _lost_rows(root, spec, kept, snapshots, newest, is_sure=SNAPSHOT.name not in hurt)
        if counts:
            lost[spec.name] = None if None in counts.values() else sum(filter(None, counts.values()))
            first, end = min(counts), max(counts) + (spec is SNAPSHOT)
            until_ms = snapshots.get(end, newest).event_time or now_ms
            if spec is SNAPSHOT:
                begin_ms = snapshots[first - 1].event_time if first - 1 in snapshots else None
            else:
                begin_ms = _earliest_ms(root, spec, kept) if kept.version == named else None
            holes.append(Hole(spec.name, first, end, begin_ms, until_ms, now_ms))
    made = frozenset(spec.name for spec in ROUTE_TABLES if spec.name in hurt)
    rows_of = {spec.name: _keyed_rows(root, spec, newest, made, readable.get(ROW_CHANGE.name)) for spec in ROUTE_TABLES}
    if made and (unknown := UnknownPast.of(newest._replace(holes=_of_changes((*newest.holes, *holes))))):
        for name in sorted(made):
            lost[name] = None
            holes.append(unknown.hole(name, newest.epoch + 1, newest.event_time or now_ms, now_ms))
    tag, end_ms = newest_tag(root), newest.event_time or now_ms
    if SNAPSHOT.name in hurt and tag.epoch > newest.epoch:  # their records are read again, so no time is unknown
        holes.append(Hole(SNAPSHOT.name, newest.epoch + 1, tag.epoch + 1, end_ms, end_ms, now_ms))
    stay = {name: len(_rows(root, TABLES[name], kept)) for name, kept in readable.items()}
    return Repair(newest, found, rows_of, made, lost, stay, tuple(holes), readable)


def held(rows_of: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the rows of the keyed tables without those of broker names and addresses that nobody holds.

    Their removal may be among the lost rows, and no broker would ever correct them.
    """
    addresses = {row.broker_addr for row in rows_of[LIVE.name]}
    brokers = [row for row in rows_of[BROKER.name] if row.broker_addr in addresses]
    names = {row.broker_name for row in brokers}
    of_names = {table: [row for row in rows_of[table] if row.broker_name in names] for table in _OF_NAMES}
    filters = [row for row in rows_of[FILTER.name] if row.broker_addr in addresses]
    return {**rows_of, **of_names, BROKER.name: brokers, FILTER.name: filters}


def _of_changes(holes: Iterable[Hole]) -> tuple[Hole, ...]:
    """Return the holes after which the last row of a key in `row_change` may not be its last one."""
    return tuple(hole for hole in holes if hole.table_name not in (SNAPSHOT.name, BROKER_EVENT.name))


def _lost_rows(  # noqa: PLR0913  # each a fact of the count
    root: Root,
    spec: TableSpec,
    kept: Readable,
    snapshots: Mapping[int, SnapshotRow],
    newest: SnapshotRow,
    *,
    is_sure: bool,
) -> dict[int, int | None]:
    """Return the epochs up to the newest of which a table lacks rows: epoch -> their number, None if it is not known.

    A row of `snapshot` has the number of rows that its epoch wrote to each table. `is_sure`: an epoch without a row
    was never published. What a former repair has lost is left out.
    """
    holes = [hole for hole in newest.holes if hole.table_name == spec.name]
    before = {epoch for hole in holes for epoch in range(hole.from_epoch, hole.to_epoch + 1)}
    epochs = [epoch for epoch in range(1, newest.epoch + 1) if epoch not in before]
    if spec is SNAPSHOT:
        return {epoch: 1 for epoch in epochs if epoch not in snapshots}
    values = pc.value_counts(_rows(root, spec, kept)["epoch"]).to_pylist()
    stored = {each["values"]: each["counts"] for each in values}
    found: dict[int, int | None] = {}
    for epoch in epochs:
        if (row := snapshots.get(epoch)) is None:
            found |= {} if is_sure else {epoch: None}
        elif (missing := row.changes.get(spec.name, 0) - stored.get(epoch, 0)) > 0:
            found[epoch] = missing
    return found


def _earliest_ms(root: Root, spec: TableSpec, kept: Readable) -> int | None:
    """Return the earliest event time of the lost files' rows, from the statistics in the log; None if not known."""
    actions = pa.table(root.open(spec, kept.version).get_add_actions(flatten=True)).to_pylist()
    times = [each.get("min.event_time") for each in actions if unquote(each["path"]) in kept.lost]
    return None if not times or None in times else min(round(at.timestamp() * 1000) for at in times)


def _keyed_rows(
    root: Root, spec: TableSpec, newest: SnapshotRow, made: Collection[str], changes: Readable | None
) -> list[Any]:
    """Return the rows of a keyed table; those of a damaged one as `row_change` has them last, of which `changes` is
    what can be read, None if all.
    """
    if spec.name not in made:
        return rows_from_arrow(spec, select(root.open(spec, newest.versions[spec.name]), spec))
    if changes is None:
        recorded = Registry(root).published(newest).recorded(spec)
    else:
        recorded = last_rows(spec, _rows(root, ROW_CHANGE, changes), newest.epoch)
    rows: list[Any] = [row for row in recorded.values() if row is not None]
    return rows if spec is not LIVE else [row._replace(clock_millis=newest.clock_millis or 0) for row in rows]


def last_rows(spec: TableSpec, changes: pa.Table, until: int) -> RowsByKey:
    """Return the last row of each key of a table up to an epoch, from rows of `row_change`; None if it was removed."""
    return rows_by_key(spec, query_rows(changes, folded([spec], f"epoch <= {until}")))


def mend(root: Root, repair: Repair, wanted: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    """Make the damaged tables readable, and return the version of each table from now on.

    Keyed tables get the rows in `wanted`; these come last, so that a run that dies before leaves their damage to be
    seen.
    """
    versions = dict(repair.newest.versions)
    for spec in (*_HISTORY, REJECTED, *ROUTE_TABLES):
        if spec.name in repair.made:
            kept = _readable(root, spec, (), None)
            _move_aside(root, spec, kept)
            rows = with_partition_column(spec, rows_to_arrow(spec, wanted[spec.name]))
            write_deltalake(_opened(root, spec, kept), rows, mode="overwrite")
        elif spec.name in repair.readable:
            kept = repair.readable[spec.name]
            _move_aside(root, spec, kept)
            table = _opened(root, spec, kept)
            _drop_lost(root, spec, kept, table)
        else:
            continue
        versions[spec.name] = newest_version(root, spec)
    return versions


def make_snapshot_readable(root: Root, repair: Repair) -> None:
    """Make the table `snapshot` readable if it is damaged. Then the registry can be claimed, which ends a job."""
    if (kept := repair.readable.get(SNAPSHOT.name)) is not None:
        _move_aside(root, SNAPSHOT, kept)
        _drop_lost(root, SNAPSHOT, kept, _opened(root, SNAPSHOT, kept))


def _drop_lost(root: Root, spec: TableSpec, kept: Readable, table: DeltaTable) -> None:
    """Take lost files out of a table's log, and put the rows in again that only commits after a broken one name."""
    if kept.is_rewritten:
        write_deltalake(table, with_partition_column(spec, _rows(root, spec, kept)), mode="overwrite")
        return
    if kept.lost:
        table.repair()
    if kept.more is not None and len(kept.more):
        write_deltalake(root.open(spec), with_partition_column(spec, kept.more), mode="append")


def _opened(root: Root, spec: TableSpec, kept: Readable) -> DeltaTable:
    if kept.version < 0:
        RustWriter(root).create(spec, table_properties(spec))
    return root.open(spec)


def _move_aside(root: Root, spec: TableSpec, kept: Readable) -> None:
    """Move what cannot be read to `_damaged` in the table's folder: lost files, and the log above the kept version.

    Without a version this is all that there is.
    """
    files = TableFiles(root, spec)
    folder = f"_damaged/{time.time_ns() // 1_000_000}"
    for path in files.listed(""):
        is_of_log = path.startswith("_delta_log/")
        if path.startswith("_") and not is_of_log:
            continue
        is_above = is_of_log and (version_of(path) > kept.version or path == LAST_CHECKPOINT)
        if path in kept.lost or is_above or kept.version < 0:
            files.storage.move(path, f"{folder}/{path}")
