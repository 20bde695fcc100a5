"""Reads Parquet files without SQL (planning a query takes longer than reading a file of one row) and without threads.

In its I/O threads Arrow would free memory of Python's, also a moment after the read has returned. If Python is about to
exit then, the process aborts ("terminate called without an active exception").
"""

from __future__ import annotations

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler

from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TableSpec


def read_file(root: Root, spec: TableSpec, path: str) -> pa.Table:
    """Return the rows of a file that a version of the table names, with the columns of `spec`.

    A column that the file does not have was added to the table later, and is NULL.
    """
    options = dict(root.storage_options) if root.storage_options else None
    with DeltaStorageHandler(root.uri(spec), options).open_input_file(path) as file:
        stored = parquet_rows(file.readall())
    return pa.table([_column(stored, field) for field in spec.schema], schema=spec.schema)


def parquet_rows(content: bytes) -> pa.Table:
    """Return the rows of a Parquet file, read in the caller's thread."""
    import pyarrow.parquet  # noqa: PLC0415 - who reads no file need not wait for it

    return pyarrow.parquet.ParquetFile(pa.BufferReader(content), pre_buffer=False).read(use_threads=False)


def _column(stored: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in stored.column_names:
        return pa.nulls(len(stored), field.type)
    return stored.column(field.name).cast(field.type)
