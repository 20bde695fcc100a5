"""The host that must give something up when peers together hold too much."""

import asyncio
from dataclasses import dataclass

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.fair_shares import FairShares
from tests.gateway.transport import Clock


@dataclass(eq=False)
class Held:
    """A connection by what is counted for it."""

    counted_for: str | None
    counted_bytes: int = 0
    holds_since_s: float = 0.0
    peer: str = "a peer"
    logged: str = ""
    ended: str = ""

    def log_line(self, _level, message):
        self.logged = message

    def abort(self, why):
        self.ended = why


@pytest.fixture
def holding():
    """Run `scenario(shares, hold)`; `hold` lets connections hold bytes at a time, and returns who has given up."""

    def run(limit, scenario):
        async def within():
            shares, loop = FairShares(100, 100, limit), asyncio.get_running_loop()
            everyone = []

            def hold(connection, held_bytes, now_s=0.0):
                loop.now_s = now_s
                if connection not in shares.open:
                    everyone.append(connection)
                    shares.enter(connection)
                shares.hold(connection, held_bytes)
                return [each for each in everyone if each.ended]

            scenario(shares, hold)

        with asyncio.Runner(loop_factory=Clock) as runner:
            runner.run(within())

    return run


def test_the_host_that_holds_most_pays_not_the_one_that_comes_next(holding):
    def scenario(shares, hold):
        hoarders = [Held("evil") for _ in range(3)]
        for now_s, each in enumerate(hoarders):
            hold(each, 30, now_s)
        assert hold(Held("good"), 40, 3) == [hoarders[0]], "of equal ones the oldest"
        assert shares.held_bytes == 100

    holding(100, scenario)


def test_of_one_host_bytes_times_seconds_decide(holding):
    def scenario(_, hold):
        hoarder = Held("h")
        hold(hoarder, 50)
        hold(Held("h"), 1)
        assert hold(Held("h"), 60, 99) == [hoarder]

    holding(100, scenario)


def test_a_holding_is_as_old_as_since_it_had_nothing(holding):
    def scenario(_, hold):
        first, second = Held("h"), Held("h")
        hold(first, 5)
        hold(second, 4, 40)
        hold(first, 0, 50)
        hold(first, 6, 50)
        assert hold(second, 6, 60) == [second]

    holding(10, scenario)


def test_what_a_load_balancers_connection_holds_goes_over_to_the_peer_behind_it(holding):
    def scenario(shares, hold):
        behind, other = Held(None), Held("other")
        hold(behind, 7)
        shares.name(behind, "peer")
        assert hold(behind, 8) == []
        assert hold(other, 3) == [behind]
        assert (behind.counted_for, shares.held_bytes) == ("peer", 3)

    holding(10, scenario)


async def test_the_host_with_most_silent_connections_makes_room_and_without_any_a_new_one_is_refused():
    shares = FairShares(4, 3, 100)
    few, *many = (Held(host) for host in ("few", "many", "many", "many"))
    for each in (few, *many):
        shares.enter(each)
    shares.spoke(many[0])
    shares.enter(Held("new"))
    assert (many[1].ended, many[1] in shares.open) == ("it has sent nothing, and a new one needs room", False)
    for each in list(shares.open):
        shares.spoke(each)
    with pytest.raises(NamesrvError, match=r"over 4 connections of all peers: .* maxConnections"):
        shares.enter(Held("newer"))


async def test_connections_of_one_host_are_limited_and_others_come_in():
    shares, first = FairShares(9, 1, 100), Held("evil")
    shares.enter(first)
    shares.spoke(first)
    with pytest.raises(NamesrvError, match=r"over 1 connections of evil: .* maxConnectionsPerAddress"):
        shares.enter(Held("evil"))
    shares.enter(Held("good"))
