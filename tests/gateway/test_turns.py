"""The share of a scarce resource that one host may have, beside others and alone."""

import asyncio

import pytest

from namesrv_stream.gateway import fair_shares as turns_module
from namesrv_stream.gateway.fair_shares import (
    BURST_S,
    HEAVY_SHARE,
    HOST_SHARE,
    MOMENT_S,
    HeavyTurns,
    LoopTime,
    Share,
    Turns,
)


def test_a_host_may_have_as_much_as_is_left_free():
    share = Share(100)
    assert [share.has_room("a", amount) for amount in (100, 101)] == [True, False]
    share.take("a", 50)
    assert not share.has_room("a", 1)
    assert [share.has_room("b", amount) for amount in (50, 51)] == [True, False]
    share.give_back("a", 50)
    assert share.has_room("a", 100)


def test_a_host_alone_has_the_whole_event_loop():
    loop_time = LoopTime()
    assert loop_time.spend("a", 0.0, 10 * BURST_S) is None


def test_beside_others_a_host_that_has_had_its_share_waits_until_it_has_worked_it_off():
    loop_time = LoopTime()
    loop_time.spend("good", 0.0, 0.0001)
    assert loop_time.spend("evil", 0.0, HOST_SHARE * BURST_S) is None
    assert loop_time.spend("evil", 0.0, HOST_SHARE * 0.007) == pytest.approx(0.007)
    assert loop_time.wait_s("evil", 0.004) == pytest.approx(0.003)
    assert loop_time.spend("good", 0.004, 0.0001) is None
    assert loop_time.wait_s("evil", 0.0071) is None


def test_a_debt_is_not_forgotten_when_some_time_has_passed():
    loop_time = LoopTime()
    loop_time.spend("good", 0.0, 0.0001)
    loop_time.spend("evil", 0.0, HOST_SHARE * 10 * BURST_S)
    loop_time.spend("good", 5 * BURST_S, 0.0001)
    assert loop_time.wait_s("evil", 5 * BURST_S) == pytest.approx(4 * BURST_S)


def test_the_rush_of_a_host_that_was_alone_is_soon_forgotten():
    loop_time = LoopTime()
    for _ in range(1_000):
        assert loop_time.spend("early", 0.0, 0.1) is None
    loop_time.spend("late", 0.0, 0.0001)
    wait_s = loop_time.wait_s("early", 0.0)
    assert wait_s is not None
    assert wait_s < 1


def test_hosts_that_take_more_than_a_moment_have_a_share_together():
    loop_time = LoopTime()
    taken_s, hosts = 0.9 * HOST_SHARE * BURST_S, 0
    while loop_time.spend(f"evil-{hosts}", 0.0, taken_s) is None:
        hosts += 1
    assert hosts == int(HEAVY_SHARE * BURST_S / taken_s)
    assert loop_time.spend("good", 0.0, MOMENT_S) is None


def test_one_heavy_connection_works_in_a_round_of_the_loop_and_the_hosts_in_turn():
    async def scenario():
        loop, rounds, worked = asyncio.get_running_loop(), [0], []

        def count():
            rounds[0] += 1
            loop.call_soon(count)

        def work(name):
            worked.append((name, rounds[0]))
            if name == "a":
                turns.enter("one", lambda: work("again"))

        turns = HeavyTurns(loop)
        count()
        for host, name in (("one", "a"), ("one", "b"), ("two", "c")):
            turns.enter(host, lambda name=name: work(name))
        async with asyncio.timeout(30):
            while len(worked) < 4:
                await asyncio.sleep(0)
        assert [name for name, _ in worked] == ["a", "c", "b", "again"]
        assert len({number for _, number in worked}) == 4

    asyncio.run(scenario())


def test_an_error_in_a_heavy_turn_keeps_no_other_from_its_turn():
    async def scenario():
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda *_: None)
        turns = HeavyTurns(loop)
        turns.enter("one", lambda: 1 / 0)
        turns.enter("one", done.set)
        async with asyncio.timeout(30):
            await done.wait()

    asyncio.run(scenario())


def test_a_host_whose_turn_was_long_rests_and_others_do_not_wait_for_it(monkeypatch):
    monkeypatch.setattr(turns_module, "SHORT_TURN_S", -1)
    monkeypatch.setattr(turns_module, "REST_TIMES", 10**9)

    async def scenario():
        turns = Turns(1)
        async with turns.turn("evil", 30):
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with turns.turn("evil", 0.05):
                pass
        async with turns.turn("good", 30):
            pass

    asyncio.run(scenario())
