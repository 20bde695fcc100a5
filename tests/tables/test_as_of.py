"""The tables of any moment and any epoch are those that the rules had then, whichever snapshots are kept."""

import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.oracle import Oracle
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.rules.record_types import DeleteKvConfig, PutKvConfig
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.registry import Registry, open_tables
from namesrv_stream.tables.repair import planned
from namesrv_stream.tables.root import DAY_MS, HOUR_MS, Root
from namesrv_stream.tables.schemas import BROKER, ROUTE_TABLES, TOPIC
from namesrv_stream.tables.writer import RustWriter
from namesrv_stream.tools.backup_file import content_of
from namesrv_stream.tools.restore import of_backup, publish_repair, restore_content
from tests.random_logs import T0, logs
from tests.registry import PublishedRegistry
from tests.tables.lived import NO_SHRINKING, NOW, Lived, exact


def tables_at(root, **moment):
    """The tables as a reader of routes has them; Arrow tables of the moment have the same brokers and topics."""
    try:
        view = Registry(root).at(**moment)
        pinned = open_tables(root, moment.get("epoch"), moment.get("at_ms"))
        for spec in (BROKER, TOPIC):
            assert sorted(rows_from_arrow(spec, pinned[spec.name])) == sorted(view.rows(spec.name))
        return exact(view.routes)
    except NoSuchSnapshotError:
        return exact(Oracle(NamesrvSettings()).registry.view())


def check(log, cuts, gap_ms, moments):
    with tempfile.TemporaryDirectory() as root:
        lived = Lived(root, log, cuts, gap_ms)
        asked = [*(T0 + at for at in moments), *lived.line_times[::5]]
        known = {at: tables_at(lived.root, at_ms=at) for at in asked}
        for at, found in known.items():
            assert found == (lived.at(at) or found)
        check_epochs(lived)
        maintain(lived.root)
        check_epochs(lived)
        assert {at: tables_at(lived.root, at_ms=at) for at in asked} == known


def check_epochs(lived):
    assert {epoch: tables_at(lived.root, epoch=epoch) for epoch in lived.of_epoch} == lived.of_epoch
    newest = Registry(lived.root).newest()
    assert not any(newest.drift(spec) for spec in ROUTE_TABLES)


def test_a_moment_within_an_epoch_has_the_offsets_of_the_snapshot_before_though_that_of_the_epoch_is_kept(tmp_path):
    registry = PublishedRegistry(str(tmp_path), T0)
    for number in (1, 2, 3):
        registry.now_ms = T0 + 1_000 * number
        registry.register(f"10.0.0.{number}:1", "c", f"b{number}", publish=number != 2)
    snapshot = Registry(registry.root).at(at_ms=T0 + 2_500).snapshot
    assert (snapshot.epoch, snapshot.event_time, snapshot.offsets) == (3, T0 + 2_500, {0: 1})


def test_rejected_records_of_a_moment(tmp_path):
    registry = PublishedRegistry(str(tmp_path), T0)
    registry.register("10.0.0.1:1", "c1", "a")
    for number in (1, 2):
        at_ms = registry.now_ms = T0 + 1000 * number
        registry.publish([RejectedRow(at_ms, 0, number, None, b"x", 1, "bad")])
    moments = range(T0 - 500, T0 + 3000, 500)
    known = {at_ms: rejected_at(tmp_path, at_ms) for at_ms in moments[1:]}
    assert list(known.values()) == [[], [], [1], [1], [2, 1], [2, 1]]


def rejected_at(folder, at_ms):
    root = Root(str(folder))
    registry = Registry(root).at(at_ms=at_ms)
    assert registry.rejected_count() == len(registry.rejected(10))
    return [row.offset for row in registry.rejected(10)]


@pytest.mark.parametrize("examples", [3, pytest.param(50, marks=pytest.mark.full)])
def test_as_of_any_moment_and_epoch_the_tables_are_those_of_the_rules(examples):
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=NO_SHRINKING)
    @given(
        logs(),
        st.sets(st.integers(0, 60), min_size=4, max_size=8),
        st.sampled_from([0, HOUR_MS // 3, 7 * HOUR_MS, 3 * DAY_MS]),
        st.lists(st.integers(-1_000, 700_000), max_size=5),
    )
    def of_random_logs(log, cuts, gap_ms, moments):
        check(log, cuts, gap_ms, moments)

    of_random_logs()


@pytest.mark.full
def test_any_epoch_is_as_it_was_across_a_restore_and_a_repair(tmp_path):
    registry = PublishedRegistry(str(tmp_path / "registry"), T0)
    mapping = {"TopicA": {"bname": "broker-2", "totalQueues": 8}}
    for number in (1, 2):
        fields = {"topic_queue_mapping_info_map": mapping} if number == 2 else {}
        registry.register(f"10.0.0.{number}:10911", "c1", f"broker-{number}", **fields)
    registry.register("10.0.0.3:10911", "c1", "broker-3")
    registry.register("10.0.0.3:10912", "c1", "broker-3", 1)
    registry.register("10.0.0.5:10911", "c1", "broker-5")
    good = registry.command(PutKvConfig(namespace="n", key="k", value="v")).epoch
    registry.now_ms += 1_000
    for number in (1, 2):
        registry.expire(f"10.0.0.{number}:10911", publish=False)
    registry.register("10.0.0.4:10911", "c2", "broker-1", publish=False)
    registry.expire("10.0.0.3:10911", publish=False)
    registry.register("10.0.0.3:10912", "c1", "broker-3", 0)
    registry.register("10.0.0.5:10911", "c1", "broker-5", topics=("TopicA", "TopicB"))
    spoilt = registry.command(DeleteKvConfig(namespace="n", key="k")).epoch
    root, given = Root(registry.root), NamesrvSettings()
    restored = restore_content(root, given, content_of(Registry(root).at(good)), "ann", takes_over=True).epoch
    now, then = content_of(Registry(root).newest()), of_backup(content_of(Registry(root).at(spoilt)))
    repaired = publish_repair(root, given, planned(root, [], now.snapshot), then, "ann").epoch
    newest = Publisher.claim(RustWriter(root), "next", NOW).last.epoch
    wanted = {epoch: tables_at(root, epoch=epoch) for epoch in range(1, newest + 1)}
    assert (wanted[restored], wanted[repaired]) == (wanted[good], wanted[spoilt])
