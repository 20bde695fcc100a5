"""Read a registry's rows at one epoch, and write and read backups: ZIP archives of Parquet files and a manifest."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.arrow import parquet_rows, rows_from_arrow, rows_to_arrow
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.schemas import ROUTE_TABLES, TableSpec

Rows = Sequence[tuple[Any, ...]]
FILE_FORMAT = 1
_MANIFEST = "manifest.json"


class Content(NamedTuple):
    """The rows of the tables that lookups read, by table name, as of one moment."""

    snapshot: SnapshotRow
    rows: Mapping[str, Rows]


def content_of(registry: RegistryAt) -> Content:
    """Read the tables of a moment."""
    return Content(registry.snapshot, {spec.name: registry.rows(spec.name) for spec in ROUTE_TABLES})


class BackupFileError(NamesrvError):
    """A backup file cannot be written or read. Nothing was changed."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(
            f"backup {file} {problem}. Nothing was changed. Use a file that `namesrv-stream export` or `backup` wrote."
        )
        self.file = file
        self.problem = problem


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`snapshot`: the fields of the snapshot row. `rows`: table name -> number of rows."""

    format: int
    snapshot: dict[str, Any]
    rows: dict[str, int]


def backup_name(epoch: int) -> str:
    """Return the name of the file with this epoch in a folder of backups."""
    return f"epoch-{epoch}.zip"


def write_backup(file: Path, content: Content) -> None:
    """Write the file whole or not at all. Raises BackupFileError."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:  # Parquet is compressed already
            manifest = _Manifest(
                format=FILE_FORMAT,
                snapshot=content.snapshot._asdict(),
                rows={name: len(rows) for name, rows in content.rows.items()},
            )
            archive.writestr(_MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
            for spec in ROUTE_TABLES:
                archive.writestr(_member(spec), _parquet(rows_to_arrow(spec, content.rows[spec.name])))
        partial.replace(file)
    except OSError as error:
        raise BackupFileError(file, f"cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def read_backup(file: Path) -> Content:
    """Read and check the whole file. Raises BackupFileError."""
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = msgspec.json.decode(archive.read(_MANIFEST), type=_Manifest)
            if manifest.format > FILE_FORMAT:
                raise BackupFileError(
                    file, f"has format {manifest.format}, and this release supports up to {FILE_FORMAT}"
                )
            rows = {spec.name: _rows(archive, spec) for spec in ROUTE_TABLES}
            defaults = SnapshotRow._field_defaults
            fields = [manifest.snapshot.get(name, defaults.get(name)) for name in SnapshotRow._fields]
            snapshot = msgspec.convert(fields, SnapshotRow, strict=False)  # offsets have numbers as keys
    except OSError as error:
        raise BackupFileError(file, f"cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, KeyError, msgspec.MsgspecError, pa.ArrowException) as error:
        raise BackupFileError(file, f"is not a backup, or is damaged: {error}") from error
    counts = {name: len(of_table) for name, of_table in rows.items()}
    if counts != manifest.rows:
        raise BackupFileError(file, f"has {counts} rows, but {manifest.rows} by its manifest")
    return Content(snapshot, rows)


def _member(spec: TableSpec) -> str:
    return f"{spec.name}.parquet"


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _rows(archive: zipfile.ZipFile, spec: TableSpec) -> list[Any]:
    table = parquet_rows(archive.read(_member(spec)))
    return rows_from_arrow(spec, table.select(spec.schema.names).cast(spec.schema))
