"""A moment whose snapshot is kept is answered in full after Delta has let the versions of its tables go."""

import pytest

from namesrv_stream.history.analysis import ask
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.root import HOUR_MS, Root
from tests.cli.registry import PublishedRegistry
from tests.clock import now_ms
from tests.console.background import BackgroundConsole
from tests.console.conftest import A, B, C, Client

PATHS = ["overview", "topics", "topics/T", "brokers", "brokers/broker-a", "clusters", "events", "why/broker-a", "why/T"]
PATHS += ["why/T?topic=true", "churn", "timeline?since=7d", "events?topic=T", "diff?from=2"]


@pytest.fixture
def registry(tmp_path):
    """Epoch 2 has broker-a, in 3 broker-a is down; hours later broker-b comes, and is down too."""
    registry = PublishedRegistry(str(tmp_path / "registry"), now_ms() - 4 * HOUR_MS)
    registry.register(A, "c1", "broker-a", topics=("T",))
    registry.now_ms += HOUR_MS
    registry.expire(A)
    registry.now_ms += 3 * HOUR_MS
    registry.register(B, "c1", "broker-b", topics=("U",))
    registry.register(C, "c1", "broker-c", topics=("U",))
    registry.expire(B)
    return registry


def test_a_kept_moment_is_answered_as_before_once_its_versions_are_gone(registry, settings):
    with BackgroundConsole(settings()) as console:
        client = Client(console.url)
        before = {path: client.get(asked(path)).json for path in PATHS}
    views = ask(registry.root, "FROM topic_state", epoch=3).to_pylist()
    maintain(None, Root(registry.root), exact_ms=60_000)
    with BackgroundConsole(settings()) as console:
        client = Client(console.url)
        assert {path: client.get(asked(path)).json for path in PATHS} == before
    assert ask(registry.root, "FROM topic_state", epoch=3).to_pylist() == views
    assert "down" in before["overview"]["verdict"]["text"]


def test_a_page_of_snapshots_leads_to_those_that_are_not_kept(registry, settings):
    maintain(None, Root(registry.root), exact_ms=60_000)
    with BackgroundConsole(settings()) as console:
        pages, epoch = [], 6
        while epoch is not None:
            page = Client(console.url).get(f"/v1/snapshots?limit=2&epoch={epoch}").json
            pages += [(each["epoch"], each.get("isWhole", True)) for each in page["snapshots"]]
            epoch = page["next"]
    assert [epoch for epoch, _ in pages] == [6, 5, 4, 3, 2, 1]
    assert {is_whole for _, is_whole in pages} == {True, False}


def asked(path):
    return f"/v1/{path}{'&' if '?' in path else '?'}epoch=3"
