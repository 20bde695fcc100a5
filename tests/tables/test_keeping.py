"""Which snapshots are kept, that each of them reads as before, and that nothing else of the past stays."""

import importlib
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.history.analysis import opened
from namesrv_stream.history.events import newest_events, newest_of_each
from namesrv_stream.history.views import history_sql
from namesrv_stream.rules.rows import RejectedRow, SnapshotRow
from namesrv_stream.tables.keeping import keep_by_hand, kept_epochs, release
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.mending import damages, forget
from namesrv_stream.tables.pinned import open_tables
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.root import DAY_MS, HOUR_MS, Root
from namesrv_stream.tables.schemas import BROKER_EVENT, CLUSTER, PAST_SNAPSHOT, PINNED_TABLES, TOPIC
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tables.snapshots import Snapshots, among
from namesrv_stream.tables.spark_views import open_snapshot
from namesrv_stream.tables.writer import CommitTag, RustWriter
from tests.tables.rows import NOW, T0
from tests.tables.test_maintenance import make_older
from tests.tables.test_publication import assert_shows_exactly, batch, batches_shown, claim

MINUTE_MS = 60_000
RETENTION_MS = 30 * DAY_MS
FEW_HOURS = [(step * 20 + 1) * MINUTE_MS for step in range(12, -1, -1)]
"""Ages of snapshots: three an hour, for four hours."""


def rows_of(ages_ms, now_ms=NOW):
    newest = SnapshotRow(1, 1, "run", None, None, NOW, None, {}, {}, {})
    return [newest._replace(epoch=at, published_at=now_ms - age) for at, age in enumerate(ages_ms, start=1)]


@given(st.lists(st.integers(0, 40 * DAY_MS), min_size=1, unique=True), st.lists(st.integers(0, 3 * DAY_MS), max_size=4))
def test_a_snapshot_that_is_kept_was_kept_at_every_maintenance_before(ages_ms, steps_ms):
    every = rows = rows_of(sorted(ages_ms, reverse=True))
    now_ms = NOW
    for step_ms in steps_ms:
        now_ms += step_ms
        kept = kept_epochs(rows, now_ms, HOUR_MS, RETENTION_MS)
        rows = [row for row in rows if row.epoch in kept]
        assert kept == kept_epochs(every, now_ms, HOUR_MS, RETENTION_MS)


def test_all_of_an_hour_one_an_hour_of_a_week_and_one_a_day_are_kept():
    midnight_ms = NOW // DAY_MS * DAY_MS + DAY_MS
    rows = rows_of(range(40 * DAY_MS, -1, -10 * MINUTE_MS), midnight_ms)
    kept = kept_epochs(rows, midnight_ms, HOUR_MS, RETENTION_MS)
    ages = [midnight_ms - row.published_at for row in rows if row.epoch in kept]
    assert [age for age in ages if age <= HOUR_MS] == list(range(HOUR_MS, -1, -10 * MINUTE_MS))
    assert [age for age in ages if HOUR_MS < age <= 7 * DAY_MS] == list(range(7 * DAY_MS, HOUR_MS, -HOUR_MS))
    assert [age for age in ages if age > 7 * DAY_MS] == list(range(30 * DAY_MS, 7 * DAY_MS, -DAY_MS))


def of(number):
    rejected = RejectedRow(T0 + number, 0, number, None, b"x", 1, f"batch-{number}")
    return replace(batch(number), rejected=[rejected])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """After publications of four hours, up to now. Delta's files are as old as their snapshots."""
    root = Root(str(tmp_path_factory.mktemp("made") / "registry"))
    publisher, seen = claim(root, at_ms=NOW - FEW_HOURS[0]), set()
    for number, age_ms in enumerate(FEW_HOURS):
        publisher.publish(of(number), NOW - age_ms)
        make_older((new := files(root)) - seen, age_ms)
        seen |= new
    return root, all_shown(root)


@pytest.fixture
def publisher(root, made):
    """The run that made these tables, on a copy of them."""
    shutil.copytree(made[0].url, root.url)
    return Publisher(RustWriter(root), *RustWriter(root).newest_snapshot(), lambda _point: None)


@pytest.fixture
def before(made):
    """Each epoch, and what it shows before a maintenance."""
    return made[1]


def look_after(root):
    maintain(None, root, rejected_retention_ms=NOW)


def files(root):
    return {path for path in Path(root.url).rglob("*") if path.is_file()}


def shown(root, epoch):
    """The batches whose rows a snapshot has, by table."""
    tables = open_tables(root, epoch)
    columns = {"broker_event": "broker_addr", "cluster": "cluster_name", "rejected": "reason"}
    found = {table: {*tables[table][column].to_pylist()} for table, column in columns.items()}
    return batches_shown(RouteReader(root).open(epoch), root) | found


def assert_reads_as(after, before):
    for epoch, tables in after.items():
        for table, rows in tables.items():
            assert rows == before[epoch][table], (epoch, table)


def snapshots(root):
    return [row.epoch for row in Snapshots(root).readable()[::-1]]


def all_shown(root):
    return {epoch: shown(root, epoch) for epoch in snapshots(root)}


def test_kept_snapshots_read_as_before_and_all_else_of_the_past_goes(root, publisher, before):
    count = len(files(root))
    look_after(root)
    after = all_shown(root)
    assert_reads_as(after, before)
    assert root.open(PAST_SNAPSHOT).to_pyarrow_table()["epoch"].to_pylist() == sorted(before.keys() - after)
    hours = {row.published_at // HOUR_MS for row in Snapshots(root).readable() if NOW - row.published_at > HOUR_MS}
    assert len(after) == len(hours) + 3, "one an hour, and all of the last hour"
    lowest = Snapshots(root).readable()[2].versions
    for spec in (TOPIC, CLUSTER, BROKER_EVENT):
        names = [path.name for path in Path(root.uri(spec), "_delta_log").glob("*.json")]
        assert int(min(names).partition(".")[0]) == lowest[spec.name]
    assert len(files(root)) < count
    with pytest.raises(SnapshotGoneError):
        Snapshots(root).find(min(before.keys() - after))
    publisher.publish(of(len(FEW_HOURS)), NOW)
    assert publisher.restored == []
    assert_shows_exactly(root, *range(len(FEW_HOURS) + 1))


def test_a_damaged_copy_is_named_and_its_snapshots_are_left_to_the_history(root, publisher):
    look_after(root)
    assert damages(root) == [], "versions whose copy is whole are no damage, though Delta has let them go"
    [first, *_] = copies = sorted(Path(root.url).glob("kept/*/topic/*.parquet"))
    first.write_bytes(b"cut")
    copies[-1].unlink()
    named = {damage.file: damage for damage in damages(root)}
    assert set(named) == {f"../{path.relative_to(root.url)}" for path in (first, copies[-1])}
    assert all(damage.is_past and damage.table == "topic" and damage.epochs for damage in named.values())
    forget(root, {epoch for damage in named.values() for epoch in damage.epochs}, CommitTag(99, 1))
    look_after(root)
    assert damages(root) == []


def test_a_damaged_log_of_a_copy_ends_no_maintenance(root, publisher):
    look_after(root)
    [log, *_] = sorted(Path(root.url).glob("kept/*/topic/_delta_log/*.json"))
    log.write_bytes(log.read_bytes()[:100])
    before = set(snapshots(root))
    look_after(root)
    assert len(before - set(snapshots(root))) == 1
    look_after(root)
    assert damages(root) == []


def test_every_kept_snapshot_is_read_by_all_who_read_the_past(root, publisher):
    publisher.publish(of(len(FEW_HOURS)), NOW)
    rows = Snapshots(root).readable()[::-1]
    [first, *_, last] = sorted(kept_epochs(rows, NOW, HOUR_MS, RETENTION_MS) - {row.epoch for row in rows[-4:]})
    before = {epoch: read_by_all(root, epoch) for epoch in (first, last)}
    look_after(root)
    assert {epoch: read_by_all(root, epoch) for epoch in before} == before


def read_by_all(root, epoch):
    """Return what lines of the history, questions in DuckDB and the verdict's look at the past say of an epoch."""
    row = Snapshots(root).find(epoch)
    with opened(root, epoch) as views:
        tables = ("topic", "broker_event", "rejected", "broker_session")
        counts = [views.table(f"SELECT count(*) AS n FROM {name}")["n"].to_pylist() for name in tables]
    return newest_events(root, row, limit=None), counts, newest_of_each(root, row, "broker_name", "true")


def test_a_version_that_quiet_snapshots_named_is_kept_though_it_was_compacted_long_before(root):
    publisher, seen = claim(root, at_ms=NOW - 3 * DAY_MS), set()

    def published(number, age_ms):
        publisher.publish(of(number), NOW - age_ms)
        make_older(files(root) - seen, age_ms)
        seen.update(files(root))
        return publisher.last.epoch

    for number in range(8):
        published(number, 3 * DAY_MS)
    assert root.open(BROKER_EVENT).optimize.compact()["numFilesRemoved"] == 8
    make_older(files(root) - seen, 3 * DAY_MS - HOUR_MS)
    seen.update(files(root))
    publisher.publish(Batch(None, None, NOW, {0: 9}, {}), NOW - HOUR_MS * 5 // 6)
    quiet = publisher.last.epoch
    published(9, HOUR_MS // 2)
    before = shown(root, quiet)
    look_after(root)
    assert shown(root, quiet) == before
    assert damages(root) == []


@given(st.sets(st.integers(1, 40)), st.sets(st.integers(1, 40)))
def test_epochs_are_selected_by_ranges(wanted, others):
    others -= wanted
    condition = among(wanted, wanted | others)
    holds = duckdb.sql(f"SELECT epoch FROM range(1, 41) AS all_of_them(epoch) WHERE {condition}").fetchall()
    assert wanted <= {epoch for (epoch,) in holds}
    assert others.isdisjoint(epoch for (epoch,) in holds)
    assert condition.count("OR") <= len(others)


def test_a_snapshot_kept_by_hand_has_files_of_its_own_until_it_is_released(root, publisher):
    rows = Snapshots(root).readable()[::-1]
    epoch = max({row.epoch for row in rows} - kept_epochs(rows, NOW, HOUR_MS, RETENTION_MS))
    before = shown(root, epoch)
    keep_by_hand(root, Snapshots(root).find(epoch))
    copies = {path for path in files(root) if "kept" in path.parts}
    look_after(root)
    assert copies <= files(root)
    assert shown(root, epoch) == before
    for spec in PINNED_TABLES:
        assert root.copy_of(spec, Snapshots(root).find(epoch).versions[spec.name])
    release(root, epoch)
    look_after(root)
    assert not {path for path in copies & files(root) if path.parent.name in {"topic", "broker_event"}}
    with pytest.raises(SnapshotGoneError):
        Snapshots(root).find(epoch)


class Died(BaseException):
    """The maintenance ends here."""


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("keeping.write_deltalake", marks=pytest.mark.full),
        "thinning._drop",
        pytest.param("thinning.drop_unnamed", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("call", [1, pytest.param(3, marks=pytest.mark.full)])
@pytest.mark.usefixtures("publisher")
def test_a_maintenance_that_dies_hides_nothing_that_is_kept_and_the_next_goes_on(root, before, monkeypatch, step, call):
    calls = []
    module, name = step.split(".")
    real = getattr(importlib.import_module(f"namesrv_stream.tables.{module}"), name)

    def dies(*args, **options):
        calls.append(name)
        if len(calls) == call:
            raise Died
        return real(*args, **options)

    with monkeypatch.context() as patch, suppress(Died):
        patch.setattr(f"namesrv_stream.tables.{step}", dies)
        look_after(root)
    assert_reads_as({epoch: shown(root, epoch) for epoch in snapshots(root)[::4]}, before)
    look_after(root)
    after = all_shown(root)
    assert_reads_as(after, before)
    past = root.open(PAST_SNAPSHOT).to_pyarrow_table()["epoch"].to_pylist()
    assert sorted([*past, *after]) == sorted(before)


def test_a_snapshot_with_a_damaged_file_is_not_kept_and_hinders_nothing(root, publisher):
    rows = Snapshots(root).readable()
    hour = next(row for row in rows if NOW - row.published_at > 2 * HOUR_MS)
    kept = kept_epochs(rows[::-1], NOW, HOUR_MS, RETENTION_MS)
    damaged = next(row for row in rows if row.epoch in kept and row.epoch < hour.epoch)
    [file] = root.open(CLUSTER, damaged.versions["cluster"]).file_uris()
    Path(file.removeprefix("file://")).write_bytes(b"cut")
    look_after(root)
    assert damaged.epoch not in snapshots(root)
    assert len(snapshots(root)) == len(kept) - 1


@pytest.mark.spark
def test_spark_reads_a_kept_snapshot_by_views_and_by_statements(spark, root, publisher):
    keep_by_hand(root, Snapshots(root).find(publisher.last.epoch - 4))
    look_after(root)
    for epoch in (snapshots(root)[1], publisher.last.epoch - 4):
        expected = shown(root, epoch)
        session = spark.newSession()
        open_snapshot(session, root, epoch)
        assert by_spark(session) == expected
        session = spark.newSession()
        for statement in history_sql(root, Snapshots(root).find(epoch)):
            if "delta.`" in statement:  # those of the tables
                session.sql(statement)
        assert by_spark(session) == expected


def by_spark(session):
    columns = {"topic": "topic", "cluster": "cluster_name", "live": "broker_addr", "broker_event": "broker_addr"}
    found = {
        table: {value for (value,) in session.sql(f"SELECT {column} FROM {table}").collect()} - {"shared"}
        for table, column in (columns | {"rejected": "reason"}).items()
    }
    assert all(value.startswith("batch-") for values in found.values() for value in values)
    return found
