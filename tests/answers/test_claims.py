"""What a broker's configuration lies about is told: an identity that two claim, an address that others cannot use."""

import pytest

from namesrv_stream.answers.broker_page import group_text
from namesrv_stream.answers.claims import claims, config_warnings, in_vain
from namesrv_stream.answers.verdict import verdict_of
from namesrv_stream.rules.record_types import BrokerHeartbeat
from namesrv_stream.tables.registry import Registry
from tests.registry import PublishedRegistry
from tests.tables.rows import NOW

A, B = "10.7.0.1:10911", "10.7.0.2:10911"
T0 = NOW - 3_600_000


@pytest.fixture
def registry(root):
    return PublishedRegistry(root, T0)


def newest(registry):
    return Registry(registry.root).newest()


def test_two_brokers_that_claim_one_identity_are_told_within_a_minute_until_one_is_gone(
    registry,
):
    begun_ms = registry.now_ms
    while not claims(newest(registry) if registry.rules.view().live else register(registry, A)):
        registry.now_ms += 15_000
        register(registry, A if registry.rules.view().brokers["broker-a"][0].broker_addr == B else B)
        assert registry.now_ms - begun_ms <= 60_000
    told = verdict_of(newest(registry))
    text = f"broker-a master is claimed in turn by {A} and {B}"
    assert (told.level, told.headline, told.config_warnings) == ("warning", "wrong configuration", [text])
    assert told.text.endswith(f"; {text}.")
    assert group_text(newest(registry), "broker-a").endswith(f"; {text}")
    registry.end(B, "UNREGISTERED")
    registry.publish()
    assert verdict_of(newest(registry)).config_warnings == []


def register(registry, address):
    registry.register(address, "c1", "broker-a", topics=("T",))
    return newest(registry)


def test_a_slave_that_is_promoted_and_the_masters_return_are_no_claim(registry):
    register(registry, A)
    registry.register(B, "c1", "broker-a", broker_id=1)
    registry.now_ms += 15_000
    register(registry, B)
    registry.now_ms += 15_000
    register(registry, A)
    assert claims(newest(registry)) == []


def test_changes_that_are_over_are_no_claim(registry):
    for address in (A, B, A, B, A):
        register(registry, address)
        registry.now_ms += 1_000
    assert len(claims(newest(registry))) == 1
    for _ in range(5):
        registry.now_ms += 30_000
        for address in (A, B):
            registry.command(BrokerHeartbeat(broker_addr=address), publish=False)
    registry.publish()
    assert claims(newest(registry)) == []


@pytest.mark.parametrize(("address", "peer", "is_told"), [
    ("127.0.0.1:10911", "@10.0.0.5:4711", True),
    ("localhost:10911", "ann@10.0.0.5:4711", True),
    ("127.0.0.1:10911", "@127.0.0.1:4711", False),
    ("127.0.0.1:10911", None, False),
    ("10.0.0.1:10911", "@10.0.0.5:4711", False),
])  # fmt: skip
def test_an_address_that_others_cannot_use_is_told_if_its_broker_connects_from_another_machine(
    registry, address, peer, is_told
):
    registry.register(address, "c1", "broker-a", requested_by=peer)
    text = f"broker-a master announces {address} and connects from 10.0.0.5:4711: set brokerIP1"
    assert list(config_warnings(newest(registry))) == ([text] if is_told else [])
    assert [each.address for each in in_vain(newest(registry))] == ([address] if is_told else [])


def test_several_are_counted_in_the_health_line_and_all_in_the_answer(registry):
    for number in range(3):
        registry.register(
            f"127.0.0.1:{number + 1}", "c1", f"broker-{number}", requested_by="@10.0.0.5:1", publish=False
        )
    registry.publish()
    told = verdict_of(newest(registry))
    assert told.text.endswith("set brokerIP1; 2 more such.")
    assert len(told.config_warnings) == 3


def test_the_address_of_one_that_is_gone_is_not_held_against_another(registry):
    registry.register("127.0.0.1:1", "c1", "broker-a", requested_by="@10.0.0.5:1")
    registry.end("127.0.0.1:1", "UNREGISTERED")
    registry.register("127.0.0.1:1", "c1", "broker-b")
    assert in_vain(newest(registry)) == []
