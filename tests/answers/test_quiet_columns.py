"""A change in quiet columns alone is shown to nobody who asks what changed, and a change in any other column is.

Each column of `broker` and `live` is tried, so that a new one is either quiet everywhere or shown everywhere.
"""

import pytest

from namesrv_stream.answers.accounts import differences
from namesrv_stream.answers.broker_lines import broker_lines
from namesrv_stream.answers.events import event_condition, newest_of
from namesrv_stream.rules.history import AppliedEvent, history_of
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import (
    QUIET_COLUMNS,
    SIGN_OF_LIFE_COLUMNS,
    LiveRow,
    LogPosition,
    RowChange,
    is_same_but_for_life,
)
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RustWriter
from tests.tables.rows import NOW, broker, live

ROWS = {"broker": broker(), "live": live("10.0.0.0:10911")}
IDENTITY = {"broker_name", "broker_id", "broker_addr"}
COLUMNS = [(table, column) for table, row in ROWS.items() for column in row._fields if column not in IDENTITY]
SHOWN = [(table, column) for table, column in COLUMNS if column not in QUIET_COLUMNS[table]]


def with_another(row, column):
    """The row with another value in one column, of the kind that the column has."""
    value = getattr(row, column)
    other = {str: "another", int: 7, LogPosition: LogPosition(7, 7, 7), DataVersion: DataVersion(7, 7, 7)}
    other |= {dict: {"a connection": 7}, tuple: ("a token",)}
    if value is None:
        return row._replace(
            **{column: {"zone_name": "z", "broker_version": "5", "enable_acting_master": True}.get(column, 7)}
        )
    return row._replace(**{column: other[type(value)]})


def lines(table, column):
    """The lines of history of a change in one column alone; `partition` is the place in COLUMNS."""
    row = ROWS[table]
    change = RowChange(table, row[: 2 if table == "broker" else 1], row, with_another(row, column))
    made = history_of(AppliedEvent("REGISTER_BROKER", NOW, broker_addr=ROWS["live"].broker_addr), [change])
    return [each._replace(type="CHANGED", partition=COLUMNS.index((table, column))) for each in made]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_comparison_shows_and_the_log_names_all_but_quiet_columns(table, column):
    """One without a label in `history.story` would be missing in the log."""
    found = lines(table, column)
    compared, logged = differences(change for line in found for change in line.changes), broker_lines(found)
    assert (bool(compared), len(logged)) == ((table, column) in SHOWN, (table, column) in SHOWN)


def test_the_history_without_versions_has_all_but_quiet_columns(tmp_path):
    root = Root(str(tmp_path / "registry"))
    publisher = Publisher.claim(RustWriter(root), "run", NOW)
    made = [line for each in COLUMNS for line in lines(*each)]
    snapshot = publisher.publish(Batch("query", 0, NOW, {0: 1}, {}, made, []), NOW)
    found = newest_of(Registry(root).published(snapshot), event_condition(with_versions=False), None)
    assert [COLUMNS[each.partition] for each in found] == SHOWN


@pytest.mark.parametrize("column", LiveRow._fields)
def test_a_lease_is_the_same_if_only_its_signs_of_life_differ(column):
    lease = ROWS["live"]
    assert is_same_but_for_life(lease, with_another(lease, column)) == (column in SIGN_OF_LIFE_COLUMNS)
