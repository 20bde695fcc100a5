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
from tests.data import data
from tests.timed_log import step_of

LEASE_S, HELD_S = 120, 600
CASES = data(__file__, "guard.yaml")
ENDS_AND_SIGNS = {
    "heartbeat": lambda address: BrokerHeartbeat(broker_addr=address),
    "unregister": lambda address: UnregisterBroker(broker_addr=address),
    "disconnect": lambda address: ChannelClosed(broker_addr=address, channel_id="g/1"),
}


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

    def send(self, *names_and_what, **fields):
        *names, what = names_and_what
        for number in (name[1:] for name in names):
            if what != "registers":
                self.apply(ENDS_AND_SIGNS[what](f"b:{number}"))
            elif "as" in fields:
                self.apply(registration(f"b:{number}", broker_name=f"b-{fields['as'][1:]}"))
            else:
                self.register(number, **({"data_version": DataVersion(**fields)} if fields else {}))

    def play(self, step):
        """Do what a step says. Return types of lines with their brokers, who lives, and who is suspect."""
        heard = [name[1:] for act in step.acts if act.words[-1] == "heard" for name in act.words[:-1]]
        for act in (act for act in step.acts if act.words[-1] != "heard"):
            if act.words == ["ticks"]:
                self.tick(act.at_ms // 1_000, *heard)
            elif act.words == ["LIFT_EXPIRY_GUARD"]:
                self.apply(LiftExpiryGuard())
            else:
                self.send(*act.words, **act.fields)
        found = {}
        for line in self.events():
            found.setdefault(line.type, []).extend([f"b{line.broker_addr[2:]}"] if line.broker_addr else [])
        assert self.registry.suspect_count == len(self.suspects)
        found["alive"] = [f"b{number}" for number in self.alive]
        if self.suspects:
            found["suspect"] = [f"b{number}" for number in self.suspects]
        return [[what, *brokers] for what, brokers in found.items()]


@pytest.mark.parametrize("rule", CASES)
def test_each_case_of_the_guard_is_as_it_says(rule):
    cluster = Cluster()
    cluster.events()
    for step in map(step_of, CASES[rule]):
        assert cluster.play(step) == step.facts, step


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
    assert lines[0].text == "b-0 master (b:0) is suspect: the mass-expiry guard keeps it in the routes"
