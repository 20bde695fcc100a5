"""The stateful step through Spark's own tester: what reaches the micro-batch, and what is evicted when."""

import json

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from namesrv_stream.stream.liveness import OUTPUT_SCHEMA, Address, BrokerLiveness, PassedOn

T0 = 1_700_000_000_000
ADDRESS = "10.0.0.1:10911"


def record(kind, at_ms, channel="ch:1", timeout_ms=120_000, offset=None, reason=None, event_time=None):
    return Row(
        broker_addr=ADDRESS,
        event_time=event_time,
        append_time_ms=T0 + at_ms,
        offset=at_ms if offset is None else offset,
        kind=kind,
        cluster_name="c1",
        broker_name="broker-a",
        broker_id=0,
        timeout_ms=timeout_ms,
        channel_id=channel,
        length=1,
        reason=reason,
    )


@pytest.fixture
def brokers():
    return TwsTester(BrokerLiveness(), timeMode="eventTime", eventTimeExtractor=lambda row: row.append_time_ms)


def passed_on(rows):
    return [PassedOn.of_row(row.passed_on) for row in rows]


def watermark_reaches(brokers, at_ms):
    return [(row.kind, row.append_times_ms[0] - T0) for row in passed_on(brokers.setWatermark(T0 + at_ms))]


@pytest.mark.parametrize(("silence_ms", "rows"), [(120_000, []), (120_001, [("EVICTED", 0)])])
def test_the_state_of_a_silent_broker_is_evicted_a_millisecond_after_its_timeout(brokers, silence_ms, rows):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    assert watermark_reaches(brokers, silence_ms) == rows
    assert (brokers.peekValueState("address", ADDRESS) is None) == bool(rows)


def test_a_heartbeat_moves_no_timer_and_the_state_is_evicted_a_timeout_after_it(brokers):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    brokers.test(ADDRESS, [record("BROKER_HEARTBEAT", 30_000)])
    assert watermark_reaches(brokers, 120_001) == []
    assert watermark_reaches(brokers, 150_000) == []
    assert watermark_reaches(brokers, 150_001) == [("EVICTED", 30_000)]


def test_a_shorter_timeout_moves_the_timer_forward(brokers):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 20_000, timeout_ms=10_000)])
    assert watermark_reaches(brokers, 30_001) == [("EVICTED", 20_000)]


@pytest.mark.parametrize("end", ["UNREGISTER_BROKER", "CHANNEL_CLOSED"])
def test_nothing_is_kept_of_an_address_that_left(brokers, end):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0), record(end, 10)])
    assert brokers.peekValueState("address", ADDRESS) is None
    assert watermark_reaches(brokers, 120_001) == []


def test_an_address_with_another_connection_is_kept_when_one_closes(brokers):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0), record("BROKER_HEARTBEAT", 5, channel="ch:2")])
    brokers.test(ADDRESS, [record("CHANNEL_CLOSED", 10, channel="ch:1")])
    [state] = brokers.peekValueState("address", ADDRESS)
    timer_ms = T0 + 120_006
    assert Address(**json.loads(state)) == Address("c1", "broker-a", 0, 120_000, T0 + 5, {"ch:2": T0 + 5}, timer_ms)


def test_a_heartbeat_of_an_unknown_address_is_passed_on_and_creates_no_state(brokers):
    [row] = passed_on(brokers.test(ADDRESS, [record("BROKER_HEARTBEAT", 7)]))
    assert (row.kind, row.offsets) == ("BROKER_HEARTBEAT", [7])
    assert brokers.peekValueState("address", ADDRESS) is None


def test_heartbeats_are_one_row_a_connection_with_every_offset_and_time(brokers):
    brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    beats = [record("BROKER_HEARTBEAT", 3, "ch:2"), record("BROKER_HEARTBEAT", 1), record("BROKER_HEARTBEAT", 2)]
    rows = passed_on(brokers.test(ADDRESS, beats))
    found = {row.channel_id: (row.offsets, [ms - T0 for ms in row.append_times_ms]) for row in rows}
    assert found == {"ch:1": ([1, 2], [1, 2]), "ch:2": ([3], [3])}


def test_other_records_are_a_row_each_in_order_of_their_offsets(brokers):
    rows = brokers.test(ADDRESS, [record("UNREGISTER_BROKER", 2), record("REGISTER_BROKER", 1)])
    assert [(row.kind, row.offsets) for row in passed_on(rows)] == [
        ("REGISTER_BROKER", [1]),
        ("UNREGISTER_BROKER", [2]),
    ]


def test_the_empty_key_passes_on_all_but_the_clocks_rows_and_keeps_no_state(brokers):
    rows = brokers.test(
        "",
        [
            record("SCAN", 1),
            record("SCAN", 1, event_time=T0 + 1),
            record("PUT_KV_CONFIG", 2),
            record("REJECTED", 3, reason="no"),
        ],
    )
    assert [(row.kind, row.offsets, row.reason) for row in passed_on(rows)] == [
        ("SCAN", [1], None),
        ("PUT_KV_CONFIG", [2], None),
        ("REJECTED", [3], "no"),
    ]
    assert brokers.peekValueState("address", "") is None


def test_rows_have_the_columns_of_the_output_schema(brokers):
    [row] = brokers.test(ADDRESS, [record("REGISTER_BROKER", 0)])
    assert [f"{name} STRING" for name in row.__fields__] == [OUTPUT_SCHEMA]
