"""One address's lease, to the millisecond."""

import pytest

from namesrv_stream.rules.lease import ClockJump, Identity, Sign, after_signs, after_time, log_order

T0 = 1_700_000_000_000
TIMEOUT_MS = 120_000
NO_GRACE = ClockJump(grace_ms=0)
A, MOVED = Identity("c1", "broker-a", 0), Identity("c1", "broker-b", 0)


def sign(kind, at_ms, channel=None, identity=None, timeout_ms=TIMEOUT_MS, offset=None):
    is_registration = kind == "REGISTER_BROKER"
    return Sign(
        kind=kind,
        event_time_ms=T0 + at_ms,
        partition=0,
        offset=at_ms if offset is None else offset,
        channel_id=channel,
        identity=(identity or A) if is_registration else None,
        timeout_ms=timeout_ms if is_registration else 0,
    )


def register(at_ms, **fields):
    return sign("REGISTER_BROKER", at_ms, **fields)


def heartbeat(at_ms, **fields):
    return sign("BROKER_HEARTBEAT", at_ms, **fields)


def unregister(at_ms):
    return sign("UNREGISTER_BROKER", at_ms)


def closed(at_ms, channel):
    return sign("CHANNEL_CLOSED", at_ms, channel=channel)


def after(*signs, jump=NO_GRACE):
    return after_signs(None, signs, jump)


def kinds(events):
    return [event.kind for event in events]


@pytest.mark.parametrize(("silence_ms", "expected"), [(TIMEOUT_MS, []), (TIMEOUT_MS + 1, ["EXPIRED"])])
def test_l1_alive_at_the_deadline_and_gone_a_millisecond_later(silence_ms, expected):
    state, _ = after(register(0))
    _, events = after_time(state, T0 + silence_ms, NO_GRACE)
    assert kinds(events) == expected


@pytest.mark.parametrize(("gap_ms", "expected"), [(TIMEOUT_MS, ["SEEN"]), (TIMEOUT_MS + 1, ["REGISTERED", "EXPIRED"])])
def test_e6_a_gap_inside_a_batch_ends_the_lease_at_its_deadline(gap_ms, expected):
    _, events = after(register(0), heartbeat(gap_ms))
    assert kinds(events)[-len(expected) :] == expected
    if "EXPIRED" in expected:
        assert events[-1].event_time_ms == T0 + TIMEOUT_MS + 1
        assert events[-1].last_heard_ms == T0


def test_l1_a_broker_s_own_timeout_counts_and_is_not_remembered():
    state, _ = after(register(0, timeout_ms=10_000), register(5_000))
    assert state.lease.deadline_ms == T0 + 5_000 + TIMEOUT_MS


@pytest.mark.parametrize("said", [heartbeat(1), unregister(1), closed(1, "x")])
def test_l2_d4_what_an_unknown_address_says_makes_no_state(said):
    assert after(said) == (None, [])


def test_e1_records_of_a_batch_are_applied_by_time_and_then_offset():
    state, events = after(unregister(2), register(0), heartbeat(1))
    assert state.lease is None
    assert kinds(events) == ["REGISTERED", "UNREGISTERED"]
    state, _ = after(register(7, offset=2), sign("UNREGISTER_BROKER", 7, offset=1))
    assert state.lease is not None


@pytest.mark.parametrize("late", [register(3), heartbeat(3), unregister(3)])
def test_d8_a_record_older_than_one_applied_changes_nothing(late):
    state, _ = after(register(0), heartbeat(5))
    assert after_signs(state, [late], NO_GRACE) == (state, [])


def test_d8_holds_after_the_lease_has_ended():
    state, _ = after(register(0), unregister(5))
    assert after_signs(state, [register(4)], NO_GRACE) == (state, [])
    assert kinds(after_signs(state, [register(5)], NO_GRACE)[1]) == ["REGISTERED"]


def test_d8_a_record_without_effect_does_not_count():
    state, _ = after(register(0), unregister(5))
    state, _ = after_signs(state, [heartbeat(9)], NO_GRACE)
    assert kinds(after_signs(state, [register(6)], NO_GRACE)[1]) == ["REGISTERED"]


def test_l6_the_lease_ends_with_its_last_connection_only():
    state, _ = after(register(0, channel="g1#1"), heartbeat(1, channel="g2#1"))
    state, events = after_signs(state, [closed(2, "g1#1")], NO_GRACE)
    assert (kinds(events), state.lease is not None) == ([], True)
    state, events = after_signs(state, [closed(3, "g2#1")], NO_GRACE)
    assert (kinds(events), state.lease) == (["CHANNEL_CLOSED"], None)


def test_l6_a_connection_that_is_not_the_lease_s_changes_nothing():
    state, _ = after(register(0, channel="g1#1"))
    assert after_signs(state, [closed(2, "g1#0")], NO_GRACE) == (state, [])


@pytest.mark.parametrize(("at_ms", "ends"), [(TIMEOUT_MS, False), (TIMEOUT_MS + 1, True)])
def test_l6_a_connection_not_heard_for_the_timeout_no_longer_counts(at_ms, ends):
    state, _ = after(register(0, channel="old"), heartbeat(100_000, channel="new"))
    state, _ = after_signs(state, [closed(at_ms, "new")], NO_GRACE)
    assert (state.lease is None) == ends


def test_d1_a_move_begins_the_lease_and_its_connections_anew_and_another_id_does_not():
    state, _ = after(register(0, channel="a"), register(5, channel="b", identity=A._replace(broker_id=1)))
    assert (state.lease.began_at_ms, set(state.lease.channels)) == (T0, {"a", "b"})
    state, _ = after_signs(state, [register(9, channel="b", identity=MOVED)], NO_GRACE)
    assert (state.lease.began_at_ms, set(state.lease.channels)) == (T0 + 9, {"b"})


def test_d9_time_that_jumps_past_a_deadline_gives_grace_once():
    jump = ClockJump(limit_ms=15_000, grace_ms=60_000)
    state, _ = after(register(0), jump=jump)
    now_ms = T0 + TIMEOUT_MS + 1 + 15_001
    state, events = after_time(state, now_ms, jump)
    assert (events, state.lease.deadline_ms) == ([], now_ms + 60_000)
    assert after_time(state, now_ms + 60_000, jump) == (state, [])
    _, events = after_time(state, now_ms + 600_000, jump)
    assert kinds(events) == ["EXPIRED"]


def test_d9_a_timer_that_is_late_by_no_more_than_the_limit_ends_the_lease():
    jump = ClockJump(limit_ms=15_000, grace_ms=60_000)
    state, _ = after(register(0), jump=jump)
    _, events = after_time(state, T0 + TIMEOUT_MS + 1 + 15_000, jump)
    assert kinds(events) == ["EXPIRED"]


def test_d9_with_the_grace_on_a_gap_alone_ends_nothing_and_a_sign_of_life_ends_the_grace():
    jump = ClockJump()
    state, events = after(register(0), heartbeat(600_000), jump=jump)
    assert kinds(events) == ["REGISTERED", "SEEN"]
    assert state.lease.deadline_ms == T0 + 600_000 + TIMEOUT_MS


def test_one_seen_a_batch_and_none_where_something_newer_was_said():
    assert kinds(after(register(0), heartbeat(1), heartbeat(2))[1]) == ["REGISTERED", "SEEN"]
    assert kinds(after(register(0), heartbeat(1), register(2))[1]) == ["REGISTERED", "REGISTERED"]


def test_an_end_tells_when_the_address_was_last_heard_and_since_when_it_lived():
    _, events = after(register(3), heartbeat(8), unregister(9))
    assert (events[-1].last_heard_ms, events[-1].began_at_ms) == (T0 + 8, T0 + 3)


def test_d5_expiries_of_a_millisecond_come_before_its_records_and_by_address():
    places = [(5, 0, 7, "a"), (5, -1, -1, "z"), (5, 0, 6, "b"), (5, -1, -1, "c"), (4, 0, 9, "d")]
    assert [place[3] for place in sorted(places, key=lambda place: log_order(*place))] == ["d", "c", "z", "b", "a"]
