"""An operator says of a problem that it is known: until when, who and why are told with it, and its level stays."""

import pytest

from namesrv_stream.answers.acknowledgements import NAMESPACE, acknowledgement_value
from namesrv_stream.answers.verdict import verdict_of
from namesrv_stream.rules.record_types import DeleteKvConfig, PutKvConfig
from namesrv_stream.tables.registry import Registry
from tests.registry import PublishedRegistry

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
T0 = 1_795_683_180_000
HOUR_MS = 3_600_000


@pytest.fixture
def registry(tmp_path):
    """Of two brokers A is down."""
    registry = PublishedRegistry(str(tmp_path / "registry"), T0)
    registry.register(A, "c1", "broker-a", zone_name="z1")
    registry.register(B, "c1", "broker-b", zone_name="z2")
    registry.expire(A)
    return registry


def verdict(registry):
    return verdict_of(Registry(registry.root).newest())


def put(registry, value, by="ann", reason="drill"):
    [cause] = verdict(registry).causes
    registry.command(PutKvConfig(namespace=NAMESPACE, key=cause.id, value=value, requested_by=by, reason=reason))


def test_it_is_told_behind_the_problem_with_who_until_when_and_why_and_the_level_stays(registry):
    before = verdict(registry)
    put(registry, acknowledgement_value(T0 + HOUR_MS))
    found = verdict(registry)
    [cause] = found.causes
    assert (cause.acknowledged.until, cause.acknowledged.by, cause.acknowledged.reason) == (
        T0 + HOUR_MS,
        "ann",
        "drill",
    )
    assert (found.level, found.is_acknowledged, before.is_acknowledged) == ("critical", True, False)
    told = f"{cause.text} (acknowledged by ann until 2026-11-26 09:53:00 UTC, drill)"
    assert found.text == before.text.replace(cause.text, told)


@pytest.mark.parametrize(
    "value", [acknowledgement_value(T0), acknowledgement_value(T0 * 1_000), "drill", "{}", '{"until": "later"}']
)
def test_one_that_is_over_or_has_no_end_is_none(registry, value):
    put(registry, value)
    assert [each.acknowledged for each in verdict(registry).causes] == [None]


def test_the_newest_holds_until_it_is_deleted(registry):
    put(registry, acknowledgement_value(T0 + HOUR_MS))
    put(registry, acknowledgement_value(T0 + 2 * HOUR_MS), by="bob", reason="longer")
    [cause] = verdict(registry).causes
    assert (cause.acknowledged.until, cause.acknowledged.by) == (T0 + 2 * HOUR_MS, "bob")
    registry.command(DeleteKvConfig(namespace=NAMESPACE, key=cause.id))
    assert [each.acknowledged for each in verdict(registry).causes] == [None]


def test_all_causes_have_to_be_known_for_the_verdict_to_be(registry):
    put(registry, acknowledgement_value(T0 + HOUR_MS))
    registry.now_ms += 2 * 60_000
    registry.register("10.0.0.3:10911", "c1", "broker-c", zone_name="z3")
    registry.expire(B)
    found = verdict(registry)
    assert (len(found.causes), found.is_acknowledged) == (2, False)
    assert "broker-a master (acknowledged)" in found.text


def test_a_value_of_another_namespace_says_nothing_of_who_and_why(registry):
    put(registry, acknowledgement_value(T0 + HOUR_MS))
    [cause] = verdict(registry).causes
    registry.command(PutKvConfig(namespace="OTHER", key=cause.id, value=NAMESPACE, requested_by="eve", reason="x"))
    [cause] = verdict(registry).causes
    assert cause.acknowledged.by == "ann"
