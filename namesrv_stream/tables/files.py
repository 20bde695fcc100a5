"""Reads one data file of a table without SQL: planning a query takes longer than reading a file of one row."""

from __future__ import annotations

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler

from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TableSpec


def read_file(root: Root, spec: TableSpec, path: str) -> pa.Table:
    """Return the rows of a file that a version of the table names, with the columns of `spec`.

    A column that the file does not have was added to the table later, and is NULL.
    """
    import pyarrow.parquet  # noqa: PLC0415 - who reads no file need not wait for it
    from pyarrow.fs import PyFileSystem  # noqa: PLC0415 - the same

    options = dict(root.storage_options) if root.storage_options else None
    store = PyFileSystem(DeltaStorageHandler(root.uri(spec), options))
    with store.open_input_file(path) as file:
        stored = pyarrow.parquet.ParquetFile(file).read(use_threads=False)
    return pa.table([_column(stored, field) for field in spec.schema], schema=spec.schema)


def _column(stored: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in stored.column_names:
        return pa.nulls(len(stored), field.type)
    return stored.column(field.name).cast(field.type)
