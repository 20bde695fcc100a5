"""Input of the stateful step: a record as one text, in the group of its address."""

import pytest
from chispa import assert_df_equality

from namesrv_stream.stream.address_groups import ADDRESS_GROUPS, NO_ADDRESS, ParsedRecord, group_of, in_groups

PARSED = (
    "broker_addr STRING, event_time TIMESTAMP, append_time_ms LONG, offset LONG, kind STRING, timeout_ms LONG,"
    " channel_id STRING, length LONG, reason STRING"
)
RECORDS = [
    ParsedRecord("10.0.0.1:10911", 7, 1, "BROKER_HEARTBEAT", 120_000, "gw-1/7", 60),
    ParsedRecord("[fe80::1%eth0]:10911", 8, 2, "UNREGISTER_BROKER", 10_000, None, 61),
    ParsedRecord("\u00fc:1", 9, 3, "CHANNEL_CLOSED", 120_000, 'quote " and \\ and \n', 62),
    ParsedRecord("", 10, 4, "SCAN", 120_000),
    ParsedRecord("", 11, 5, "REJECTED", 120_000, None, 3, "unknown type \u2028"),
]


@pytest.fixture(scope="module")
def grouped(spark):
    rows = [(record.broker_addr, None, *record[1:]) for record in RECORDS]
    return in_groups(spark.createDataFrame(rows, PARSED))


def test_a_record_is_read_as_it_was_parsed(grouped):
    assert [ParsedRecord.of_json(row.record) for row in grouped.collect()] == RECORDS


def test_an_address_has_the_same_group_in_the_jvm_and_for_the_state_of_a_new_checkpoint(spark, grouped):
    groups = [NO_ADDRESS if record.broker_addr == "" else group_of(record.broker_addr) for record in RECORDS]
    expected = spark.createDataFrame([(group,) for group in groups], "address_group INT")
    assert_df_equality(grouped.select("address_group"), expected, ignore_nullable=True)


def test_the_addresses_of_a_network_are_spread_over_all_groups():
    found = [group_of(f"10.0.{host // 250}.{host % 250}:10911") for host in range(10_000)]
    sizes = [found.count(group) for group in range(ADDRESS_GROUPS)]
    assert min(sizes) > 100
    assert max(sizes) < 220
