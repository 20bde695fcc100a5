"""The tables of any moment and any epoch are those that the rules had then, whichever snapshots are kept."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from chaos.oracle import Oracle, contents
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.rules.record_types import DeleteKvConfig, PutKvConfig
from namesrv_stream.rules.registry_tables import net_of
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.registry import Registry, open_tables
from namesrv_stream.tables.repair import planned
from namesrv_stream.tables.root import DAY_MS, HOUR_MS, Root
from namesrv_stream.tables.schemas import BROKER, ROUTE_TABLES, TOPIC
from namesrv_stream.tables.writer import RustWriter, changes_to_write
from namesrv_stream.tools.backup_file import content_of
from namesrv_stream.tools.restore import of_backup, publish_repair, restore_content
from tests.clock import now_ms
from tests.random_logs import T0, logs
from tests.registry import PublishedRegistry
from tests.tables.test_maintenance import make_older

NOW = now_ms()
NO_SHRINKING = [Phase.explicit, Phase.reuse, Phase.generate]  # each example makes ten tables
NOT_EXACT = {"last_update_timestamp": 0, "clock_millis": None, "channels": {}, "tokens": ()}


def exact(tables):
    """All rows, without signs of life and tokens, which no line of the history has."""
    found = contents(tables)
    return found | {"live": {address: row._replace(**NOT_EXACT) for address, row in found["live"].items()}}


class Lived:
    """A log that was published in epochs, and what the rules said: tables of each epoch and after each line.

    The epochs were published `gap_ms` apart, the last one now, and their files are as old as they are.
    """

    def __init__(self, root, log, cuts, gap_ms):
        self.root, self._oracle, self._files = Root(root), Oracle(NamesrvSettings()), set()
        ends = sorted({1 + cut % len(log) for cut in cuts} | {len(log)})
        ages_ms = {end: gap_ms * number for number, end in enumerate(reversed(ends))}
        self._publisher = Publisher.claim(RustWriter(self.root), "run", NOW - gap_ms * len(ends))
        self._make_files_older(gap_ms * len(ends))
        self._changes, self._events, self._times = [], [], [0]
        self.of_epoch = {1: exact(self._oracle.registry.view())}
        self.line_times, self.after_lines = [], {0: self.of_epoch[1]}
        for number, record in enumerate(log, 1):
            self._apply(record)
            if number in ages_ms:
                self._publish(number, ages_ms[number])
                self._make_files_older(ages_ms[number])

    def _apply(self, record):
        self._oracle.apply(record)
        came = self._oracle.registry.take_changes()
        self._changes += came.changes
        self._events += came.events
        self._times.append(max(self._times[-1], record.append_time_ms))
        self.line_times += [line.event_time for line in came.events]
        self.after_lines.setdefault(len(self.line_times), exact(self._oracle.registry.view()))

    def _publish(self, next_offset, age_ms):
        at_ms, changes = NOW - age_ms, changes_to_write(net_of(self._changes))
        times = [self._times[-1], *self.line_times]
        row = self._publisher.publish(Batch("query", 0, max(times), {0: next_offset}, changes, self._events), at_ms)
        self._changes, self._events = [], []
        self.of_epoch[row.epoch] = exact(self._oracle.registry.view())

    def _make_files_older(self, by_ms):
        files = {path for path in Path(self.root.url).rglob("*") if path.is_file()}
        make_older(files - self._files, by_ms)
        self._files = files

    def at(self, at_ms):
        """The tables of a moment; None if times of the log fall there, so that no state of the rules has its lines."""
        is_past = [at <= at_ms for at in self.line_times]
        return self.after_lines[sum(is_past)] if is_past == sorted(is_past, reverse=True) else None


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
