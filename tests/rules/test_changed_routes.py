"""The topics whose routes a change affects although their rows stay: no route may be kept that is another one now."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.oracle import Oracle
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.lookup import RouteTables, route, topics_with_other_routes
from namesrv_stream.rules.queues import TopicQueues
from namesrv_stream.rules.rows import BrokerRow, LogPosition, TopicRow
from tests.examples import examples
from tests.random_logs import TOPICS, logs

ALL_ON = NamesrvSettings(support_acting_master=True, order_message_enable=True)


@examples(60)
@given(logs(max_size=20), st.integers(0, 20), st.sampled_from([None, "zone-1"]))
def test_every_route_that_differs_is_named_or_its_rows_differ(log, cut, zone):
    oracle = Oracle(NamesrvSettings())
    for record in log[:cut]:
        oracle.apply(record)
    before = oracle.registry.view()
    for record in log[cut:]:
        oracle.apply(record)
    after = oracle.registry.view()
    named = topics_with_other_routes(before, after)
    for topic in TOPICS:
        if before.queues.get(topic) == after.queues.get(topic) and topic not in named:
            assert route(before, topic, ALL_ON, zone) == route(after, topic, ALL_ON, zone)


def tables(registered_at=0, filters=(), mapping=None, order=None, other_address="10.0.0.2:1"):
    rows = [TopicRow(f"on-{name}", f"broker-{name}", 8, 8, 6, 0) for name in "ab"]
    holders = {
        "broker-a": BrokerRow("broker-a", 0, "10.0.0.1:1", "c", None, None, LogPosition(registered_at, 0, 0)),
        "broker-b": BrokerRow("broker-b", 0, other_address, "c", None, None, LogPosition(0, 0, 1)),
    }
    return RouteTables(
        queues=TopicQueues.of(rows),
        brokers={name: {0: holder} for name, holder in holders.items()},
        filters={"10.0.0.1:1": filters} if filters else {},
        mappings={"on-a": {"broker-a": mapping}} if mapping else {},
        kv={"ORDER_TOPIC_CONFIG": {"on-b": order}} if order else {},
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({}, set()),
        ({"registered_at": 5}, set()),
        ({"other_address": "10.0.0.3:1"}, {"on-b"}),
        ({"filters": ("f:1",)}, {"on-a"}),
        ({"mapping": "{}"}, {"on-a"}),
        ({"order": "broker-b:4"}, {"on-b"}),
    ],
)
def test_the_routes_of_other_brokers_and_topics_are_not_named(change, named):
    assert topics_with_other_routes(tables(), tables(**change)) == named
    assert topics_with_other_routes(tables(**change), tables()) == named
