"""Convert the rules' rows to Arrow and back, column by column.

Rows carry times as epoch milliseconds; Arrow and Delta carry them as timestamps in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import UNRECORDED_COLUMNS, BrokerEventRow, Hole, LogPosition, RowChange
from namesrv_stream.tables import schemas
from namesrv_stream.tables.schemas import (
    CHANNELS,
    DATA_VERSION,
    HOLES,
    LOG_POSITION,
    ROUTE_TABLES,
    ROW_CHANGE,
    SIDES,
    TABLES,
    TEXTS,
    TableSpec,
)

_MILLIS = pa.timestamp("ms", "UTC")
_SIDES_OF = {f"{spec.name}_{side}": (spec.name, side) for spec in ROUTE_TABLES for side in SIDES}


def _recorded_row(row: Callable[..., Any], names: Sequence[str], *values: Any) -> Any:
    return row(**dict(zip(names, values, strict=True)))


_STRUCT_CLASSES: dict[pa.DataType, Callable[..., Any]] = {DATA_VERSION: DataVersion, LOG_POSITION: LogPosition}
_STRUCT_CLASSES |= {
    spec.recorded: partial(_recorded_row, spec.row, [each.name for each in spec.recorded]) for spec in ROUTE_TABLES
}


def rows_to_arrow(spec: TableSpec, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return the rows as an Arrow table with the columns of `spec`, in the given order."""
    return columns_to_arrow(spec.schema, rows)


def columns_to_arrow(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return tuples as an Arrow table; a tuple's fields are the columns of `schema`, in order."""
    columns = list(zip(*rows, strict=True))[: len(schema)] or [()] * len(schema)
    return pa.table([_array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema)


def rows_from_arrow(spec: TableSpec, table: pa.Table) -> list[Any]:
    """Return the table's rows as `spec.row`, in the table's order.

    Columns that are no field of the row are left out.
    """
    columns = (_values(table.column(field.name), field.type) for field in spec.schema)
    return [spec.row(*values) for values in zip(*columns, strict=True)]


def row_changes_to_arrow(epoch: int, events: Sequence[BrokerEventRow]) -> pa.Table:
    """Return the rows that the lines of an epoch changed, with the columns of ROW_CHANGE. Lines are in order."""
    found = [(seq, line.event_time, each) for seq, line in enumerate(events) for each in line.changes]
    columns: dict[str, Sequence[Any]] = {
        "epoch": [epoch] * len(found),
        "seq": [seq for seq, _, _ in found],
        "event_time": [at for _, at, _ in found],
        "table_name": [each.table for *_, each in found],
    }
    keys = [dict(zip(TABLES[each.table].key, each.key, strict=True)) for *_, each in found]
    arrays, changed = [], set(columns["table_name"])
    for field in ROW_CHANGE.schema:
        table, side = _SIDES_OF.get(field.name, ("", ""))
        if not table:
            values = columns.get(field.name) or [key.get(field.name) for key in keys]
            arrays.append(_array(values, field.type))
        elif table in changed:
            arrays.append(_sides(table, [getattr(each, side) if each.table == table else None for *_, each in found]))
        else:
            arrays.append(pa.nulls(len(found), field.type))
    return pa.table(arrays, schema=ROW_CHANGE.schema)


def row_changes_from_arrow(table: pa.Table) -> Iterator[tuple[tuple[int, int], RowChange]]:
    """Yield epoch and number of its line, and the change, for each row of ROW_CHANGE."""
    places = list(zip(table["epoch"].to_pylist(), table["seq"].to_pylist(), strict=True))
    names = table["table_name"].to_pylist()
    for spec in (spec for spec in ROUTE_TABLES if spec.name in set(names)):
        keys = zip(*(table[name].to_pylist() for name in spec.key), strict=True)
        before, after = (rows_of_side(spec, table[f"{spec.name}_{side}"]) for side in SIDES)
        for place, name, *change in zip(places, names, keys, before, after, strict=True):
            if name == spec.name:
                yield place, RowChange(name, *change)


def rows_of_side(spec: TableSpec, column: pa.ChunkedArray) -> list[Any]:
    """Return a struct column of ROW_CHANGE as rows, None where it is NULL. Columns that it lacks have their default."""
    return _structs(column.cast(spec.recorded), spec.recorded)


def _sides(table: str, found: Sequence[Any]) -> pa.Array:
    spec = TABLES[table]
    places = [at for at, column in enumerate(spec.columns) if column.name not in UNRECORDED_COLUMNS]
    return _struct_array([None if row is None else tuple(row[at] for at in places) for row in found], spec.recorded)


def parquet_rows(content: bytes) -> pa.Table:
    """Return the rows of a Parquet file, read in the caller's thread.

    Arrow's I/O threads would free Python's memory shortly after the read has returned. If Python exits at that moment,
    the process aborts ("terminate called without an active exception").
    """
    import pyarrow.parquet  # noqa: PLC0415 - a process that reads no file need not wait for the import

    return pyarrow.parquet.ParquetFile(pa.BufferReader(content), pre_buffer=False).read(use_threads=False)


def query_rows(rows: pa.Table, sql: str) -> pa.Table:
    """Return the answer of a SQL statement about rows in memory, which are called `rows` in it, by DuckDB."""
    import duckdb  # noqa: PLC0415 - it takes 0.1 s, and few processes ask about rows in memory

    with duckdb.connect(config={"threads": 1}) as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute("CREATE TEMP MACRO to_timestamp_millis(ms) AS make_timestamptz(CAST(ms * 1000 AS BIGINT))")
        db.register("rows", rows)
        return db.sql(sql).to_arrow_table()


def with_partition_column(spec: TableSpec, table: pa.Table) -> pa.Table:
    """Return `table` with the partition column that Delta stores beside the row's columns, if `spec` has one."""
    match spec.partition_column:
        case None:
            return table
        case schemas.EVENT_MONTH:
            column = pc.strftime(table.column("event_time"), format="%Y-%m")
        case schemas.TOPIC_BUCKET:
            names = pc.dictionary_encode(table.column("broker_name")).combine_chunks()
            column = pa.array(map(topic_bucket, names.dictionary.to_pylist()), pa.string()).take(names.indices)
    return table.append_column(spec.partition_column, column)


def topic_bucket(broker_name: str) -> str:
    """Return the bucket of a broker name's rows. This function may never change: stored tables depend on it."""
    return f"{crc32(broker_name.encode()) % schemas.TOPIC_BUCKETS:02}"


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, _MILLIS).cast(kind)
    if kind == CHANNELS:
        return pa.array([sorted(channels.items()) for channels in values], kind)
    if kind == HOLES:
        return pa.array([[hole._asdict() for hole in holes] for holes in values], kind)
    if pa.types.is_struct(kind):
        return _struct_array(values, kind)
    if pa.types.is_map(kind):
        return pa.array([None if value is None else list(value.items()) for value in values], kind)
    return pa.array(values, kind)


def _struct_array(values: Sequence[Any], kind: pa.StructType) -> pa.Array:
    nothing = (None,) * kind.num_fields
    tuples = (value if isinstance(value, tuple | None) else msgspec.structs.astuple(value) for value in values)
    parts = [nothing if value is None else value for value in tuples]
    children = list(zip(*parts, strict=True)) or [()] * kind.num_fields
    arrays = [_array(child, field.type) for child, field in zip(children, kind, strict=True)]
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=missing)


def _values(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> list[Any]:
    if pa.types.is_timestamp(kind):
        return column.cast(_MILLIS).cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_struct(kind):
        return _structs(column, kind)
    values = column.to_pylist()
    if kind == CHANNELS:  # NULL in a snapshot that was published before the column was added
        return [{each["channel_id"]: each["last_heard_millis"] for each in value or ()} for value in values]
    if kind == HOLES:  # as above
        return [tuple(Hole(**each) for each in value or ()) for value in values]
    if kind == TEXTS:  # as above
        return [tuple(value or ()) for value in values]
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in values]
    return values  # type: ignore[no-any-return]


def _structs(column: pa.ChunkedArray, kind: pa.StructType) -> list[Any]:
    make = _STRUCT_CLASSES[kind]
    children = [_values(pc.struct_field(column, [field.name]), field.type) for field in kind]
    validity = column.is_valid().to_pylist()
    return [make(*parts) if valid else None for valid, parts in zip(validity, zip(*children, strict=True), strict=True)]
