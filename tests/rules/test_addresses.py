"""Addresses that a broker announces in vain: other machines cannot use them."""

import pytest

from namesrv_stream.rules.addresses import is_announced_in_vain, is_of_one_machine, is_of_some_machine

OF_ONE_MACHINE = [
    "127.0.0.1:1",
    "127.8.0.1:1",
    "0.0.0.0:1",
    "localhost:1",
    "LOCALHOST:1",
    "[::1]:1",
    "[::]:1",
    "169.254.1.2:1",
]
OF_ONE_MACHINE += [
    "[fe80::1]:1",
    "null:1",
    ":1",
    "10.0.0.1:0",
    "mq.example.org:0",
    "10.0.0.1:00",
    "[::ffff:127.0.0.1]:1",
]
OF_ALL = ["10.0.0.1:1", "192.168.0.1:1", "mq.example.org:1", "[2001:db8::1]:1", "nullhost:1"]


@pytest.mark.parametrize("address", OF_ONE_MACHINE)
def test_these_are_of_no_use_to_others(address):
    assert is_of_one_machine(address)
    assert is_announced_in_vain(address, "10.0.0.5")
    assert is_announced_in_vain(address, "2001:db8::5")


@pytest.mark.parametrize("address", OF_ALL)
def test_these_are(address):
    assert not is_of_one_machine(address)
    assert not is_announced_in_vain(address, "10.0.0.5")


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.0.0.66", "::1", "::ffff:127.0.0.1", "localhost", "?"])
@pytest.mark.parametrize("address", OF_ONE_MACHINE)
def test_a_peer_on_the_gateways_own_machine_may_announce_them(address, peer):
    assert not is_announced_in_vain(address, peer)


def test_a_peer_that_has_the_announced_address_may():
    assert not is_announced_in_vain("169.254.1.2:10911", "169.254.1.2")


@pytest.mark.parametrize("address", ["null:1", ":1", "0.0.0.0:1", "[::]:1", "10.0.0.1:0", "10.0.0.1:x"])
def test_these_name_no_machine_at_all(address):
    assert not is_of_some_machine(address)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "10.0.0.1:1", "mq.example.org:1"])
def test_these_name_one(address):
    assert is_of_some_machine(address)
