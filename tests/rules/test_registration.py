"""Registrations of several holders of one name."""

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import UnregisterBroker
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from tests.build import address, registration


def at_id(broker_id, zone):
    return registration(address(broker_id), broker_name="b", broker_id=broker_id, zone_name=zone)


def test_the_later_registration_in_the_log_gives_the_zone_although_kafkas_clock_has_stepped_back_d6_e9():
    registry = RouteRegistry(NamesrvSettings())
    registry.apply(at_id(0, "zone-1"), LogPosition(10_000, 0, 0))
    registry.apply(at_id(1, "zone-2"), LogPosition(9_990, 0, 1))
    shown = max(registry.view().brokers["b"].values(), key=lambda row: row.registered_at)
    assert shown.zone_name == "zone-2"


def test_of_an_accepted_log_what_is_older_is_ignored_until_the_first_record_that_is_not_e9():
    registry = RouteRegistry(NamesrvSettings())
    registry.ignored_before_ms = 1_000
    registry.apply(at_id(0, "old"), LogPosition(999, 0, 0))
    assert registry.lease("10.0.0.0:10911") is None
    registry.apply(at_id(1, "new"), LogPosition(1_000, 0, 1))
    registry.apply(at_id(2, "after the clock stepped back"), LogPosition(900, 0, 2))
    assert registry.lease("10.0.0.1:10911") is not None
    assert registry.lease("10.0.0.2:10911") is not None


def test_a_lease_that_has_ended_has_no_sign_of_life_to_publish():
    registry = RouteRegistry(NamesrvSettings())
    registry.apply(at_id(0, None), LogPosition(0, 0, 0))
    registry.apply(UnregisterBroker(broker_addr=address(0)), LogPosition(1, 0, 1))
    assert not registry.has_signs_of_life()
