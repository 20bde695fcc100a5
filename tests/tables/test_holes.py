"""After any damage and its repair each answer about the past is the truth, or is refused with bounds that cover it."""

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.oracle import Oracle
from namesrv_stream.analysis.ask import ask
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NoSuchSnapshotError, PastUnknownError
from namesrv_stream.tables.holes import UnknownPast
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.repair import damages, drop_checkpoint, newest_readable, planned
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.tools.backup_file import content_of
from namesrv_stream.tools.restore import publish_repair, restore_content
from tests.random_logs import T0, logs
from tests.tables.lived import NO_SHRINKING, Lived, exact

NOTHING = exact(Oracle(NamesrvSettings()).registry.view())


def lose(file, _):
    file.unlink()


def cut(file, _):
    os.truncate(file, file.stat().st_size // 2)


def flip(file, chance):
    content = bytearray(file.read_bytes())
    at = chance.randrange(max(1, len(content) - 40))
    content[at : at + 40] = bytes(each ^ 255 for each in content[at : at + 40])
    file.write_bytes(content)


HARMS = {"lose": lose, "cut": cut, "flip": flip}
FILES = {
    "largest": lambda files: max(files, key=lambda file: file.stat().st_size),
    "first": min,
    "last": lambda files: max(files, key=lambda file: file.stat().st_mtime_ns),
}
PATTERNS = {"data": "**/*.parquet", "commit": "_delta_log/*.json"}


def harm(root, table, kind, which, how, chance):
    files = [file for file in Path(root.url, table).glob(PATTERNS[kind]) if kind == "commit" or "_log" not in str(file)]
    if files:
        HARMS[how](FILES[which](files), chance)


def mended(root):
    """Repair as the command does; return the epoch of which the tables are now."""
    found = damages(root)
    if checkpoints := [each for each in found if each.is_of_checkpoint]:
        for each in checkpoints:
            drop_checkpoint(root, each)
        found = damages(root)
    newest = newest_readable(root, found)
    if newest is None:
        return None
    plan = planned(root, found, newest)
    row = publish_repair(root, NamesrvSettings(), plan, None, "ann")
    assert damages(root) == []
    return newest.epoch, row, plan


def check(log, cuts, harms, moments, chance):
    with tempfile.TemporaryDirectory() as folder:
        lived = Lived(folder, log, cuts, 0)
        for each in harms:
            harm(lived.root, *each, chance)
        if (done := mended(lived.root)) is None:
            return
        last, row, plan = done
        check_epochs(lived, last, row, plan)
        check_times(lived, moments, last)
        check_restores(lived, last)


def check_epochs(lived, last, row, plan):
    reader = Registry(lived.root)
    for epoch, truth in lived.of_epoch.items():
        if epoch > last:
            continue
        try:
            assert exact(reader.at(epoch).routes) == truth, epoch
        except PastUnknownError as error:
            assert error.unknown.from_epoch <= epoch <= error.unknown.to_epoch
    if not plan.needs_full_registrations:
        assert exact(reader.newest().routes) == lived.of_epoch[last]
    assert reader.newest().snapshot.holes == row.holes


def check_times(lived, moments, last):
    reader = Registry(lived.root)
    for at_ms in (T0 + each for each in moments):
        truth = lived.at(at_ms)
        try:
            found = reader.at(at_ms=at_ms)
        except PastUnknownError:
            continue
        except NoSuchSnapshotError:
            assert truth in (None, NOTHING)
            continue
        is_before_repair = found.snapshot.epoch <= last and at_ms < max(lived.line_times, default=0)
        if truth is not None and is_before_repair:
            assert exact(found.routes) == truth, at_ms


def check_restores(lived, last):
    """An epoch is restored as it was, or not at all."""
    epoch = max(1, last // 2)
    try:
        content = content_of(Registry(lived.root).at(epoch))
    except PastUnknownError:
        return
    restore_content(lived.root, NamesrvSettings(), content, "ann", takes_over=True)
    found, truth = exact(Registry(lived.root).newest().routes), lived.of_epoch[epoch]
    assert found.keys() == truth.keys()
    assert {name: len(rows) for name, rows in found.items()} == {name: len(rows) for name, rows in truth.items()}


@pytest.mark.parametrize("examples", [12, pytest.param(150, marks=pytest.mark.full)])
def test_the_past_is_the_truth_or_refused_after_any_damage_and_its_repair(examples):
    a_harm = st.tuples(*(st.sampled_from(sorted(each)) for each in (TABLES, PATTERNS, FILES, HARMS)))

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=NO_SHRINKING)
    @given(
        logs(),
        st.sets(st.integers(0, 60), min_size=4, max_size=8),
        st.lists(a_harm, min_size=1, max_size=2),
        st.lists(st.integers(-1_000, 700_000), min_size=3, max_size=6),
        st.randoms(use_true_random=False),
    )
    def of_random_damage(log, cuts, harms, moments, chance):
        check(log, cuts, harms, moments, chance)

    of_random_damage()


VIEWS = {
    "broker_session": "cluster_name, broker_name, broker_id, last_addr, greatest(from_time, {at}), to_time, ended_by",
    "topic_session": "topic, broker_name, greatest(from_time, {at}), to_time",
    "broker_release": "broker_key, broker_addr, broker_version, greatest(from_time, {at}), to_time",
    "topic_stretch": "measure, topic, broker_name, greatest(from_ms, {ms}), up_until_ms",
}
"""View -> its columns; a session that began before the time at which the history begins to be whole begins there."""
ENDS = {"topic_stretch": "up_until_ms > {ms} AND from_ms < up_until_ms"}


def view_rows(root, view, at_ms, epoch):
    """The rows of a view that end after a time."""
    names = {"at": f"make_timestamptz({at_ms} * 1000)", "ms": at_ms}
    until = ENDS.get(view, "coalesce(to_time > {at}, true) AND coalesce(to_time > from_time, true)").format(**names)
    return Counter(
        map(str, ask(root, f"SELECT {VIEWS[view].format(**names)} FROM {view} WHERE {until}", epoch).to_pylist())
    )


@pytest.mark.filterwarnings("ignore:The history .* is not known:UserWarning")
@pytest.mark.parametrize("examples", [4, pytest.param(60, marks=pytest.mark.full)])
def test_after_lost_lines_the_views_are_what_they_were(examples):
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=NO_SHRINKING)
    @given(logs(), st.sets(st.integers(0, 60), min_size=5, max_size=8), st.sampled_from(["broker_event", "row_change"]))
    def of_random_logs(log, cuts, table):
        with tempfile.TemporaryDirectory() as folder:
            lived = Lived(f"{folder}/damaged", log, cuts, 0)
            shutil.copytree(lived.root.url, f"{folder}/whole")
            files = sorted(Path(lived.root.url, table).glob("*/*.parquet"), key=lambda file: file.stat().st_mtime_ns)
            if len(files) < 3:
                return
            files[len(files) // 2].unlink()
            last, row, _ = mended(lived.root)
            unknown = UnknownPast.of(row)
            for view in VIEWS:
                at_ms, epoch = unknown.until_millis, last
                truth = view_rows(f"{folder}/whole", view, at_ms, epoch)
                assert view_rows(lived.root, view, at_ms, epoch) == truth, view

    of_random_logs()
