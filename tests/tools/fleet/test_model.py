"""Requests of simulated brokers and their times: the broker side of RocketMQ, B1 to B7, in the model's own time."""

from collections import defaultdict
from itertools import pairwise

import pytest

from namesrv_stream.errors import SettingError
from namesrv_stream.records import decode_record, encode_record
from namesrv_stream.rules.record_types import BrokerHeartbeat, RegisterBroker, UnregisterBroker
from namesrv_stream.tools.fleet.broker import ChurnKind, FleetPlan
from namesrv_stream.tools.fleet.model import FleetModel

T0 = 1_800_000_000_000
MINUTE = 60_000


def sent(model, until_ms):
    """Return (seconds since the start, request) of each request that is due."""
    return [((at_ms - T0) / 1_000, request) for at_ms, request in model.due(T0 + until_ms)]


def kinds(requests):
    return [(at_s, type(request)) for at_s, request in requests]


def one_broker(**plan):
    return FleetModel(FleetPlan(brokers=1, clusters=1, slaves_per_master=0, topics=3, **plan), T0)


def with_churn(kind, **plan):
    shape = {"brokers": 12, "clusters": 2, "slaves_per_master": 1, "topics": 20}
    return FleetModel(FleetPlan(**(shape | plan), churn={kind: 2}), T0)


@pytest.mark.parametrize("churn", [{}, dict.fromkeys(ChurnKind, 3)])
def test_same_seed_gives_the_same_records_and_another_does_not(churn):
    def everything(seed):
        model = FleetModel(FleetPlan(brokers=12, topics=20, churn=churn, seed=seed), T0)
        return [(at_ms, encode_record(request)) for at_ms, request in model.due(T0 + 10 * MINUTE)]

    assert everything(1) == everything(1)
    assert everything(1) != everything(2)


@pytest.mark.parametrize(
    ("period_s", "said_at_s"),
    [
        (30, [0, 10, 40, 70, 100]),
        (10, [0, 10, 20, 30, 40]),
        (60, [0, 10, 70, 130, 190]),
        (3_600, [0, 10, 3_610]),
    ],
)
def test_b1_registers_at_start_after_10_s_and_then_in_its_period(period_s, said_at_s):
    model = one_broker(period_ms=period_s * 1_000)
    assert [at_s for at_s, _ in sent(model, said_at_s[-1] * 1_000)] == said_at_s


def test_b5_unregisters_once_and_sends_nothing_more():
    model = one_broker()
    sent(model, 0)
    broker = model.broker("broker-a-0", 0)
    assert model.unregister(broker, T0 + 1) == [
        UnregisterBroker(broker_addr="10.0.0.1:10911", cluster_name="cluster-a", broker_name="broker-a-0", broker_id=0)
    ]
    assert model.unregister(broker, T0 + 2) == []
    assert sent(model, 100_000) == []


def test_b6_acting_master_asks_for_its_lease_and_heartbeats_between_registrations():
    model = one_broker(acting_master=True, heartbeat_timeout_ms=10_000, heartbeat_interval_ms=1_000)
    (_, first), *light = sent(model, 9_999)
    assert (first.enable_acting_master, first.heartbeat_timeout_millis) == (True, 10_000)
    assert kinds(light) == [(float(second), BrokerHeartbeat) for second in range(1, 10)]


def test_every_record_is_of_the_contract():
    model = FleetModel(
        FleetPlan(brokers=30, topics=100, zones=3, churn=dict.fromkeys(ChurnKind, 20), heartbeat_interval_ms=5_000), T0
    )
    requests = [request for _, request in model.due(T0 + 20 * MINUTE)]
    assert set(map(type, requests)) == {RegisterBroker, BrokerHeartbeat, UnregisterBroker}
    assert all(decode_record(encode_record(request)) == request for request in requests)


def test_nobody_heartbeats_before_it_has_registered_or_after_it_has_unregistered():
    model = FleetModel(FleetPlan(brokers=30, topics=10, churn=dict.fromkeys(ChurnKind, 20)), T0)
    is_registered = defaultdict(bool)
    for _, request in model.due(T0 + 20 * MINUTE):
        if not isinstance(request, RegisterBroker):
            assert is_registered[request.broker_addr]
        is_registered[request.broker_addr] = not isinstance(request, UnregisterBroker)


@pytest.mark.parametrize("kind", ChurnKind)
def test_churn_happens_as_often_as_asked_for(kind):
    model = with_churn(kind, brokers=60, heartbeat_timeout_ms=5_000)
    list(model.due(T0 + 100 * MINUTE))
    assert 140 < model.happened[kind] < 260  # 200 on average; one in 20,000 seeds is outside


@pytest.mark.parametrize(
    ("kind", "least", "most", "times"), [(ChurnKind.CRASH, 0.5, 2.5, 1), (ChurnKind.FLAP, 1.2, 1.2, 3)]
)
def test_one_that_crashes_or_flaps_is_silent_for_part_of_its_lease_or_longer(kind, least, most, times):
    beats = {"heartbeat_timeout_ms": 60_000, "heartbeat_interval_ms": 1_000}
    model = one_broker(**beats, churn={kind: 0.05})
    heard = [at_s for at_s, _ in sent(model, 300 * MINUTE)]
    silences = [after - before for before, after in pairwise(heard) if after - before > 1.5]
    assert len(silences) >= times * (model.happened[kind] - 1) > 5, "the last one may not be over"
    assert 60 * least <= min(silences) <= max(silences) <= 60 * most + 1, "its last word is up to 1 s old"
    assert max(silences) > 60, "its lease has ended"


def test_promoted_slave_keeps_its_address_and_takes_id_0_under_a_higher_state_version():
    model = with_churn(ChurnKind.PROMOTE, brokers=2, clusters=1)
    masters = {}
    for _, request in model.due(T0 + 60 * MINUTE):
        if isinstance(request, RegisterBroker) and request.broker_id == 0:
            masters.setdefault(request.data_version.state_version, set()).add(request.broker_addr)
    assert model.happened[ChurnKind.PROMOTE] > 5
    assert sorted(masters) == list(range(len(masters)))
    assert all(len(addresses) == 1 for addresses in masters.values())
    assert set.union(*masters.values()) == {"10.0.0.1:10911", "10.0.0.2:10911"}


def test_more_clusters_than_broker_names_are_refused():
    FleetPlan(brokers=3, slaves_per_master=1, clusters=2)
    with pytest.raises(SettingError, match="3 clusters for 2 broker names"):
        FleetPlan(brokers=3, slaves_per_master=1, clusters=3)
