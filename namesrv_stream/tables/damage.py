"""Damaged files of a table, and errors that name them.

A file that is missing, cut short or changed is damage. A storage that does not answer is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from namesrv_stream.errors import NotARegistryError, StorageError, TableDamagedError
from namesrv_stream.tables.files import FollowedTable, TableFiles
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TableSpec

UNREADABLE = (DeltaError, OSError, pa.ArrowException, StorageError)
"""Errors with which a damaged table meets its reader."""


class Damage(NamedTuple):
    """A file of a table that cannot be read, and why. `versions` of the table need it, which `epochs` name.

    `is_past`: neither the newest snapshot nor the next write needs it.
    """

    table: str
    file: str
    problem: str
    versions: tuple[int, ...]
    epochs: tuple[int, ...]
    is_past: bool = False


def table_damages(root: Root, spec: TableSpec, epochs: Mapping[int, Sequence[int]]) -> list[Damage]:
    """Return what is hurt of the versions of one table. `epochs` are those that name each version, in its order."""
    files, followed = TableFiles(root, spec), FollowedTable(root, spec)
    seen: dict[str, str | None] = {}
    hurt: dict[tuple[str, str], list[int]] = defaultdict(list)
    for version in epochs:
        try:
            paths = followed.paths(version)
        except NotARegistryError:
            hurt["_delta_log", "is missing"].append(version)
            continue
        except UNREADABLE:
            if (of_log := files.log_problem(version)) is None:
                raise
            hurt[of_log].append(version)
            continue
        for path in sorted(paths):
            if path not in seen:
                seen[path] = files.problem(path)
            if problem := seen[path]:
                hurt[path, problem].append(version)
    return [
        Damage(spec.name, path, problem, tuple(versions), tuple(epoch for each in versions for epoch in epochs[each]))
        for (path, problem), versions in hurt.items()
    ]


@contextmanager
def naming_damage(root: Root, spec: TableSpec, version: int | None = None) -> Iterator[None]:
    """Raise TableDamagedError if a version of a table, or the newest one, cannot be read because a file is damaged."""
    try:
        yield
    except (TableDamagedError, CommitFailedError):
        raise
    except UNREADABLE as error:
        asked, damage = _first_damage(root, spec, version)
        if damage is None:
            raise
        raise TableDamagedError(root.url, spec.name, asked, damage.file, damage.problem) from error


def _first_damage(root: Root, spec: TableSpec, version: int | None) -> tuple[int, Damage | None]:
    """Return the version looked at, and its first damaged file. A storage that does not answer shows none."""
    try:
        asked = newest_version(root, spec) if version is None else version
        return asked, next(iter(table_damages(root, spec, {asked: ()})), None)
    except UNREADABLE:
        return -1, None


def newest_version(root: Root, spec: TableSpec) -> int:
    """Return the highest version of which the log has a file, readable or not; -1 if there is none."""
    try:
        names = [path.rpartition("/")[2] for path in TableFiles(root, spec).listed("_delta_log")]
    except TableNotFoundError:
        return -1
    return max((int(name.partition(".")[0]) for name in names if name.partition(".")[0].isdigit()), default=-1)
