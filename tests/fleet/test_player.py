"""A fleet whose thread dies by what nobody foresaw."""

import pytest

from namesrv_stream.fleet.plan import FleetPlan
from namesrv_stream.fleet.player import Fleet
from tests.faulty import FaultyProducer, UnforeseenError

LIMIT_S = 30


def test_who_waits_for_a_fleet_is_told_what_ended_it():
    fleet = Fleet(FleetPlan(brokers=1, topics=1), FaultyProducer())
    fleet.start()
    with pytest.raises(UnforeseenError):
        fleet.wait(LIMIT_S)
