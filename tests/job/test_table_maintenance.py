"""The job's own maintenance: beside its publications, bounded, off by a setting, and whole after a `kill -9`."""

import logging
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from signal import SIGKILL

import pytest
from deltalake.exceptions import DeltaError

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job import table_maintenance
from namesrv_stream.job.table_maintenance import OutOfTimeError, TableMaintenance
from namesrv_stream.tables.maintenance import MAX_FILES
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT, SNAPSHOT, TABLES
from tests.tables.ages import pass_time, views_of_all
from tests.tables.batches import assert_shows_exactly, batch, claim
from tests.tables.rows import NOW

LIMIT_S = 60.0
COUNT = MAX_FILES + 2


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """Tables after publications each of which added a file to the history."""
    root = Root(str(tmp_path_factory.mktemp("grown") / "registry"))
    publisher = claim(root, at_ms=NOW)
    for number in range(COUNT):
        publisher.publish(batch(number), NOW)
    return root


@pytest.fixture
def root(grown, tmp_path):
    """A copy of them."""
    return Root(str(shutil.copytree(grown.url, tmp_path / "registry")))


def settings(root, every_ms=1):
    return NamesrvSettings.model_validate({"delta.root": root.url, "maintenanceMillis": every_ms})


def file_count(root, spec):
    return len(root.open(spec).file_uris())


def test_a_publication_waits_for_no_maintenance_and_both_hold(root):
    """The maintenance stands still before each table while a publication comes."""
    publisher = claim(root, "second", at_ms=NOW)
    at_table, published, done = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def wait(point):
        if point == "maintained":
            done.set()
        elif not done.is_set():
            at_table.release()
            assert published.acquire(timeout=LIMIT_S)

    count = COUNT + len(TABLES)
    with TableMaintenance(root, settings(root), wait):
        for number in range(COUNT, count):
            assert at_table.acquire(timeout=LIMIT_S)
            publisher.publish(batch(number), NOW)
            published.release()
        assert done.wait(LIMIT_S)
    assert file_count(root, BROKER_EVENT) < count
    publisher.publish(batch(count), NOW)
    assert publisher.restored == []
    assert_shows_exactly(root, *range(count + 1))


def test_it_puts_small_files_together_and_every_snapshot_stays_readable(root, caplog):
    caplog.set_level(logging.INFO)
    before, points = views_of_all(root), []
    TableMaintenance(root, settings(root), points.append).run_once()
    assert [file_count(root, spec) for spec in (BROKER_EVENT, SNAPSHOT)] == [1, 1]
    assert points == [*(f"maintaining {name}" for name in TABLES), "maintained"]
    assert views_of_all(root) == before
    TableMaintenance(root, settings(root), points.append).run_once()
    [line] = [each.getMessage() for each in caplog.records if each.name == table_maintenance.__name__]
    assert f"broker_event from {COUNT} to 1" in line


def test_of_snapshot_only_the_files_of_the_newest_version_stay_after_an_hour(root):
    TableMaintenance(root, settings(root), lambda _point: None).run_once()
    folder = Path(root.uri(SNAPSHOT))
    assert len(list(folder.glob("*.parquet"))) > 1
    pass_time(root, days=1)
    TableMaintenance(root, settings(root), lambda _point: None).run_once()
    assert len(list(folder.glob("*.parquet"))) == 1
    assert_shows_exactly(root, *range(COUNT))


def test_no_maintenance_runs_when_the_setting_is_0(root):
    points = []
    with TableMaintenance(root, settings(root, every_ms=0), points.append):
        pass
    assert points == []


def test_a_maintenance_whose_time_is_up_leaves_the_rest_to_the_next(root, monkeypatch):
    points = []

    def out_of_time_after(point):
        points.append(point)
        if len(points) <= 2:
            monkeypatch.setattr(table_maintenance, "LIMIT_S", -1.0)

    care = TableMaintenance(root, settings(root), out_of_time_after)
    for _ in range(2):
        monkeypatch.undo()
        with pytest.raises(OutOfTimeError):
            care.run_once()
    assert points == [f"maintaining {name}" for name in list(TABLES)[:2]]
    monkeypatch.undo()
    care.run_once()
    assert points == [*(f"maintaining {name}" for name in TABLES), "maintained"]


def test_a_table_that_cannot_be_maintained_keeps_the_others_from_nothing(root, monkeypatch):
    first, points = next(iter(TABLES)), []

    def fail(point):
        points.append(point)
        if point == f"maintaining {first}":
            raise DeltaError("no")

    care = TableMaintenance(root, settings(root), fail)
    with pytest.raises(DeltaError):
        care.run_once()
    care.run_once()
    assert points == [*(f"maintaining {name}" for name in TABLES), "maintained"]


_PROGRAM = """
import os, signal, sys
from deltalake import DeltaTable
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job.table_maintenance import TableMaintenance
from namesrv_stream.tables.root import Root

def die(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(DeltaTable, sys.argv[2], die)
root = Root(sys.argv[1])
TableMaintenance(root, NamesrvSettings.model_validate({"delta.root": root.url}), print).run_once()
"""


@pytest.mark.parametrize("at", ["vacuum", pytest.param("delete", marks=pytest.mark.full)])
def test_after_a_kill_in_the_middle_the_registry_and_its_maintenance_go_on(root, at):
    killed = subprocess.run([sys.executable, "-c", _PROGRAM, root.url, at], check=False, timeout=LIMIT_S)
    assert killed.returncode == -SIGKILL
    heir = claim(root, "second")
    heir.publish(batch(COUNT), NOW)
    TableMaintenance(root, settings(root), lambda _point: None).run_once()
    assert_shows_exactly(root, *range(COUNT + 1))
    heir.publish(batch(COUNT + 1), NOW)
    assert heir.restored == []
