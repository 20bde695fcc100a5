"""What one host may have of what is scarce: memory and connections of the gateway, and the time of its loop."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway import fair_shares as shares_module
from namesrv_stream.gateway.fair_shares import HEAVY_HOST_SHARE, MOMENT_S, FairShares, LoopTime, Share, Turns
from tests.data import data
from tests.gateway.transport import Clock

HOLDINGS = data(__file__, "cases/holdings.yaml")


@dataclass(eq=False)
class Sharer:
    """A connection by what is counted for it, which does `work` in its turn."""

    counted_for: str | None
    work: Any = None
    counted_bytes: int = 0
    holds_since_s: float = 0.0
    peer: str = "a peer"
    ended: str = ""

    def log_line(self, _level, _message):
        pass

    def on_turn(self):
        self.work(self)

    def abort(self, why):
        self.ended = why


def run(scenario):
    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(scenario)


@pytest.mark.parametrize(("limit", "steps", "gives_up", "left"), HOLDINGS.values(), ids=HOLDINGS)
def test_over_the_limit_of_all_one_connection_gives_up_what_it_holds(limit, steps, gives_up, left):
    async def scenario():
        shares, loop, connections = FairShares(100, 100, limit), asyncio.get_running_loop(), {}
        for name, held_bytes, now_s in steps:
            loop.now_s = now_s
            assert not any(each.ended for each in connections.values())
            if name not in connections:
                connections[name] = Sharer(name.split()[0])
                shares.enter(connections[name])
            shares.hold(connections[name], held_bytes)
        assert [who for who, each in connections.items() if each.ended] == [gives_up]
        assert shares.held_bytes == left

    run(scenario())


async def test_what_a_load_balancers_connection_holds_goes_over_to_the_peer_behind_it():
    shares, behind, other = FairShares(100, 100, 10), Sharer(None), Sharer("other")
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
    few, *many = (Sharer(host) for host in ("few", "many", "many", "many"))
    for each in (few, *many):
        shares.enter(each)
    shares.spoke(many[0])
    shares.enter(Sharer("new"))
    assert (many[1].ended, many[1] in shares.open) == (
        "it has sent nothing, and a new connection needs its place",
        False,
    )
    for each in list(shares.open):
        shares.spoke(each)
    with pytest.raises(NamesrvError, match=r"over 4 connections of all peers\. .* maxConnections"):
        shares.enter(Sharer("newer"))


async def test_connections_of_one_host_are_limited_and_others_come_in():
    shares, first = FairShares(9, 1, 100), Sharer("evil")
    shares.enter(first)
    shares.spoke(first)
    with pytest.raises(NamesrvError, match=r"over 1 connections of evil\. .* maxConnectionsPerAddress"):
        shares.enter(Sharer("evil"))
    shares.enter(Sharer("good"))


def test_a_host_may_have_as_much_as_is_left_free():
    share = Share(100)
    assert [share.has_room("a", amount) for amount in (100, 101)] == [True, False]
    share.take("a", 50)
    assert not share.has_room("a", 1)
    assert [share.has_room("b", amount) for amount in (50, 51)] == [True, False]
    share.give_back("a", 50)
    assert share.has_room("a", 100)


def test_beside_others_a_host_is_heavy_until_it_has_worked_its_time_off():
    loop_time = LoopTime()
    for _ in range(9):
        loop_time.spend("alone", -1.0, 1.0)
    assert not loop_time.is_heavy("alone", -1.0)
    loop_time.spend("good", 0.0, 0.0001)
    assert not loop_time.is_heavy("alone", 0.0), "its rush is soon forgotten"
    loop_time.spend("evil", 0.0, MOMENT_S)
    assert not loop_time.is_heavy("evil", 0.0)
    loop_time.spend("evil", 0.0, MOMENT_S)
    over_s = MOMENT_S / HEAVY_HOST_SHARE
    assert [loop_time.is_heavy("evil", now_s) for now_s in (0.0, 0.99 * over_s, 1.01 * over_s)] == [True, True, False]
    assert not loop_time.is_heavy("good", 0.0)


def in_heavy_turns(worked, count, enter, round_s=0.001):
    """Let heavy hosts `one` and `two` work until `count` turns are in `worked`."""

    async def scenario():
        loop, shares = asyncio.get_running_loop(), FairShares(100, 100, 100)
        loop.set_exception_handler(lambda *_: None)

        def tick():
            loop.now_s += round_s
            loop.call_soon(tick)

        for host in ("one", "two"):
            shares.loop_time.spend(host, 0.0, 50 * MOMENT_S)
        enter(shares)
        tick()
        async with asyncio.timeout(30):
            while len(worked) < count:
                await asyncio.sleep(0)

    run(scenario())


@pytest.mark.parametrize(("hosts", "share"), [("a", 0.2), ("ab", 0.4), ("abc", 0.5), ("abcdef", 0.5)])
@pytest.mark.parametrize(("turn_s", "turns"), [(0.007, 3), (0.0003, 50)])
def test_a_heavy_host_has_a_fifth_of_the_time_and_all_together_half(turn_s, turns, hosts, share):
    worked, order = [], []

    def enter(shares):
        def work(connection):
            worked.append(asyncio.get_running_loop().now_s)
            order.append(connection.counted_for)
            shares.spend(connection, turn_s)
            shares.rest(connection)

        for host in hosts:
            shares.loop_time.spend(host, 0.0, 50 * MOMENT_S)
            for _ in range(2):
                shares.rest(Sharer(host, work))

    in_heavy_turns(worked, turns, enter, round_s=turn_s / 100)
    rested_s = (turns - 1) * turn_s * (1 / share - 1)
    assert order[: len(hosts)] == [*hosts][:turns], "each in turn, however many connections it has"
    assert rested_s - 0.001 <= worked[-1] - worked[0] <= 1.1 * rested_s


def test_an_error_in_a_heavy_turn_keeps_no_other_from_its_turn():
    worked = []

    def enter(shares):
        shares.rest(Sharer("one", lambda _: 1 / 0))
        shares.rest(Sharer("one", worked.append))

    in_heavy_turns(worked, 1, enter)


async def test_a_host_whose_turn_was_long_rests_and_others_do_not_wait_for_it(monkeypatch):
    monkeypatch.setattr(shares_module, "SHORT_TURN_S", -1)
    monkeypatch.setattr(shares_module, "REST_TIMES", 10**9)
    turns = Turns(1)
    async with turns.turn("evil", 30):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with turns.turn("evil", 0.05):
            pass
    async with turns.turn("good", 30):
        pass
