"""Damaged tables: each kind of damage is named and mended, what is kept and what is lost, and what is asked."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from namesrv_stream.cli.entry import main
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import TableDamagedError
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.rules.rows import BrokerEventRow
from namesrv_stream.tables import damage_watch
from namesrv_stream.tables.arrow import rows_from_arrow, rows_to_arrow
from namesrv_stream.tables.publication import Batch
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.repair import damages, newest_readable, planned
from namesrv_stream.tables.root import Root, select
from namesrv_stream.tables.schemas import BROKER, LIVE, SNAPSHOT, TABLES, TOPIC
from namesrv_stream.tables.writer import CommitTag, RowChanges, RustWriter
from namesrv_stream.tools import restore
from namesrv_stream.tools.restore import publish_repair
from tests.clock import now_ms
from tests.damages import cut
from tests.data import data, require_known
from tests.registry import PublishedRegistry, tables
from tests.tables.batches import Died, claim, dies_at


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Epochs before and after a checkpoint of each table. Each changes the one file of `topic` that has all rows.

    `wanted`: the tables of the newest epoch, `before`: those of the one before it.
    """
    root = tmp_path_factory.mktemp("made") / "registry"
    registry = PublishedRegistry(str(root), now_ms() - 60_000)
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("T0",))
    registry.now_ms += 1_000
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("T0", "T1"))
    registry.register("10.0.0.2:10911", "c1", "broker-a", 1, topics=("T0", "T1"))
    registry.command(PutKvConfig(namespace="n", key="k", value="v"))
    for spec in TABLES.values():
        Root(registry.root).open(spec).create_checkpoint()
    for topics in (("T0", "T2"), ("T0", "T3", "T4")):
        registry.before = tables(registry.root)
        registry.now_ms += 1_000
        registry.register("10.0.0.1:10911", "c1", "broker-a", topics=topics)
    registry.wanted = tables(registry.root)
    return registry


@pytest.fixture
def registry(made, tmp_path):
    return made.copied_to(str(tmp_path / "registry"))


def log_of(root, table):
    return Path(root, table, "_delta_log")


def commit_of(root, table, newest=True):
    """The newest commit, or one from before the checkpoint."""
    return sorted(log_of(root, table).glob("*.json"))[-1 if newest else 1]


def data_of(root, table, newest=True):
    actions = map(json.loads, commit_of(root, table, newest).read_text().splitlines())
    return Path(root, table, next(each["add"]["path"] for each in actions if "add" in each))


FILES = {
    "data": data_of,
    "commit": commit_of,
    "checkpoint": lambda root, table, _: next(log_of(root, table).glob("*.checkpoint.parquet")),
    "hint": lambda root, table, _: log_of(root, table) / "_last_checkpoint",
}


def flip(file):
    content = bytearray(file.read_bytes())
    content[-40:-20] = bytes(each ^ 255 for each in content[-40:-20])
    file.write_bytes(content)


def lose_under_checkpoint(commit):
    Root(str(commit.parents[2])).open(TABLES[commit.parents[1].name]).create_checkpoint()
    commit.unlink()


HARMS = {
    "cut": cut,
    "lose": os.remove,
    "flip": flip,
    "lose_under_checkpoint": lose_under_checkpoint,
    "empty": lambda hint: hint.write_bytes(b""),
    "point_elsewhere": lambda hint: hint.write_text('{"version": 77, "size": 9}'),
}
DAMAGES = data(__file__, "damages.yaml")
for damage in DAMAGES:
    require_known(damage, "file harm newest in_every_run full")
CASES = [
    pytest.param(table, row["file"], row["harm"], row.get("newest", True), marks=marks)
    for row in DAMAGES
    for when, marks in (("in_every_run", []), ("full", pytest.mark.full))
    for table in row.get(when, [])
]


def findings(root):
    return json.loads(CliRunner().invoke(main, ["--root", root, "doctor", "--tables", "--json"]).stdout)


def events(run):
    return [(each["epoch"], each["seq"], each["type"]) for each in json.loads(run("history --json").stdout)]


def work_as_a_job(root, table):
    """Claim the registry and write the table."""
    publisher = claim(Root(root), "next")
    rows = publisher.table(table) if table in (TOPIC.name, LIVE.name) else []
    changes = {table: RowChanges(rows.slice(0, 1))} if len(rows) else {}
    publisher.publish(Batch(None, None, None, publisher.last.offsets, changes), 0)


@pytest.mark.parametrize(("table", "file", "harm", "newest"), CASES)
def test_damage_of_each_kind_is_named_and_mended_and_the_job_goes_on(run, registry, made, table, file, harm, newest):
    HARMS[harm](FILES[file](registry.root, table, newest))
    found = [each for each in findings(registry.root) if each["check"] == f"table {table}"]
    assert found
    try:
        work_as_a_job(registry.copied_to(f"{registry.root}-of-job").root, table)
    except TableDamagedError as error:
        assert f"cannot read table {table} under" in str(error)
        assert " at version " in str(error)
        assert "namesrv-stream repair" in str(error)
    result = run("repair --take-over --as ann --yes")
    assert result.exit_code == 0, result.output
    assert {each["state"] for each in findings(registry.root)} == {"ok"}
    is_of_newest_row = table == "snapshot" and newest and file == "data"
    assert tables(registry.root) == (made.before if is_of_newest_row else made.wanted)
    work_as_a_job(registry.root, table)


def test_a_row_that_another_program_wrote_is_not_what_the_changes_say_and_comes_back(run, registry, made):
    root = Root(registry.root)
    table = root.open(BROKER)
    table.delete("broker_id = 1")
    newest = Registry(registry.root).newest().snapshot
    row = newest._replace(epoch=newest.epoch + 1, versions={**newest.versions, BROKER.name: table.version()})
    writer = RustWriter(root)
    writer.append(SNAPSHOT, writer.head(SNAPSHOT), rows_to_arrow(SNAPSHOT, [row]), CommitTag(row.epoch, row.term))
    [found] = [each for each in findings(registry.root) if each["state"] == "failed"]
    assert (found["check"], "1 rows" in found["found"], "broker-a, 1" in found["found"]) == ("table broker", True, True)
    assert "broker: 1 rows" in run("repair --take-over").stdout
    assert {each["state"] for each in findings(registry.root)} == {"ok"}
    assert tables(registry.root) == made.wanted


@pytest.mark.parametrize(
    ("gone", "is_lost"),
    [
        ("topic/_delta_log", False),
        ("broker_event/_delta_log", False),
        ("snapshot/_delta_log", False),
        pytest.param("topic", False, marks=pytest.mark.full),
        ("filter", False),  # which never had a row
        pytest.param("row_change", True, marks=pytest.mark.full),
    ],
)
def test_a_table_without_its_log_is_damaged_and_no_job_begins_a_new_one_there(run, registry, made, gone, is_lost):
    table, lines = gone.partition("/")[0], events(run)
    shutil.rmtree(Path(registry.root, gone))
    assert f"table {table}" in [each["check"] for each in findings(registry.root) if each["state"] == "failed"]
    with pytest.raises(TableDamagedError, match=rf"cannot read table {table} .*: its file _delta_log is missing"):
        work_as_a_job(registry.root, table)
    asked = run("repair --take-over").stderr
    assert (f"Lost rows of {table} stay lost unless a backup has them" in asked) == is_lost
    assert run("repair --take-over --yes").exit_code == 0
    assert {each["state"] for each in findings(registry.root)} == {"ok"}
    assert tables(registry.root) == made.wanted
    assert events(run)[: len(lines)] == lines


def test_a_publication_whose_commit_of_snapshot_is_gone_is_told(registry, monkeypatch):
    monkeypatch.setattr(damage_watch, "_PUBLISHED_WITHIN_S", 0)
    commit_of(registry.root, "snapshot").unlink()
    [found] = [each for each in findings(registry.root) if each["state"] == "warning"]
    assert "have rows of epoch 7, but table snapshot ends at epoch 6" in found["found"]
    watch = damage_watch.DamageWatch(Root(registry.root))
    watch.look()
    assert watch.problem is None, "it may be published at this moment"
    watch.look()
    assert (watch.problem, watch.is_damaged) == (found["found"], False)


def test_a_missing_file_is_told_by_whoever_has_the_tables_in_memory_until_it_is_there_again(registry):
    watch, file = damage_watch.DamageWatch(Root(registry.root)), data_of(registry.root, "topic")
    watch.look()
    assert watch.problem is None
    hidden = file.rename(file.with_name("hidden"))
    watch.look()
    assert f"cannot read table topic under {registry.root} at version" in watch.problem
    assert f"its file {file.relative_to(Path(registry.root, 'topic'))} is missing" in watch.problem
    hidden.rename(file)
    watch.look()
    assert watch.problem is None


def double(commit):
    commit.write_bytes(commit.read_bytes() * 2)


def come_again(commit):
    shutil.copy(commit, commit.with_name(f"{int(commit.stem) + 1:020}.json"))


@pytest.mark.parametrize("harm", [double, come_again])
@pytest.mark.parametrize("table", ["topic", "live", "broker_event", "snapshot", "row_change"])
def test_a_commit_that_is_there_twice_hurts_nobody(registry, table, harm, made):
    harm(commit_of(registry.root, table))
    work_as_a_job(registry.root, table)
    assert tables(registry.root) == made.wanted


def test_a_data_file_that_is_lost_costs_no_row_and_no_record_and_the_history_has_its_repair(run, registry, made):
    place = Registry(registry.root).newest().snapshot
    data_of(registry.root, "topic").unlink()
    result = run("repair --take-over --as ann")
    assert "topic: 5 rows rebuilt from row_change." in result.stdout
    assert "lost" not in result.stdout
    newest = Registry(registry.root).newest().snapshot
    assert tables(registry.root) == made.wanted
    for at_rest in ("offsets", "last_append", "clock_millis"):
        assert getattr(newest, at_rest) == getattr(place, at_rest)
    line = json.loads(run("history --json").stdout)[-1]
    assert (line["type"], line["requestedBy"]) == ("REPAIR", "ann")
    assert line["command"]["rows"] | {"topic": 5, "broker": 2, "live": 2} == line["command"]["rows"]
    assert (line["command"]["made"], line["command"]["lost"], line["command"]["holes"]) == (["topic"], {}, [])
    repaired = "ann repaired the tables of snapshot 7: topic rebuilt from row_change, nothing lost."
    assert repaired in run("history").stdout


def test_a_publication_whose_row_is_lost_has_not_happened_and_the_log_is_read_again_from_the_one_before(
    run, registry, made
):
    place, *_ = Registry(registry.root).read(lambda snapshots: snapshots.readable(1, 6))
    cut(data_of(registry.root, "snapshot"))
    result = run("repair --take-over --as ann")
    assert "snapshot: the newest row is lost. The job reads Kafka's log again from snapshot 6 on." in result.stdout
    newest = Registry(registry.root).newest().snapshot
    assert tables(registry.root) == made.before
    assert (newest.epoch, newest.term, newest.offsets) == (10, place.term + 2, place.offsets)
    assert [each[:3] for each in newest.holes] == [("snapshot", 7, 8)]
    assert "is not known" in run("brokerList --as-of 7").stderr, "gateways served it, and it has not happened"
    assert events(run)[-1][0] == 10
    assert max(epoch for epoch, *_ in events(run)[:-1]) == 6


def test_lines_of_a_run_that_died_before_its_snapshot_are_no_history_after_a_repair(run, registry):
    line = BrokerEventRow(0, 0, registry.now_ms, 0, 99, "EXPIRED", *[None] * 6, "SILENCE", None)
    run_that_dies = claim(Root(registry.root), "next", dies_at("written broker_event"))
    epoch = run_that_dies.last.epoch + 1
    with pytest.raises(Died):
        run_that_dies.publish(Batch(None, None, None, run_that_dies.last.offsets, {}, [line]), 0)
    cut(data_of(registry.root, "broker_event", newest=False))
    result = run("repair --take-over --yes")
    assert "broker_event: 2 rows lost." in result.stdout
    assert "(epoch 2) is lost." in result.stdout
    assert [each for each in events(run) if each[0] == epoch] == []


def test_a_backup_is_published_above_all_epochs_if_no_row_of_snapshot_can_be_read(run, registry, made, tmp_path):
    run(f"backup {tmp_path / 'backups'}")
    place = Registry(registry.root).newest().snapshot
    registry.register("10.0.0.9:10911", "c2", "broker-z")
    for commit in Path(registry.root).glob("*/_delta_log/*"):
        cut(commit)
    for file in Path(registry.root, "snapshot").glob("*.parquet"):
        cut(file)
    assert "Give a folder of backups with --from FOLDER" in run("repair --take-over").stderr
    result = run(f"repair --from {tmp_path / 'backups'} --take-over --yes")
    assert result.exit_code == 0, result.output
    newest = Registry(registry.root).newest().snapshot
    assert tables(registry.root) == made.wanted
    assert (newest.epoch, newest.offsets) == (place.epoch + 3, place.offsets)
    assert newest.term > place.term
    refused = run("brokerList --as-of 3")
    assert (refused.exit_code, "is not known: rows of" in refused.stderr) == (1, True)


def test_what_neither_a_file_nor_the_history_has_is_counted_and_brokers_are_asked_for_it(run, registry, tmp_path):
    assert run(f"backup {tmp_path / 'backups'}").exit_code == 0
    data_of(registry.root, "topic").unlink()
    data_of(registry.root, "row_change").unlink()
    refused = run("repair --take-over")
    assert refused.exit_code == 1
    assert "row_change: " in refused.stdout
    assert "A backup may have lost rows: `repair --from FOLDER`" in refused.stdout
    before = Registry(registry.root).newest().snapshot.epoch
    assert before == 7
    assert run("repair --take-over --yes").exit_code == 0
    for lease in Registry(registry.root).newest().routes.live.values():
        assert lease.tokens == ()
        assert lease.data_version.counter == 0, "so that the next registration counts as changed"


def test_a_kv_value_that_is_lost_is_asked_about_and_named(run, registry):
    registry.command(PutKvConfig(namespace="n", key="gone", value="v"))
    data_of(registry.root, "row_change").unlink()
    Path(registry.root, "kv_config", "_delta_log", "_last_checkpoint").unlink()
    for file in Path(registry.root, "kv_config").glob("*.parquet"):
        file.unlink()
    refused = run("repair --take-over")
    assert (refused.exit_code, "Lost rows of kv_config and row_change stay lost" in refused.stderr) == (1, True)
    assert "maybe missing or outdated: n/gone." in refused.stdout


def test_a_job_that_publishes_while_a_repair_is_planned_loses_nothing(registry):
    data_of(registry.root, "topic").unlink()
    root = Root(registry.root)
    plan = planned(root, damages(root), newest_readable(root, damages(root)))
    registry.register("10.0.0.9:10911", "c2", "broker-z", topics=())
    wanted = rows_from_arrow(BROKER, select(root.open(BROKER), BROKER))
    row = publish_repair(root, NamesrvSettings(), plan, None, "ann")
    assert sorted(Registry(root).newest().rows("broker")) == sorted(wanted)
    assert row.offsets == {0: registry.next_offset}


def test_a_reader_that_is_open_during_a_repair_sees_what_a_new_one_sees(registry):
    reader = Registry(registry.root)
    reader.follow()
    for file in Path(registry.root, "topic", "_delta_log").glob(
        f"{reader.newest().snapshot.versions['topic']:020}.json"
    ):
        file.unlink()
    root = Root(registry.root)
    publish_repair(root, NamesrvSettings(), planned(root, damages(root), reader.newest().snapshot), None, "ann")
    for topics in (("T0", "T5"), ("T0", "T6")):
        registry = registry.next_job()
        registry.now_ms += 1_000
        registry.register("10.0.0.1:10911", "c1", "broker-a", topics=topics)
        assert sorted(reader.follow().rows("topic")) == sorted(Registry(registry.root).newest().rows("topic"))


def test_a_repair_that_died_before_it_published_is_ended_by_the_next_one(registry, monkeypatch):
    commit_of(registry.root, "topic").unlink()
    data_of(registry.root, "row_change").unlink()
    root = Root(registry.root)
    plan = planned(root, damages(root), newest_readable(root, damages(root)))
    with monkeypatch.context() as patched, pytest.raises(Died):
        patched.setattr(restore, "_claimed", dies)
        publish_repair(root, NamesrvSettings(), plan, None, "ann")
    found = damages(root)
    row = publish_repair(root, NamesrvSettings(), planned(root, found, newest_readable(root, found)), None, "ann")
    assert {"topic", "row_change"} <= {each.table_name for each in row.holes}
    assert all(lease.tokens == () for lease in Registry(registry.root).newest().routes.live.values())


def dies(*_, **__):
    raise Died


def test_status_shows_job_and_kafka_although_a_table_is_damaged(run, registry, made, closed_port):
    cut(data_of(registry.root, "topic"))
    result = run("status", **{"kafka.bootstrap.servers": f"127.0.0.1:{closed_port}"})
    assert result.exit_code == 1
    told = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert "unknown: Kafka is unreachable" in told["job"]
    assert f"cannot reach Kafka at 127.0.0.1:{closed_port}" in told["Kafka"]
    assert "table topic" in told["tables"]


@pytest.mark.parametrize("source", [pytest.param("--from-log", marks=pytest.mark.full), "--from {}"])
def test_the_past_stays_as_it_was_although_the_log_is_read_again(run, registry, tmp_path, source):
    run(f"backup {tmp_path / 'backups'}")
    begin_ms = registry.now_ms + 1_000

    def register_two():
        for number in (3, 4):
            registry.now_ms = begin_ms + number * 1_000
            registry.register(f"10.0.0.{number}:10911", "c1", f"broker-{number}")

    def past():
        reader, seen = Registry(registry.root), (0, 2_999, 3_000, 3_999)
        return [sorted(reader.at(at_ms=begin_ms + after_ms).routes.live) for after_ms in seen]

    register_two()
    registry.now_ms += 1_000
    registry.register("10.0.0.5:10911", "c1", "broker-5")
    wanted, lines = past(), len(json.loads(run("history --json").stdout))
    assert run(f"repair {source.format(tmp_path / 'backups')} --take-over --yes").exit_code == 0
    assert past() == wanted
    assert len(json.loads(run("history --json").stdout)) > lines
    registry = registry.next_job()
    register_two()
    assert past() == wanted
