"""The stateful step through Spark's own tester: what of the lease reaches the micro-batch, and when."""

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from namesrv_stream.rules.lease import ClockJump
from namesrv_stream.stream.liveness import MARK, OUTPUT_SCHEMA, BrokerLiveness

T0 = 1_700_000_000_000
DELAY_MS = 5_000
ADDRESS = "10.0.0.1:10911"


def record(kind, at_ms, channel="ch:1", value=None, timeout_ms=120_000, offset=None, reason=None):
    return Row(
        broker_addr=ADDRESS,
        event_time_ms=T0 + at_ms,
        partition=0,
        offset=at_ms if offset is None else offset,
        kind=kind,
        cluster_name="c1",
        broker_name="broker-a",
        broker_id=0,
        timeout_ms=timeout_ms,
        channel_id=channel,
        value=value,
        rejected_key=None,
        length=1,
        reason=reason,
    )


@pytest.fixture
def brokers():
    return TwsTester(
        BrokerLiveness(DELAY_MS, ClockJump(grace_ms=0)),
        timeMode="eventTime",
        eventTimeExtractor=lambda row: row.event_time_ms,
    )


def log_reaches(brokers, at_ms):
    """The watermark after a record at `at_ms` has been read."""
    return brokers.setWatermark(T0 + at_ms - DELAY_MS)


@pytest.mark.parametrize(("silence_ms", "kinds"), [(120_000, []), (120_001, ["EXPIRED"])])
def test_a_lease_ends_on_time_although_the_watermark_is_behind(brokers, silence_ms, kinds):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    rows = log_reaches(brokers, silence_ms)
    assert [row.kind for row in rows] == kinds
    assert [row.event_time_ms for row in rows] == [T0 + 120_001] * len(kinds)


def test_a_heartbeat_moves_no_timer_and_the_lease_ends_by_the_later_deadline(brokers):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    brokers.test(ADDRESS, [record("BROKER_HEARTBEAT", 30_000)])
    assert log_reaches(brokers, 120_001) == []
    assert log_reaches(brokers, 150_000) == []
    assert [row.kind for row in log_reaches(brokers, 150_001)] == ["EXPIRED"]


def test_a_shorter_timeout_moves_the_timer_forward(brokers):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 20_000, timeout_ms=10_000)])
    assert [row.kind for row in log_reaches(brokers, 30_001)] == ["EXPIRED"]


def test_nothing_is_left_of_an_address_once_older_records_can_no_longer_come(brokers):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0), record("UNREGISTER_BROKER", 10)])
    assert brokers.peekValueState("lease", ADDRESS) is not None
    assert log_reaches(brokers, 120_001) == []
    assert brokers.peekValueState("lease", ADDRESS) is None


def test_a_registration_carries_its_record_and_a_heartbeat_is_one_small_row(brokers):
    rows = brokers.test(ADDRESS, [record("REGISTER_BROKER", 0, value=b"{}"), record("BROKER_HEARTBEAT", 1)])
    assert [(row.kind, row.value) for row in rows] == [("REGISTERED", b"{}"), ("SEEN", None)]


def test_every_key_tells_how_far_it_has_read(brokers):
    rows = brokers.test(ADDRESS, [record("BROKER_HEARTBEAT", 7)])
    assert [(row.kind, row.broker_addr, row.offset) for row in rows] == [(MARK, ADDRESS, 7)]


def test_the_empty_key_passes_commands_on_drops_ticks_and_keeps_no_state(brokers):
    rows = brokers.test(
        "",
        [
            record("SCAN", 1),
            record("PUT_KV_CONFIG", 2, value=b"kv"),
            record("REJECTED", 3, value=b"x", reason="no"),
            record("SCAN", 4),
        ],
    )
    assert [(row.kind, row.offset, row.reason) for row in rows] == [
        ("PUT_KV_CONFIG", 2, None),
        ("REJECTED", 3, "no"),
        (MARK, 4, None),
    ]
    assert brokers.peekValueState("lease", "") is None


def test_rows_have_the_columns_of_the_output_schema(brokers):
    [row] = brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    assert list(row.__fields__) == [column.split()[0] for column in OUTPUT_SCHEMA.split(", ")]
