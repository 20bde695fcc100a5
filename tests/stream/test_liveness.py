"""The stateful step through Spark's own tester: what reaches the micro-batch, and what is evicted when."""

import json

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from namesrv_stream.stream.address_groups import NO_ADDRESS
from namesrv_stream.stream.liveness import OUTPUT_SCHEMA, BrokerLiveness, entries_of

T0 = 1_700_000_000_000
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
GROUP = 7
DELAY_MS = 5_000


def record(kind, at_ms, address=A, channel="ch:1", timeout_ms=120_000, offset=None, reason=None, event_time=None):
    fields = {
        "broker_addr": address,
        "append_time_ms": T0 + at_ms,
        "offset": at_ms if offset is None else offset,
        "kind": kind,
        "timeout_ms": timeout_ms,
        "channel_id": channel,
        "length": 1,
        "reason": reason,
    }
    return Row(address_group=GROUP, event_time=event_time, record=json.dumps(fields))


def one_group(**more):
    def never_late(_row):
        """Keep all rows: in the query only ticks have an event time."""
        return 2**62

    return TwsTester(BrokerLiveness(DELAY_MS), timeMode="eventTime", eventTimeExtractor=never_late, **more)


def timers_ms(brokers):
    brokers.handle.setGroupingKey(GROUP)
    return [ms - T0 for ms in brokers.handle.listTimers()]


@pytest.fixture
def brokers():
    return one_group()


def passed_on(rows):
    return [entry for row in rows for entry in entries_of(row.passed_on)]


def watermark_reaches(brokers, at_ms):
    entries = passed_on(brokers.setWatermark(T0 + at_ms))
    return [(entry.kind, entry.broker_addr, entry.append_times_ms[0] - T0) for entry in entries]


def state(brokers):
    """Address -> (timeout, last sign of life after T0) of each address of the group."""
    timeouts, last = (brokers.peekMapState(name, GROUP) for name in ("timeout_ms", "last_heard_ms"))
    assert timeouts.keys() <= last.keys()
    return {key[0]: (timeouts.get(key, (None,))[0], heard_ms - T0) for key, (heard_ms,) in last.items()}


@pytest.mark.parametrize(("silence_ms", "evicted"), [(120_000, []), (120_001, [("EVICTED", A, 0)])])
def test_the_state_of_a_silent_broker_is_evicted_a_millisecond_after_its_timeout(brokers, silence_ms, evicted):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0)])
    assert watermark_reaches(brokers, silence_ms) == evicted
    assert (state(brokers) == {}) == bool(evicted)


def test_a_heartbeat_moves_no_timer_and_the_state_is_evicted_a_timeout_after_it(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0)])
    brokers.test(GROUP, [record("BROKER_HEARTBEAT", 30_000)])
    assert watermark_reaches(brokers, 120_001) == []
    assert watermark_reaches(brokers, 150_000) == []
    assert watermark_reaches(brokers, 150_001) == [("EVICTED", A, 30_000)]


def test_a_shorter_timeout_moves_the_timer_forward(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0)])
    brokers.test(GROUP, [record("REGISTER_BROKER", 20_000, timeout_ms=10_000)])
    assert timers_ms(brokers) == [30_001]
    assert watermark_reaches(brokers, 30_001) == [("EVICTED", A, 20_000)]


def test_each_address_of_a_group_is_evicted_at_its_own_end(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0, A), record("REGISTER_BROKER", 10, B, timeout_ms=30_000)])
    brokers.test(GROUP, [record("BROKER_HEARTBEAT", 5_000, B)])
    assert watermark_reaches(brokers, 35_000) == []
    assert watermark_reaches(brokers, 35_001) == [("EVICTED", B, 5_000)]
    assert state(brokers) == {A: (120_000, 0)}
    assert watermark_reaches(brokers, 120_001) == [("EVICTED", A, 0)]


def test_addresses_with_the_same_end_are_evicted_together(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0, A), record("REGISTER_BROKER", 0, B, offset=1)])
    assert watermark_reaches(brokers, 120_001) == [("EVICTED", A, 0), ("EVICTED", B, 0)]


def test_nothing_is_kept_of_an_address_that_unregistered(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0)])
    brokers.test(GROUP, [record("UNREGISTER_BROKER", 10), record("BROKER_HEARTBEAT", 11)])
    assert state(brokers) == {}
    assert watermark_reaches(brokers, 120_001) == []


def test_nothing_is_kept_of_an_address_that_registered_and_unregistered_in_one_visit(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0), record("UNREGISTER_BROKER", 10)])
    assert (state(brokers), timers_ms(brokers)) == ({}, [])


def test_the_latest_of_the_signs_of_life_of_one_visit_counts(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 50, offset=1), record("BROKER_HEARTBEAT", 40, offset=2)])
    assert state(brokers) == {A: (120_000, 50)}


def test_an_address_that_unregisters_and_registers_again_is_known_by_what_came_last(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0)])
    again = record("REGISTER_BROKER", 20, timeout_ms=40_000)
    brokers.test(GROUP, [record("UNREGISTER_BROKER", 10), again, record("BROKER_HEARTBEAT", 30)])
    assert state(brokers) == {A: (40_000, 30)}


def test_a_lost_connection_changes_no_state(brokers):
    """The driver knows the connections (L6). The state of an address that lost its last one is evicted in time."""
    brokers.test(GROUP, [record("REGISTER_BROKER", 0)])
    [entry] = passed_on(brokers.test(GROUP, [record("CHANNEL_CLOSED", 10)]))
    assert (entry.kind, entry.channel_id) == ("CHANNEL_CLOSED", "ch:1")
    assert watermark_reaches(brokers, 120_001) == [("EVICTED", A, 0)]


def test_a_heartbeat_of_an_unknown_address_is_passed_on_and_forgotten_without_an_eviction(brokers):
    [entry] = passed_on(brokers.test(GROUP, [record("BROKER_HEARTBEAT", 7)]))
    assert (entry.kind, entry.offsets) == ("BROKER_HEARTBEAT", [7])
    assert watermark_reaches(brokers, 8) == []
    assert state(brokers) == {}


def test_unknown_addresses_of_a_group_are_forgotten_together(brokers):
    brokers.test(GROUP, [record("BROKER_HEARTBEAT", 7, A), record("BROKER_HEARTBEAT", 7, B, offset=8)])
    assert watermark_reaches(brokers, 8) == []
    assert state(brokers) == {}


def test_a_sign_of_life_counts_at_the_newest_tick_if_kafkas_clock_has_stepped_back(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 60_000)])
    brokers.setWatermark(T0 + 60_000 - DELAY_MS)
    brokers.test(GROUP, [record("BROKER_HEARTBEAT", 58_000)])
    assert state(brokers) == {A: (120_000, 60_000)}


def test_the_state_of_a_new_checkpoint_is_that_of_the_published_leases():
    leases = [[A, 120_000, T0], [B, 30_000, T0 + 5]]
    brokers = one_group(initialStateRow=[(GROUP, Row(addresses=json.dumps(leases)))])
    assert state(brokers) == {A: (120_000, 0), B: (30_000, 5)}
    assert watermark_reaches(brokers, 30_006) == [("EVICTED", B, 5)]
    assert watermark_reaches(brokers, 120_001) == [("EVICTED", A, 0)]


def test_heartbeats_are_one_entry_a_connection_with_every_offset_and_time(brokers):
    brokers.test(GROUP, [record("REGISTER_BROKER", 0)])
    beats = [("BROKER_HEARTBEAT", 3, A, "ch:2"), ("BROKER_HEARTBEAT", 1), ("BROKER_HEARTBEAT", 2)]
    entries = passed_on(brokers.test(GROUP, [record(*beat) for beat in beats]))
    found = {entry.channel_id: (entry.offsets, [ms - T0 for ms in entry.append_times_ms]) for entry in entries}
    assert found == {"ch:1": ([1, 2], [1, 2]), "ch:2": ([3], [3])}


def test_other_records_are_an_entry_each_in_order_of_their_offsets(brokers):
    rows = brokers.test(GROUP, [record("UNREGISTER_BROKER", 2), record("REGISTER_BROKER", 1)])
    assert [(entry.kind, entry.offsets) for entry in passed_on(rows)] == [
        ("REGISTER_BROKER", [1]),
        ("UNREGISTER_BROKER", [2]),
    ]


def test_the_group_without_an_address_passes_on_all_but_the_clocks_rows_and_keeps_no_state(brokers):
    rows = brokers.test(
        NO_ADDRESS,
        [
            record("SCAN", 1, ""),
            record("SCAN", 1, "", event_time=T0 + 1),
            record("PUT_KV_CONFIG", 2, ""),
            record("REJECTED", 3, "", reason="no"),
        ],
    )
    assert [(entry.kind, entry.offsets, entry.reason) for entry in passed_on(rows)] == [
        ("SCAN", [1], None),
        ("PUT_KV_CONFIG", [2], None),
        ("REJECTED", [3], "no"),
    ]
    assert brokers.peekMapState("last_heard_ms", NO_ADDRESS) == {}


@pytest.mark.parametrize(("number", "rows"), [(1_000, 1), (1_001, 2)])
def test_a_row_has_a_thousand_entries_at_most(brokers, number, rows):
    found = brokers.test(NO_ADDRESS, [record("SCAN", offset, "") for offset in range(number)])
    assert len(found) == rows
    assert [entry.offsets for entry in passed_on(found)] == [[offset] for offset in range(number)]


def test_rows_have_the_columns_of_the_output_schema(brokers):
    [row] = brokers.test(GROUP, [record("REGISTER_BROKER", 0)])
    assert [f"{name} STRING" for name in row.__fields__] == [OUTPUT_SCHEMA]
