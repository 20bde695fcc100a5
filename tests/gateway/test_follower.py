"""Snapshots without brokers: which of them a gateway serves in place of one with brokers."""

import shutil
from queue import Queue

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.gateway.follower import Follower
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER, LIVE, TOPIC
from namesrv_stream.tables.writer import RowChanges, RustWriter
from tests.clock import now_ms
from tests.registry import PublishedRegistry

LIMIT_S = 30


@pytest.fixture
def registry(tmp_path):
    registry = PublishedRegistry(str(tmp_path / "registry"), now_ms() - 60_000)
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("T",), publish=False)
    registry.register("10.0.0.2:10911", "c1", "broker-b", topics=("T",))
    return registry


@pytest.fixture
def served(registry):
    """The snapshots that a gateway serves, as they come."""
    snapshots = Queue()
    follower = Follower(Registry(registry.root), lambda served, *_: snapshots.put(served), lambda: None)
    follower.start()
    yield lambda: snapshots.get(timeout=LIMIT_S)
    follower.stop()


def up_to(served, epoch):
    while (found := served()).snapshot.epoch != epoch:
        pass
    return found


def empty_without_a_word(registry):
    """Publish empty tables, as no rule does."""
    publisher = Publisher.claim(RustWriter(Root(registry.root)), "faulty", registry.now_ms)
    keys = {spec.name: publisher.table(spec.name).select(spec.key) for spec in (BROKER, TOPIC, LIVE)}
    gone = {name: RowChanges(deletes=[tuple(row.values()) for row in rows.to_pylist()]) for name, rows in keys.items()}
    return publisher.publish(Batch(None, None, None, publisher.last.offsets, gone), registry.now_ms).epoch


def test_an_empty_registry_that_nobody_explains_is_not_served_but_no_lease_is_known(registry, served):
    assert len(served().live) == 2
    held = up_to(served, empty_without_a_word(registry))
    assert (sorted(held.brokers), list(held.queues)) == (["broker-a", "broker-b"], ["T"])
    assert dict(held.live) == {}, "so brokers register in full"


def test_a_registry_made_anew_is_served_once_it_has_brokers(registry, served, tmp_path):
    served()
    shutil.rmtree(registry.root)
    anew = PublishedRegistry(registry.root, registry.now_ms)
    assert sorted(up_to(served, 1).brokers) == ["broker-a", "broker-b"]
    epoch = anew.register("10.0.0.3:10911", "c1", "broker-c", topics=("U",)).epoch
    assert sorted(up_to(served, epoch).brokers) == ["broker-c"]


def test_brokers_that_left_one_by_one_are_gone(registry, served):
    served()
    registry.expire("10.0.0.1:10911", publish=False)
    last = registry.expire("10.0.0.2:10911").epoch
    assert dict(up_to(served, last).brokers) == {}


def test_a_person_may_empty_the_registry(registry, served):
    served()
    done = CliRunner().invoke(main, ["--root", registry.root, "repair", "--from-log", "--take-over", "--yes"])
    assert done.exit_code == 0, done.output
    epoch = int(done.stdout.split("snapshot ")[1].split()[0])
    assert dict(up_to(served, epoch).brokers) == {}
