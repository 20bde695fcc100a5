"""Fold the changes of rows, which `row_change` has: first before, last after of each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_stream.rules.rows import LiveRow, is_same_but_for_life
from namesrv_stream.tables.arrow import rows_of_side
from namesrv_stream.tables.schemas import TableSpec

Key = tuple[Any, ...]
RowsByKey = Mapping[Key, tuple[Any, ...] | None]
"""Key -> the row, None if there is none."""

_FOLD = """
SELECT {keys}, {rows} FROM (
  SELECT {keys}, {sides},
         row_number() OVER (PARTITION BY {keys} ORDER BY
           CASE WHEN {is_included} THEN 0 ELSE 1 END,
           CASE WHEN {is_included} THEN -epoch ELSE epoch END,
           CASE WHEN {is_included} THEN -seq ELSE seq END) AS place
  FROM rows WHERE table_name IN ({names}) AND {chosen}
) AS numbered WHERE place = 1
"""


def folded(specs: Sequence[TableSpec], chosen: str, is_included: str = "true") -> str:
    """Return the SQL of one row for each key with a chosen change: key columns, and `was_<table>`, NULL for no row.

    Its row is the one after the last included change; if none is included, the one before the first. Both conditions
    are SQL about rows of `row_change`, which is called `rows`.
    """
    keys = dict.fromkeys(["table_name", *(name for spec in specs for name in spec.key)])
    side = f"CASE WHEN {is_included} THEN {{0}}_after ELSE {{0}}_before END AS was_{{0}}"
    return _FOLD.format(
        keys=", ".join(keys),
        rows=", ".join(f"was_{spec.name}" for spec in specs),
        sides=", ".join(side.format(spec.name) for spec in specs),
        is_included=is_included,
        names=", ".join(f"'{spec.name}'" for spec in specs),
        chosen=chosen,
    )


def rows_by_key(spec: TableSpec, found: pa.Table) -> RowsByKey:
    """Return the rows of one table in the answer to `folded`."""
    tables, rows = found["table_name"].to_pylist(), rows_of_side(spec, found[f"was_{spec.name}"])
    keys = zip(*(found[name].to_pylist() for name in spec.key), strict=True)
    return {key: row for table, key, row in zip(tables, keys, rows, strict=True) if table == spec.name}


def is_same(recorded: tuple[Any, ...] | None, stored: tuple[Any, ...] | None) -> bool:
    """Return whether a row as it was recorded last is the stored one, but for its signs of life and tokens."""
    if isinstance(recorded, LiveRow) and isinstance(stored, LiveRow):
        return is_same_but_for_life(recorded._replace(tokens=stored.tokens), stored)
    return recorded == stored


def without(rows: pa.Table, spec: TableSpec, keys: Iterable[Key]) -> pa.Table:
    """Return the rows without those of some keys. Only rows that share a part of a key become Python objects."""
    keys = set(keys)
    may_go: Any = pa.repeat(pa.array([True])[0], len(rows))
    for part, name in enumerate(spec.key):
        values = pa.array({key[part] for key in keys}, rows.schema.field(name).type)
        may_go = pc.and_(may_go, pc.is_in(rows[name], values))
    places = pc.indices_nonzero(may_go)
    found = zip(places.to_pylist(), *(rows[name].take(places).to_pylist() for name in spec.key), strict=True)
    gone = pa.array([place for place, *key in found if tuple(key) in keys], pa.uint64())
    if not len(gone):
        return rows
    return rows.filter(pc.invert(pc.is_in(pa.array(range(len(rows)), pa.uint64()), gone)))
