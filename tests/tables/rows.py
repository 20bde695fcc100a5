"""Rows that tests write, with short constructors."""

from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import BrokerEventRow, BrokerRow, LiveRow, LogPosition, RowChange, TopicRow
from tests.clock import now_ms

T0 = 1_700_000_000_000
"""Event time of the tests."""

NOW = now_ms()
"""The time at which tests publish: retention counts from the clock."""


def topic(name, broker_name="broker-a", perm=6):
    return TopicRow(name, broker_name, 8, 8, perm, 0)


def broker(broker_id=0, zone_name=None, acting=None):
    return BrokerRow("broker-a", broker_id, f"10.0.0.{broker_id}:10911", "c", zone_name, acting, LogPosition(T0, 0, 5))


def live(address, at_ms=T0):
    return LiveRow(address, "c", "broker-a", 0, at_ms, 120_000, DataVersion(1, 2, 3), "", T0)


def line_of(**changes):
    """A line of history that changes rows of tables, each None or a row after it by key."""
    made = [RowChange(table, key, None, row) for table, rows in changes.items() for key, row in rows.items()]
    return event("changed")._replace(changes=tuple(made))


def event(address, at_ms=T0):
    return BrokerEventRow(0, 0, at_ms, 0, 7, "REGISTERED", "c", None, "broker-a", 0, address, DataVersion(), "x", None)
