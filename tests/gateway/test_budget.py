"""The host that must give something up when peers together hold too much."""

import asyncio
from dataclasses import dataclass

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.fair_shares import FairShares
from tests.data import data
from tests.gateway.transport import Clock

HOLDINGS = data(__file__, "cases/holdings.yaml")


@dataclass(eq=False)
class Held:
    """A connection by what is counted for it."""

    counted_for: str | None
    counted_bytes: int = 0
    holds_since_s: float = 0.0
    peer: str = "a peer"
    ended: str = ""

    def log_line(self, _level, _message):
        pass

    def abort(self, why):
        self.ended = why


@pytest.mark.parametrize(("limit", "steps", "gives_up", "left"), HOLDINGS.values(), ids=HOLDINGS)
def test_over_the_limit_of_all_one_connection_gives_up_what_it_holds(limit, steps, gives_up, left):
    async def scenario():
        shares, loop, connections = FairShares(100, 100, limit), asyncio.get_running_loop(), {}
        for name, held_bytes, now_s in steps:
            loop.now_s = now_s
            assert not any(each.ended for each in connections.values())
            if name not in connections:
                connections[name] = Held(name.split()[0])
                shares.enter(connections[name])
            shares.hold(connections[name], held_bytes)
        assert [who for who, each in connections.items() if each.ended] == [gives_up]
        assert shares.held_bytes == left

    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(scenario())


async def test_what_a_load_balancers_connection_holds_goes_over_to_the_peer_behind_it():
    shares, behind, other = FairShares(100, 100, 10), Held(None), Held("other")
    shares.enter(behind)
    shares.hold(behind, 7)
    shares.name(behind, "peer")
    shares.hold(behind, 8)
    assert not behind.ended
    shares.enter(other)
    shares.hold(other, 3)
    assert (behind.ended != "", behind.counted_for, shares.held_bytes) == (True, "peer", 3)


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
