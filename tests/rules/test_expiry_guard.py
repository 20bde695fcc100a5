"""The guard against mass expiry (D11): who is held, for how long, and what ends the suspicion."""

import pytest

from namesrv_stream.answers.broker_lines import broker_lines
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    ChannelClosed,
    DataVersion,
    LiftExpiryGuard,
    Scan,
    UnregisterBroker,
)
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from tests.build import registration

LEASE_S, HELD_S = 120, 600


class Cluster:
    """Ten brokers that register at second 0; a tick each second, as a gateway sends it."""

    def __init__(self, ratio=0.3, brokers=10):
        self.settings = NamesrvSettings(expiry_guard_ratio=ratio, expiry_guard_max_millis=1_000 * HELD_S)
        self.registry = RouteRegistry(self.settings)
        self._offset, self._second = 0, 0
        self.apply(Scan())
        self.register(*range(brokers))

    def apply(self, request):
        self._offset += 1
        self.registry.apply(request, LogPosition(1_000 * self._second, 0, self._offset))

    def register(self, *numbers, **fields):
        for number in numbers:
            self.apply(registration(f"b:{number}", broker_name=f"b-{number}", channel_id="g/1", **fields))

    def tick(self, until_s, *alive):
        """Ticks up to that second; the brokers `alive` speak every 30 s."""
        while self._second < until_s:
            self._second += 1
            if self._second % 30 == 0:
                for number in alive:
                    self.apply(BrokerHeartbeat(broker_addr=f"b:{number}", channel_id="g/1"))
            self.apply(Scan())

    @property
    def alive(self):
        return sorted(int(address[2:]) for address in self.registry.view().live)

    @property
    def suspects(self):
        live = self.registry.view().live.values()
        return sorted(int(lease.broker_addr[2:]) for lease in live if lease.suspect_since is not None)

    def events(self):
        return self.registry.take_changes().events


@pytest.mark.parametrize(("silent", "is_held"), [(range(3), False), (range(4), True), (range(10), True)])
def test_more_than_the_share_of_late_brokers_is_held_and_no_smaller_share(silent, is_held):
    cluster = Cluster(ratio=0.3)
    cluster.tick(LEASE_S + 1, *(number for number in range(10) if number not in silent))
    assert cluster.suspects == (list(silent) if is_held else [])
    assert cluster.alive == [number for number in range(10) if is_held or number not in silent]


def test_a_held_broker_is_let_go_at_the_first_tick_after_the_limit():
    cluster = Cluster()
    cluster.tick(LEASE_S + HELD_S)
    assert cluster.alive == list(range(10))
    cluster.tick(LEASE_S + 1 + HELD_S)
    assert cluster.alive == []
    assert cluster.registry.suspect_count == 0
    assert {event.type for event in cluster.events()} >= {"EXPIRED"}


@pytest.mark.parametrize("sign", ["heartbeat", "registration"])
def test_a_sign_of_life_ends_the_suspicion_and_the_lease_lasts_its_timeout_again(sign):
    cluster = Cluster()
    cluster.tick(LEASE_S + 1)
    if sign == "heartbeat":
        cluster.apply(BrokerHeartbeat(broker_addr="b:4"))
    else:
        cluster.register(4)
    assert cluster.suspects == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    cleared = cluster.events()[-1]
    assert (cleared.type, cleared.broker_addr, len(cleared.changes)) == ("CHANGED", "b:4", 1)
    cluster.tick(2 * LEASE_S + 1)
    assert 4 not in cluster.suspects
    cluster.tick(2 * LEASE_S + 2)
    assert 4 in cluster.suspects, "nine late brokers of ten: the guard still holds"


def test_ends_in_order_and_lost_connections_end_a_held_lease_at_once():
    cluster = Cluster()
    cluster.tick(LEASE_S + 1)
    cluster.apply(UnregisterBroker(broker_addr="b:0"))
    cluster.apply(ChannelClosed(broker_addr="b:1", channel_id="g/1"))
    assert cluster.alive == cluster.suspects == list(range(2, 10))


def test_a_held_broker_that_is_refused_elsewhere_is_suspect_no_more():
    cluster = Cluster()
    cluster.tick(LEASE_S, 0)
    cluster.register(0, data_version=DataVersion(state_version=7))
    cluster.tick(LEASE_S + 1, 0)
    refused = registration("b:1", broker_name="b-0")
    cluster.apply(refused)
    assert cluster.suspects == list(range(2, 10))
    assert cluster.registry.suspect_count == 8


def test_brokers_that_leave_in_order_never_count():
    cluster = Cluster(ratio=0.3)
    for number in range(8):
        cluster.apply(UnregisterBroker(broker_addr=f"b:{number}"))
    cluster.tick(LEASE_S + 1, 8, 9)
    assert (cluster.alive, cluster.suspects) == ([8, 9], [])


def test_an_operator_lifts_the_guard_and_history_names_the_operator_and_each_broker():
    cluster = Cluster()
    cluster.tick(LEASE_S + 1, 9)
    cluster.events()
    cluster.apply(LiftExpiryGuard(requested_by="ann", reason="the hall burns"))
    assert (cluster.alive, cluster.suspects) == ([9], [])
    command, *ends = cluster.events()
    assert (command.type, command.requested_by, command.reason) == ("LIFT_EXPIRY_GUARD", "ann", "the hall burns")
    assert [(event.type, event.broker_addr) for event in ends] == [("EXPIRED", f"b:{number}") for number in range(9)]
    assert {event.offset for event in ends} == {command.offset}


def test_lifting_a_guard_that_holds_nobody_is_one_line_of_history():
    cluster = Cluster()
    cluster.events()
    cluster.apply(LiftExpiryGuard())
    assert [event.type for event in cluster.events()] == ["LIFT_EXPIRY_GUARD"]


def test_a_job_that_starts_without_the_guard_lets_held_brokers_go_at_the_next_tick():
    cluster = Cluster()
    cluster.tick(LEASE_S + 1)
    restarted = RouteRegistry(NamesrvSettings())
    restarted.load({"live": list(cluster.registry.view().live.values())}, cluster.registry.clock)
    restarted.apply(Scan(), LogPosition(1_000 * (LEASE_S + 2), 0, 999))
    assert restarted.lease_count == 0


def test_each_held_broker_is_a_warning_in_the_log():
    cluster = Cluster()
    cluster.events()
    cluster.tick(LEASE_S + 1)
    lines = broker_lines(cluster.events())
    assert [line.is_warning for line in lines] == [True] * 10
    assert lines[0].text == "b-0 0 (b:0) is suspect: the guard against mass expiry keeps it in the routes"
