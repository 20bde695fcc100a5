"""A fleet whose thread dies by what nobody foresaw."""

import pytest

from namesrv_stream.tools.fleet.plan import FleetPlan
from namesrv_stream.tools.fleet.player import Fleet
from tests.faulty import FaultyProducer, UnforeseenError

LIMIT_S = 30


def test_the_error_that_ended_a_fleet_is_raised_to_its_waiter():
    fleet = Fleet(FleetPlan(brokers=1, topics=1), FaultyProducer())
    fleet.start()
    with pytest.raises(UnforeseenError):
        fleet.wait(LIMIT_S)
