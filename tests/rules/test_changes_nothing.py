"""Registrations that change nothing but the last sign of life: found from the tables, before they are applied."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from chaos.oracle import Oracle
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.records import decode_record
from namesrv_stream.rules.registration import changes_nothing
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.requests import (
    AddWritePerm,
    DataVersion,
    DeleteTopic,
    RegisterBroker,
    TopicConfig,
    UnregisterBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.rows import LogPosition
from tests.examples import examples
from tests.random_logs import CHANNELS, T0, logs

OWN = RegisterBroker(
    cluster_name="c1",
    broker_name="broker-a",
    broker_id=0,
    broker_addr="10.0.0.1:10911",
    data_version=DataVersion(0, 1, 1),
    topic_config_table={"A": TopicConfig(8, 8, 6), "B": TopicConfig(8, 8, 6)},
    filter_server_list=["f:1"],
    channel_id="g1/1",
)
SLAVE = replace(OWN, broker_id=1, broker_addr="10.0.0.2:10911")
AT = LogPosition(T0, 0, 1_000)


def registry(*said):
    made = RouteRegistry(NamesrvSettings())
    for offset, request in enumerate(said):
        made.apply(request, LogPosition(T0, 0, offset))
    return made


def is_found(made, request):
    return changes_nothing(made.view(), made.settings, request)


def has_no_effect(made, request):
    """Apply it; return whether a lease was there, and nothing has changed but signs of life."""
    had_lease = made.lease(request.broker_addr) is not None
    made.take_changes()
    made.apply(request, AT)
    return had_lease and not made.has_changes()


SMALL_CHANGES = st.one_of(
    st.just({}),
    st.builds(lambda channel: {"channel_id": channel}, st.sampled_from(CHANNELS)),
    st.just({"keep_filter_servers": True}),
    st.just({"zone_name": "zone-2"}),
    st.just({"topic_config_table": {}}),
    st.just({"heartbeat_timeout_millis": 77_000}),
)


def registrations_in(log):
    """The registrations of a log that can be read: some of them are what the tables show."""
    found = []
    for record in log:
        with suppress(MalformedRecordError):
            found.append(decode_record(record.value))
    return [each for each in found if isinstance(each, RegisterBroker)]


@examples(60)
@given(logs(max_size=15), st.data())
def test_a_registration_is_found_if_and_only_if_it_has_no_effect(log, data):
    oracle = Oracle(NamesrvSettings())
    for record in log:
        oracle.apply(record)
    request = data.draw(st.sampled_from(registrations_in(log) or [OWN]))
    request = replace(request, **data.draw(SMALL_CHANGES))
    assert is_found(oracle.registry, request) == has_no_effect(oracle.registry, request)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"channel_id": "g2/9"},
        {"requested_by": "somebody"},
        {"keep_filter_servers": True, "filter_server_list": []},
        {"topic_config_table": {"A": TopicConfig(8, 8, 6)}},
        {"topic_config_table": {}},
    ],
)
def test_what_the_tables_show_is_found(change):
    request = replace(OWN, **change)
    assert is_found(registry(OWN), request)
    assert has_no_effect(registry(OWN), request)


@pytest.mark.parametrize(
    "change",
    [
        {"cluster_name": "c2"},
        {"broker_name": "broker-b"},
        {"broker_id": 1},
        {"broker_addr": "10.0.0.9:1"},
        {"ha_server_addr": "10.0.0.1:1"},
        {"heartbeat_timeout_millis": 10_000},
        {"enable_acting_master": False},
        {"zone_name": "z"},
        {"data_version": DataVersion(0, 1, 2)},
        {"filter_server_list": []},
        {"topic_config_table": {"A": TopicConfig(8, 8, 4), "B": TopicConfig(8, 8, 6)}},
        {"topic_config_table": OWN.topic_config_table | {"C": TopicConfig(8, 8, 6)}},
    ],
)
def test_whatever_differs_from_the_tables_is_not_found(change):
    request = replace(OWN, **change)
    assert not is_found(registry(OWN), request)
    assert not has_no_effect(registry(OWN), request)


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ([DeleteTopic(topic="A")], False),
        ([WipeWritePerm(broker_name="broker-a")], True),
        ([AddWritePerm(broker_name="broker-a")], True),
        ([UnregisterBroker(broker_addr=OWN.broker_addr)], False),
        ([replace(OWN, broker_addr="10.0.0.9:1")], False),
        ([SLAVE], True),
        ([replace(SLAVE, zone_name="z")], False),
    ],
    ids=["topic gone", "write bit cleared", "write bit set", "lease ended", "id taken", "slave", "slave elsewhere"],
)
def test_what_happened_since_is_taken_into_account(before, found):
    assert is_found(registry(OWN, *before), OWN) is found
    assert has_no_effect(registry(OWN, *before), OWN) is found


def test_a_part_of_the_topics_is_all_where_topics_go_with_a_registration():
    """T5."""
    made = registry(OWN, UpdateNamesrvConfig(properties={"deleteTopicWithBrokerRegistration": "true"}))
    part = replace(OWN, topic_config_table={"A": TopicConfig(8, 8, 6)})
    assert is_found(made, OWN)
    assert not is_found(made, part)
    assert not has_no_effect(made, part)
