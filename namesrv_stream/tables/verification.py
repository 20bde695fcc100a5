"""Which of a registry's tables, files and snapshots are damaged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage import Damage, newest_version, table_damages
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import PAST_SNAPSHOT, PINNED_TABLES, SNAPSHOT, TableSpec
from namesrv_stream.tables.snapshots import Snapshots


def damages(root: Root) -> list[Damage]:
    """Return what is hurt in the tables of all snapshots that retention keeps. Reads every file that they name.

    Without a readable table `snapshot` it is not known which versions these are: then the newest ones are looked at.
    """
    found = [*_damages_at_head(root, SNAPSHOT), *_damages_at_head(root, PAST_SNAPSHOT)]
    if any(damage.table == SNAPSHOT.name for damage in found):
        return [*found, *(damage for spec in PINNED_TABLES for damage in _damages_at_head(root, spec))]
    rows = Snapshots(root).readable()
    return [*found, *(damage for spec in PINNED_TABLES for damage in _damages_of(root, spec, rows))]


def _damages_of(root: Root, spec: TableSpec, rows: Sequence[SnapshotRow]) -> list[Damage]:
    """Return what is hurt of the versions that snapshots name, and of the newest one, on which the job writes."""
    head = newest_version(root, spec)
    found = table_damages(root, spec, dict(sorted(({head: []} | naming(spec, rows)).items())))
    needed = {head, rows[0].versions[spec.name]}
    return [damage._replace(is_past=needed.isdisjoint(damage.versions)) for damage in found]


def naming(spec: TableSpec, rows: Sequence[SnapshotRow]) -> dict[int, list[int]]:
    """Return the versions of a table that snapshots name, with the epochs of these, both in order."""
    epochs = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.epoch):
        epochs[row.versions[spec.name]].append(row.epoch)
    return dict(sorted(epochs.items()))


def _damages_at_head(root: Root, spec: TableSpec) -> list[Damage]:
    head = newest_version(root, spec)
    return table_damages(root, spec, {head: ()}) if head >= 0 else []
