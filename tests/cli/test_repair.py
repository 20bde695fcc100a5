"""Damaged tables: which file it is, what is refused before a job is ended,
and how a good snapshot is published."""

import json
import os
import shutil
from pathlib import Path

import pytest

from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tables.writer import RustWriter
from namesrv_stream.tools.backup_file import content_of


@pytest.fixture
def epochs(registry):
    """Three epochs with a broker more each, the last published a minute ago."""
    return [registry.register(f"10.0.0.{n}:10911", "c1", f"broker-{n}", topics=(f"Topic{n}",)).epoch for n in (1, 2, 3)]


def tables(root, epoch=None):
    return {name: sorted(map(repr, rows)) for name, rows in content_of(RouteReader(root), epoch).rows.items()}


def newest_file(root, table):
    files = (file for file in Path(root, table).rglob("*.parquet") if "_c" not in str(file.parent.relative_to(root)))
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def cut_data(root, table):
    file = newest_file(root, table)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return str(file.relative_to(Path(root, table)))


def lose_data(root, table):
    file = newest_file(root, table)
    file.unlink()
    return str(file.relative_to(Path(root, table)))


def lose_log(root, table):
    """The entry of the last but one epoch."""
    file = sorted(Path(root, table, "_delta_log").glob("*.json"))[-2]
    file.unlink()
    return f"_delta_log/{file.name}"


def lose_newest_log(root, table):
    file = sorted(Path(root, table, "_delta_log").glob("*.json"))[-1]
    file.unlink()
    return f"_delta_log/{file.name}"


def cut_log(root, table):
    file = sorted(Path(root, table, "_delta_log").glob("*.json"))[-2]
    os.truncate(file, file.stat().st_size // 2)
    return f"_delta_log/{file.name}"


DAMAGES = [cut_data, lose_data, lose_log, lose_newest_log, cut_log]


@pytest.mark.parametrize("harm", DAMAGES)
def test_a_command_that_meets_a_damaged_table_names_table_and_file(run, registry, epochs, harm):
    file = harm(registry.root, "topic")
    result = run("status --no-kafka")
    assert result.exit_code == 1
    assert "unexpected" not in result.stderr
    assert "the table topic" in result.stderr
    assert f"its file {file} is" in result.stderr
    assert "namesrv-stream repair" in result.stderr


@pytest.mark.parametrize(
    ("table", "harm"),
    [*(("topic", harm) for harm in DAMAGES), ("live", cut_data), ("broker_event", cut_log), ("snapshot", lose_log)],
)
def test_doctor_reads_every_file_and_names_what_is_hurt(run, registry, epochs, harm, table):
    assert run("doctor --tables").exit_code == 0
    file = harm(registry.root, table)
    result = run("doctor --tables --json")
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert {each["check"] for each in found} == {f"table {table}"}
    assert file in {each["found"].split()[1] for each in found}


def test_doctor_names_the_epochs_that_a_damaged_file_hurts(run, registry, epochs):
    cut_data(registry.root, "topic")
    registry.command(PutKvConfig(namespace="n", key="k", value="v"))  # names the same version of topic
    (found,) = json.loads(run("doctor --tables --json").stdout)
    assert f"named by epochs {epochs[-1]} to {epochs[-1] + 1}" in found["found"]


@pytest.mark.parametrize(("table", "harm"), [*(("topic", harm) for harm in DAMAGES), ("live", lose_log)])
def test_repair_publishes_the_newest_whole_snapshot_and_reads_on_in_the_log_from_there(
    run, registry, epochs, harm, table
):
    whole = epochs[0] if harm in (lose_log, cut_log) else epochs[1]
    wanted, place = tables(registry.root, whole), RouteReader(registry.root).snapshots.find(whole)
    harm(registry.root, table)
    result = run("repair --take-over --as ann")
    assert result.exit_code == 0, result.output
    assert f"has the tables of epoch {whole}" in result.stdout
    after = tables(registry.root)
    assert after | {"live": ()} == wanted | {"live": ()}
    assert len(after["live"]) == len(wanted["live"])
    newest = RouteReader(registry.root).snapshots.newest()
    assert newest.offsets == place.offsets
    assert newest.event_time == place.event_time
    assert (newest.last_append, newest.clock_millis) == (place.last_append, place.clock_millis), (
        "else the job refuses it"
    )
    assert json.loads(run("history --json").stdout)[-1]["requestedBy"] == "ann"


@pytest.mark.parametrize(
    ("table", "harm"),
    [
        ("topic", cut_data),
        ("topic", lose_log),
        ("broker_event", lose_newest_log),
        ("snapshot", cut_data),
        ("snapshot", lose_log),
        ("snapshot", lose_newest_log),
        ("kv_config", cut_log),
    ],
)
def test_a_job_publishes_to_repaired_tables_and_nothing_readable_is_damaged(run, registry, epochs, harm, table):
    for epoch in range(2):
        registry.command(PutKvConfig(namespace="n", key="k", value=f"v{epoch}"))
    harm(registry.root, table)
    assert run("repair --take-over").exit_code == 0
    publisher = Publisher.claim(RustWriter(Root(registry.root)), "next", registry.now_ms)
    assert publisher.last.term > 1
    assert run("doctor --tables").exit_code == 0  # what cannot be read any more is past
    assert "nothing was changed" in run("repair --take-over").stdout
    newest = RouteReader(registry.root).open()
    assert set(newest.routes.queues) <= {"Topic1", "Topic2", "Topic3"}
    assert newest.routes.queues


@pytest.mark.parametrize("harm", [cut_data, lose_log])
def test_rows_of_the_history_and_of_snapshots_in_whole_files_are_kept(run, registry, epochs, harm):
    before = json.loads(run("history --json").stdout)
    harm(registry.root, "broker_event")
    harm(registry.root, "snapshot")
    assert run("repair --take-over").exit_code == 0
    after = json.loads(run("history --json").stdout)
    lost = {line["epoch"] for line in before if line not in after}
    assert lost == ({epochs[-1]} if harm is cut_data else set())  # a file that only the log did not name is there


def test_a_whole_registry_is_left_alone(run, registry, epochs):
    assert "nothing was changed" in run("repair").stdout
    assert RouteReader(registry.root).snapshots.newest().epoch == epochs[-1]


def test_repair_from_a_backup_and_from_the_log(run, registry, epochs, tmp_path):
    folder = tmp_path / "backups"
    assert run(f"backup {folder}").exit_code == 0
    wanted = tables(registry.root)
    (folder / "epoch-999.zip").write_bytes(b"cut short")
    shutil.rmtree(Path(registry.root, "topic"))
    lacks = run("repair --take-over")
    assert lacks.exit_code == 1
    assert "--from-log" in lacks.stderr
    assert run(f"repair --from {folder} --take-over").exit_code == 0
    after = tables(registry.root)
    assert after | {"live": ()} == wanted | {"live": ()}

    cut_data(registry.root, "topic")
    result = run("repair --from-log --take-over")
    assert "from its begin on" in result.stdout
    view = RouteReader(registry.root).open()
    assert (view.snapshot.offsets, dict(view.routes.brokers), len(view.routes.queues)) == ({}, {}, 0)


def test_a_job_that_is_active_is_not_ended_by_a_repair_or_a_restore_that_fails(run, registry, now_ms, tmp_path):
    registry.now_ms = now_ms
    good = registry.register("10.0.0.1:10911", "c1", "broker-a").epoch
    registry.register("10.0.0.2:10911", "c1", "broker-b", topics=("Other",))
    newest = RouteReader(registry.root).snapshots.newest()
    cut_data(registry.root, "topic")
    assert "--take-over" in run("repair").stderr
    assert run(f"repair --from {tmp_path} --take-over").exit_code == 1
    refused = run(f"restore {good} --take-over")
    assert refused.exit_code == 1
    assert "the table topic" in refused.stderr
    assert RouteReader(registry.root).snapshots.newest() == newest
