"""Rows to Arrow and back lose nothing, for every table."""

import typing

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import Hole, LogPosition
from namesrv_stream.tables.arrow import rows_from_arrow, rows_to_arrow, with_partition_column
from namesrv_stream.tables.schemas import (
    BROKER_EVENT,
    CHANNELS,
    DATA_VERSION,
    HOLES,
    LOG_POSITION,
    REJECTED,
    ROUTE_TABLES,
    SNAPSHOT,
    TABLES,
)
from tests.examples import examples
from tests.tables.rows import event

LONGS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(-62_135_596_800_000, 253_402_300_799_999)  # the years 1 to 9999
INTS = st.integers(-(2**31), 2**31 - 1)
VALUES = {
    pa.string(): st.text(),
    pa.int32(): INTS,
    pa.int64(): LONGS,
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(),
    pa.list_(pa.string()): st.lists(st.text()).map(tuple),
    pa.map_(pa.int32(), pa.int64()): st.dictionaries(INTS, LONGS),
    pa.map_(pa.string(), pa.int64()): st.dictionaries(st.text(), LONGS),
    CHANNELS: st.dictionaries(st.text(), LONGS),
    HOLES: st.lists(st.builds(Hole, st.text(), *[LONGS] * 2, st.none() | LONGS, *[LONGS] * 2)).map(tuple),
    DATA_VERSION: st.builds(DataVersion, LONGS, LONGS, LONGS),
    LOG_POSITION: st.builds(LogPosition, TIMES, INTS, LONGS),
}


def rows_of(spec):
    hints = typing.get_type_hints(spec.row)
    columns = []
    for field in spec.schema:
        values = TIMES if pa.types.is_timestamp(field.type) else VALUES[field.type]
        nullable = type(None) in typing.get_args(hints[field.name])
        columns.append(st.none() | values if nullable else values)
    return st.lists(st.tuples(*columns).map(lambda values: spec.row(*values)), max_size=5)


@pytest.mark.parametrize("spec", [*ROUTE_TABLES, BROKER_EVENT, REJECTED, SNAPSHOT], ids=lambda spec: spec.name)
@examples(40)
@given(data=st.data())
def test_rows_come_back_from_arrow_as_they_went_in(spec, data):
    rows = data.draw(rows_of(spec))
    table = rows_to_arrow(spec, rows)
    assert table.schema == spec.schema
    assert rows_from_arrow(spec, table) == rows


def test_events_are_filed_under_the_month_of_their_event_time_in_utc():
    december_in_utc = 1_701_388_800_000
    spec = TABLES["broker_event"]
    stored = with_partition_column(
        spec, rows_to_arrow(spec, [event("a", december_in_utc - 1), event("b", december_in_utc)])
    )
    assert stored.column("event_month").to_pylist() == ["2023-11", "2023-12"]
    assert stored.schema.names == spec.stored_schema.names
