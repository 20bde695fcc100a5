"""Two hosts that announce one address and one identity are told; who reconnects, or has two gateways, never is."""

from dataclasses import dataclass

import pytest

from namesrv_stream.gateway.shared_addresses import SharedAddresses

ADDRESS = "172.17.0.2:10911"


@dataclass
class Peer:
    host: str
    is_lost: bool = False

    @property
    def peer(self):
        return f"{self.host}:40000"


def warnings(speakers, caplog, every_ms=15_000):
    shared = SharedAddresses()
    for number, peer in enumerate(speakers):
        shared.note(ADDRESS, "broker-a master (172.17.0.2:10911)", peer, number * every_ms)
    return [record.getMessage() for record in caplog.records]


A, B = Peer("10.0.0.5"), Peer("10.0.0.6")


def test_two_hosts_that_speak_in_turn_are_told_with_both_peers_once_a_minute(caplog):
    assert warnings([A, B, A, B], caplog) == []
    found = warnings([A, B] * 5, caplog)
    assert len(found) == 2
    assert found[0].startswith("broker-a master (172.17.0.2:10911) is announced by two brokers in turn, at 10.0.0.")
    assert all("10.0.0.5:40000" in text and "10.0.0.6:40000" in text and "brokerIP1" in text for text in found)


@pytest.mark.parametrize(
    "speakers",
    [[A, A, A, A, A, A], [A, B, B, B, B, B], [A, Peer("10.0.0.5"), A, Peer("10.0.0.5"), A, A]],
    ids=["one connection", "another host from some time on", "two connections of one host"],
)
def test_these_are_not(caplog, speakers):
    assert warnings(speakers, caplog) == []


def test_a_broker_that_reconnects_from_another_host_again_and_again_is_not(caplog):
    speakers = [Peer("10.0.0.5", is_lost=True), Peer("10.0.0.6", is_lost=True)] * 5
    assert warnings(speakers, caplog) == []


def test_changes_that_are_minutes_apart_are_not(caplog):
    assert warnings([A, B] * 5, caplog, every_ms=120_000) == []


def test_a_forgotten_address_begins_anew(caplog):
    shared = SharedAddresses()
    for number, peer in enumerate([A, B] * 3):
        shared.note(ADDRESS, "broker-a master", peer, number)
        shared.forget(ADDRESS)
    assert caplog.records == []


def test_each_shared_address_is_told_by_itself(caplog):
    shared = SharedAddresses()
    for number in range(12):
        for address in ("x:1", "y:1"):
            shared.note(address, address, (A, B)[number % 2], number * 15_000)
    told = [record.getMessage().split()[0] for record in caplog.records]
    assert {"x:1", "y:1"} == set(told)
