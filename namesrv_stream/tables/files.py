"""The files of a Delta table, read without SQL: data files, and commits of the log by their numbers.

Planning a query takes longer than reading a file of one row. And a reader that follows snapshots knows which versions
it wants, whereas delta-rs looks through a table's whole log for the newest one first.

Arrow reads without threads here. In its I/O threads it would free memory of Python's, also a moment after the read has
returned. If Python is about to exit then, the process aborts ("terminate called without an active exception").
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import TableSpec

log = logging.getLogger(__name__)

MOST_COMMITS = 200
"""Most commits that are read one by one. Beyond them delta-rs is quicker, which begins at a checkpoint."""

_DIGITS = 20
"""Digits of a version in the name of a file of the log."""

FILES_ARE_ALL = 1
"""Delta's reader version at which a table's rows are those of its files, without deletion vectors or mapped columns."""


class _File(msgspec.Struct, rename="camel"):
    path: str
    data_change: bool = True
    deletion_vector: dict[str, Any] | None = None

    @property
    def place(self) -> str:
        """The path below the table's folder, which the log has as in a URL."""
        return unquote(self.path)


class _CommitInfo(msgspec.Struct, rename="camel"):
    operation: str = ""


class _Action(msgspec.Struct, rename="camel"):
    """One line of a commit, of the kinds that say what rows a table has."""

    commit_info: _CommitInfo | None = None
    add: _File | None = None
    remove: _File | None = None
    cdc: _File | None = None
    meta_data: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None

    @property
    def says_more_than_files(self) -> bool:
        """True if the table's rows are not those of its files alone, or its columns may have changed."""
        return bool(self.meta_data or self.protocol or (self.add and self.add.deletion_vector))


_ACTIONS = msgspec.json.Decoder(_Action)


class CommittedFiles(NamedTuple):
    """The data files that one commit added and removed, and the files of its change feed.

    `inserted` are the added files whose rows are new, `deleted` the removed ones whose rows are gone: a compaction adds
    and removes files with the same rows.
    """

    operation: str
    added: list[str]
    removed: list[str]
    inserted: list[str]
    deleted: list[str]
    changes: list[str]


class TableFiles:
    """The files of one table. Use it from one thread at a time."""

    def __init__(self, root: Root, spec: TableSpec) -> None:
        self._root = root
        self._spec = spec

    def rows(self, path: str) -> pa.Table:
        """Return the rows of a file that a version of the table names, with the row's columns.

        A column that the file does not have was added to the table later, and is NULL.
        """
        stored = self.stored_rows(path)
        return pa.table([_column(stored, field) for field in self._spec.schema], schema=self._spec.schema)

    def stored_rows(self, path: str) -> pa.Table:
        """Return the rows of a file with the columns that the file has."""
        return parquet_rows(self.content(path))

    def commits(self, since: int, version: int) -> list[CommittedFiles] | None:
        """Return what the commits above version `since` did, up to `version` and in their order.

        None if that is not known by their files alone: a commit is gone or cannot be read, there are more than
        MOST_COMMITS, or one changed the table's properties, columns or protocol.
        """
        if version - since > MOST_COMMITS:
            return None
        try:
            found = [self._commit(number) for number in range(since + 1, version + 1)]
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return None if None in found else [commit for commit in found if commit is not None]

    def _commit(self, version: int) -> CommittedFiles | None:
        actions = _ACTIONS.decode_lines(self.content(f"_delta_log/{version:0{_DIGITS}}.json"))
        if any(action.says_more_than_files for action in actions):
            return None
        added, removed = ([file for action in actions if (file := getattr(action, kind))] for kind in ("add", "remove"))
        return CommittedFiles(
            next((action.commit_info.operation for action in actions if action.commit_info), ""),
            [file.place for file in added],
            [file.place for file in removed],
            [file.place for file in added if file.data_change],
            [file.place for file in removed if file.data_change],
            [action.cdc.place for action in actions if action.cdc],
        )

    def problem(self, path: str) -> str | None:
        """Return why a data file cannot be read, None if it can. An error of the storage itself is raised."""
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
        """Return the first file of the log that `version` needs and that cannot be read, and why. None if all can."""
        checkpoints = [path for path in self.listed("_delta_log") if path.endswith(".parquet")]
        whole = {path: int(path.rpartition("/")[2].partition(".")[0]) for path in checkpoints}
        first = max((at for at in whole.values() if at <= version), default=-1)
        for path in (path for path, at in whole.items() if at == first):
            if problem := self.problem(path):
                return path, problem
        for number in range(first + 1, version + 1):
            path = f"_delta_log/{number:0{_DIGITS}}.json"
            try:
                _ACTIONS.decode_lines(self.content(path))
            except FileNotFoundError:
                return path, "is missing"
            except msgspec.DecodeError as error:
                return path, f"is damaged ({error})"
        return None

    def listed(self, folder: str) -> list[str]:
        """Return the paths of all files in a folder of the table, in its folders too; none if it is not there."""
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 - who follows a table need not wait for it

        found = self.storage.get_file_info_selector(FileSelector(folder, allow_not_found=True, recursive=True))
        return [info.path for info in found if info.type == FileType.File]

    @cached_property
    def storage(self) -> DeltaStorageHandler:
        """The table's folder."""
        options = dict(self._root.storage_options) if self._root.storage_options else None
        return DeltaStorageHandler(self._root.uri(self._spec), options)

    def content(self, path: str) -> bytes:
        """Return the bytes of a file."""
        with self.storage.open_input_file(path) as file:
            content: bytes = file.readall()
            return content


class FollowedTable:
    """One table whose rows are read at ever higher versions. Use it from one thread at a time."""

    def __init__(self, root: Root, spec: TableSpec) -> None:
        self._root = root
        self._spec = spec
        self._files = TableFiles(root, spec)
        self._version = -1
        self._paths: frozenset[str] = frozenset()
        self._parts: dict[str, pa.Table] = {}

    def rows(self, version: int) -> pa.Table:
        """Return all rows at `version` in no particular order, with the row's columns."""
        try:
            if self._has_followed_to(version):
                self._parts = {path: self._rows_of(path) for path in sorted(self._paths)}
                return pa.concat_tables(self._parts.values()) if self._parts else self._spec.schema.empty_table()
        except (OSError, pa.ArrowException) as error:
            log.debug("the files of %s at version %d cannot be read: %s", self._spec.name, version, error)
        return select(self._opened(version), self._spec)

    def paths(self, version: int) -> frozenset[str]:
        """Return the data files of `version`, which must not be below that of the last call."""
        return self._paths if self._has_followed_to(version) else _places(self._opened(version))

    def _rows_of(self, path: str) -> pa.Table:
        """Return the rows of a file, which is read once: files do not change."""
        return self._parts[path] if path in self._parts else self._files.rows(path)

    def _has_followed_to(self, version: int) -> bool:
        if version > self._version >= 0:
            commits = self._files.commits(self._version, version)
            if commits is None:
                return False
            paths = set(self._paths)
            for commit in commits:
                paths.difference_update(commit.removed)
                paths.update(commit.added)
            self._version, self._paths = version, frozenset(paths)
        return version == self._version

    def _opened(self, version: int) -> DeltaTable:
        """Open the table, which refuses a newer format, and note its files if they are all that makes its rows."""
        table = self._root.open(self._spec, version)
        if version > self._version and table.protocol().min_reader_version <= FILES_ARE_ALL:
            self._version, self._paths = version, _places(table)
        return table


def _places(table: DeltaTable) -> frozenset[str]:
    return frozenset(unquote(path) for path in table.get_add_actions()["path"].to_pylist())


def parquet_rows(content: bytes) -> pa.Table:
    """Return the rows of a Parquet file, read in the caller's thread."""
    import pyarrow.parquet  # noqa: PLC0415 - who reads no file need not wait for it

    return pyarrow.parquet.ParquetFile(pa.BufferReader(content), pre_buffer=False).read(use_threads=False)


def _column(stored: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in stored.column_names:
        return pa.nulls(len(stored), field.type)
    return stored.column(field.name).cast(field.type)
