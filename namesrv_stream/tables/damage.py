"""Find a table's damaged files, and raise errors that name them.

Damage is a file that is missing, cut short or changed. A storage that does not answer is not damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from namesrv_stream.errors import NotARegistryError, StorageError, TableDamagedError
from namesrv_stream.tables.arrow import parquet_rows
from namesrv_stream.tables.root import PLAIN_READER_VERSION, Root, batches, select, with_later_columns
from namesrv_stream.tables.schemas import TableSpec

UNREADABLE = (DeltaError, OSError, pa.ArrowException, StorageError)
"""Errors that reading a damaged table may raise."""

_OBJECT = msgspec.json.Decoder(dict[str, Any])
"""Decoder of a line of a commit, which maps an action's name to the action, and of LAST_CHECKPOINT."""

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
"""File that names the checkpoint at which a reader may begin. Without it readers look for the newest."""


class TableFiles:
    """The files of one table in its storage: data files and the log. Use it from one thread at a time."""

    def __init__(self, root: Root, spec: TableSpec) -> None:
        self._root = root
        self._spec = spec

    @cached_property
    def storage(self) -> DeltaStorageHandler:
        """The table's folder."""
        return DeltaStorageHandler(self._root.uri(self._spec), dict(self._root.storage_options or {}))

    def content(self, path: str) -> bytes:
        """Return the bytes of a file."""
        with self.storage.open_input_file(path) as file:
            content: bytes = file.readall()
            return content

    def listed(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder of the table; none if the folder does not exist."""
        return list(self.listed_sizes(folder))

    def listed_sizes(self, folder: str) -> dict[str, int]:
        """Return path -> bytes of all files below a folder of the table."""
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 - only a search for damage needs it

        try:
            found = self.storage.get_file_info_selector(FileSelector(folder, allow_not_found=True, recursive=True))
        except TableNotFoundError:
            return {}
        return {info.path: info.size for info in found if info.type == FileType.File}

    def rows(self, path: str) -> pa.Table:
        """Return the rows of a data file, with the row's columns."""
        return with_later_columns(self._spec, parquet_rows(self.content(path)))

    def actions(self, path: str) -> list[dict[str, Any]]:
        """Return the actions of a commit, a file of the log. Raises msgspec.DecodeError for a damaged one."""
        try:
            return _OBJECT.decode_lines(self.content(path))
        except UnicodeDecodeError as error:
            raise msgspec.DecodeError(str(error)) from error

    def paths(self, version: int) -> frozenset[str]:
        """Return the data files of a version, of the newest one for -1."""
        table = self._root.open(self._spec, version if version >= 0 else None)
        return _unquoted(table.get_add_actions()["path"].to_pylist())

    def sizes(self, version: int) -> dict[str, int]:
        """Return the data files of a version with the bytes that the log says they have."""
        actions = pa.table(self._root.open(self._spec, version).get_add_actions()).select(["path", "size_bytes"])
        return {unquote(path): size for path, size in zip(*actions.to_pydict().values(), strict=True)}

    def problem(self, path: str) -> str | None:
        """Return why a data file cannot be read, None if it can. Raises an error of the storage itself."""
        try:
            content = self.content(path)
        except FileNotFoundError:
            return "is missing"
        try:
            parquet_rows(content)
        except (OSError, pa.ArrowException) as error:
            return f"is damaged ({' '.join(str(error).split()).removesuffix('.')})"
        return None

    def log_problem(self, version: int) -> tuple[str, str] | None:
        """Return the first unreadable file of the log that `version` needs, and why it is; None if all can be read.

        delta-rs also needs the commit of that version where a checkpoint has all that is in it.
        """
        listed = self.listed("_delta_log")
        checkpoints = {path: version_of(path) for path in listed if path.endswith(".parquet")}
        if LAST_CHECKPOINT in listed and self._last_checkpoint() not in checkpoints.values():
            return LAST_CHECKPOINT, "names a checkpoint that is missing"
        first = max((at for at in checkpoints.values() if at <= version), default=-1)
        for path in (path for path, at in checkpoints.items() if at == first):
            if problem := self.problem(path):
                return path, problem
        for path in map(_commit_file, range(min(first + 1, version), version + 1)):
            try:
                self.actions(path)
            except FileNotFoundError:
                return path, "is missing"
            except msgspec.DecodeError as error:
                return path, f"is damaged ({error})"
        return None

    def _last_checkpoint(self) -> int | None:
        with suppress(msgspec.DecodeError):
            version: int | None = _OBJECT.decode(self.content(LAST_CHECKPOINT)).get("version")
            return version
        return None


def all_rows(root: Root, spec: TableSpec, table: DeltaTable) -> pa.Table:
    """Return the rows of an open table, read file by file, because planning a query takes longer than a small file."""
    paths = sorted(_unquoted(table.get_add_actions()["path"].to_pylist()))
    if not paths or table.protocol().min_reader_version > PLAIN_READER_VERSION:
        return select(table, spec)
    return pa.concat_tables(map(TableFiles(root, spec).rows, paths))


def _unquoted(paths: Iterable[str]) -> frozenset[str]:
    """Return paths below the table's folder. The log has them quoted as in a URL."""
    return frozenset(map(unquote, paths))


def _commit_file(version: int) -> str:
    return f"_delta_log/{version:020}.json"


def version_of(path: str) -> int:
    """Return the version in the name of a file of the log, -1 if it has none."""
    digits = path.rpartition("/")[2].partition(".")[0]
    return int(digits) if digits.isdigit() else -1


class Damage(NamedTuple):
    """A file of a version of a table that cannot be read, and why. Without a file some rows are wrong."""

    table: str
    file: str
    problem: str
    version: int

    @property
    def is_of_checkpoint(self) -> bool:
        """True if the file only shortens the reading of a log, so that it may be removed."""
        return self.file == LAST_CHECKPOINT or self.file.endswith(".checkpoint.parquet")


def table_damages(root: Root, spec: TableSpec, version: int) -> list[Damage]:
    """Return the damaged files of a version of one table; -1 stands for a table without a log."""
    found = _problems(TableFiles(root, spec), version) or [_problem_of_delta(root, spec, version)]
    return [Damage(spec.name, *each, version) for each in found if each is not None]


def _problems(files: TableFiles, version: int) -> list[tuple[str, str] | None]:
    """Return each unreadable file that a version needs, and why it is."""
    try:
        paths = files.paths(version)
    except (NotARegistryError, TableDamagedError):
        return [("_delta_log", "is missing")]
    except UNREADABLE:
        if (of_log := files.log_problem(version)) is None:
            raise
        return [of_log]
    return [(path, problem) for path in sorted(paths) if (problem := files.problem(path))]


def _problem_of_delta(root: Root, spec: TableSpec, version: int) -> tuple[str, str] | None:
    """Return a file that keeps delta-rs from reading a version as the job does, and why; None if it can be read.

    delta-rs reads more of a file than Arrow: a table's log from its hint on, and the statistics of a data file.
    """
    files = TableFiles(root, spec)
    if version < 0 or (of_log := files.log_problem(version)):
        return None if version < 0 else of_log
    try:
        root.open(spec)
        for _ in batches(root.open(spec, version), spec.schema):
            pass
    except UNREADABLE as error:
        named = (path for path in files.paths(version) if path.rpartition("/")[2] in str(error))
        return next(named, "_delta_log"), f"is damaged ({' '.join(str(error).split()).removesuffix('.')})"
    return None


@contextmanager
def reporting_damage(root: Root, spec: TableSpec, version: int | None = None) -> Iterator[None]:
    """Raise TableDamagedError if a version of a table, or the newest one, cannot be read because a file is damaged."""
    try:
        yield
    except (TableDamagedError, CommitFailedError):
        raise
    except UNREADABLE as error:
        asked, damage = _first_damage(root, spec, version)
        if damage is None and asked >= 0 and isinstance(error, pa.ArrowException):
            damage = Damage(spec.name, "of unknown name", f"cannot be read ({error})", asked)
        if damage is None:
            raise
        raise TableDamagedError(root.url, spec.name, asked, damage.file, damage.problem) from error


def _first_damage(root: Root, spec: TableSpec, version: int | None) -> tuple[int, Damage | None]:
    """Return the version that was checked, and its first damaged file or None. A silent storage gives None."""
    try:
        asked = newest_version(root, spec) if version is None else version
        return asked, next(iter(table_damages(root, spec, asked)), None)
    except UNREADABLE:
        return -1, None


def require_whole(root: Root, specs: Iterable[TableSpec]) -> None:
    """Raise TableDamagedError if a file of the newest version of a table is damaged."""
    for spec in specs:
        version, damage = _first_damage(root, spec, None)
        if damage is not None:
            raise TableDamagedError(root.url, spec.name, version, damage.file, damage.problem)


def newest_version(root: Root, spec: TableSpec) -> int:
    """Return the highest version that has a file in the log, readable or not; -1 if there is none."""
    return max(map(version_of, TableFiles(root, spec).listed("_delta_log")), default=-1)
