"""Registrations of several holders of one name."""

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.requests import RegisterBroker
from namesrv_stream.rules.rows import LogPosition


def registration(broker_id, zone):
    return RegisterBroker(
        cluster_name="c", broker_name="b", broker_id=broker_id, broker_addr=f"10.0.0.{broker_id}:10911", zone_name=zone
    )


def test_the_later_registration_in_the_log_gives_the_zone_although_kafkas_clock_has_stepped_back_d6_e9():
    registry = RouteRegistry(NamesrvSettings())
    registry.apply(registration(0, "zone-1"), LogPosition(10_000, 0, 0))
    registry.apply(registration(1, "zone-2"), LogPosition(9_990, 0, 1))
    shown = max(registry.view().brokers["b"].values(), key=lambda row: row.registered_at)
    assert shown.zone_name == "zone-2"
