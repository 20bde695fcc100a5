"""The job's own maintenance: beside its publications, bounded, off by a setting, and whole after a `kill -9`."""

import subprocess
import sys
import threading
from signal import SIGKILL

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.thinning import YOUNG_STEP_MS
from namesrv_stream.stream import table_care
from namesrv_stream.stream.table_care import OutOfTimeError, TableCare
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.tables.snapshots import Snapshots
from tests.tables.rows import NOW
from tests.tables.test_publication import assert_shows_exactly, batch, claim

LIMIT_S = 60.0
COUNT = 24
BEGIN = NOW - NOW % YOUNG_STEP_MS - COUNT * YOUNG_STEP_MS


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


@pytest.fixture
def publisher(root):
    """After 24 publications, all in one step long ago: maintenance leaves the last of them."""
    publisher = claim(root, at_ms=BEGIN)
    for number in range(COUNT):
        publisher.publish(batch(number), BEGIN + number)
    return publisher


def settings(root, every_ms=1):
    return NamesrvSettings.model_validate({"delta.root": root.url, "maintenanceMillis": every_ms})


def test_a_publication_waits_for_no_maintenance_and_both_hold(root, publisher):
    """The maintenance stands still before each table while a publication comes."""
    at_table, published, done = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def wait(point):
        if point == "maintained":
            done.set()
        elif not done.is_set():
            at_table.release()
            assert published.acquire(timeout=LIMIT_S)

    with TableCare(root, settings(root), wait):
        for number in range(COUNT, COUNT + len(TABLES)):
            assert at_table.acquire(timeout=LIMIT_S)
            publisher.publish(batch(number), NOW)
            published.release()
        for _ in range(2):  # for the tables of maintenance
            published.release()
        assert done.wait(LIMIT_S)
    publisher.publish(batch(COUNT + len(TABLES)), NOW)
    assert publisher.restored == []
    assert_shows_exactly(root, *range(COUNT + len(TABLES) + 1))
    assert [row.epoch for row in Snapshots(root).all()][:2] == [COUNT, COUNT + 1]


def test_no_maintenance_runs_when_the_setting_is_0(root, publisher):
    points = []
    with TableCare(root, settings(root, every_ms=0), points.append) as care:
        assert not care._thread.is_alive()  # noqa: SLF001
    assert points == []


def test_a_maintenance_whose_time_is_up_leaves_the_rest_to_the_next(root, publisher, monkeypatch):
    monkeypatch.setattr(table_care, "LIMIT_S", -1.0)
    care = TableCare(root, settings(root), lambda _point: None)
    with pytest.raises(OutOfTimeError):
        care.look_after()
    monkeypatch.undo()
    care.look_after()
    assert len(Snapshots(root).all()) == 2


_PROGRAM = """
import os, signal, sys
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.stream.table_care import TableCare
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.thinning import Thinning

removed, remove = [], Thinning._is_removed
def remove_and_die(self, spec, name):
    removed.append(name)
    if len(removed) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return remove(self, spec, name)

Thinning._is_removed = remove_and_die
root = Root(sys.argv[1])
TableCare(root, NamesrvSettings.model_validate({"delta.root": root.url}), print).look_after()
"""


@pytest.mark.parametrize("at", [1, 30])
def test_after_a_kill_in_the_middle_the_registry_and_its_maintenance_go_on(root, publisher, at):
    killed = subprocess.run([sys.executable, "-c", _PROGRAM, root.url, str(at)], check=False, timeout=LIMIT_S)
    assert killed.returncode == -SIGKILL
    heir = claim(root, "second")
    heir.publish(batch(COUNT), NOW)
    TableCare(root, settings(root), lambda _point: None).look_after()
    assert_shows_exactly(root, *range(COUNT + 1))
    assert [row.epoch for row in Snapshots(root).all()] == [COUNT, COUNT + 1, COUNT + 2, COUNT + 3][1:]
    heir.publish(batch(COUNT + 1), NOW)
    assert heir.restored == []
