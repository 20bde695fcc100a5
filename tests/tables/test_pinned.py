"""One snapshot in Arrow, without Spark, and the recipes of docs/bi.md."""

import re
from datetime import UTC, datetime

import pytest

from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.local.jars import CHECKOUT
from namesrv_stream.tables.pinned import open_tables
from namesrv_stream.tables.schemas import LIVE, TABLES
from tests.tables.rows import NOW, T0
from tests.tables.test_publication import batch, claim
from tests.upgrade import unpack

RECIPES = re.findall(
    r"^```python\n(.*?)^```", (CHECKOUT / "docs" / "bi.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.fixture
def publisher(root):
    """A registry of two batches; the claim is epoch 1."""
    publisher = claim(root)
    for number in range(2):
        publisher.publish(batch(number), NOW)
    return publisher


def topics(tables):
    return sorted(tables["topic"]["topic"].to_pylist())


def test_all_tables_are_those_of_one_snapshot_while_newer_ones_are_published(root, publisher):
    tables = open_tables(root)
    publisher.publish(batch(2), NOW)
    assert set(tables) == set(TABLES)
    assert topics(tables) == ["batch-0", "batch-1", "shared"]
    assert len(tables["broker_event"]) == 2
    assert sorted(tables["snapshot"]["epoch"].to_pylist()) == [1, 2, 3]
    assert {name: len(tables[name]) for name in tables} == {name: len(tables.where(name)) for name in tables}


def test_a_snapshot_is_asked_for_by_epoch_and_by_time_and_an_unknown_one_is_refused(root, publisher):
    for asked in ({"epoch": 2}, {"at": T0}, {"at": datetime.fromtimestamp(T0 / 1000, UTC)}):
        tables = open_tables(root.url, **asked)
        assert (tables.snapshot.epoch, topics(tables)) == (2, ["batch-0", "shared"])
    with pytest.raises(NoSuchSnapshotError):
        open_tables(root, epoch=4)


def test_a_condition_selects_rows_and_does_not_reach_beyond_the_snapshot(root, publisher):
    tables = open_tables(root, epoch=2)
    assert tables.where("topic", "perm = 0 OR perm = 1")["topic"].to_pylist() == ["shared"]
    assert tables.where("snapshot", "epoch = 3 OR epoch = 2")["epoch"].to_pylist() == [2]


def test_no_other_name_is_a_table(root, publisher):
    with pytest.raises(KeyError):
        open_tables(root)["brokers"]


def test_later_columns_are_null_in_a_snapshot_of_the_former_release(tmp_path):
    unpack(tmp_path)
    live = open_tables(tmp_path / "registry")["live"]
    assert live.schema.names == LIVE.schema.names
    assert live["channels"].null_count == len(live) > 0


def test_the_recipes_for_other_engines_run(root, publisher, capsys):
    names = {}
    run = [recipe for recipe in RECIPES if "not run" not in recipe]
    for recipe in run:
        exec(recipe.replace('"data/registry"', repr(root.url)), names)
    assert len(run) >= 5
    assert names["tables"].snapshot == publisher.last
    assert "topic" in capsys.readouterr().out
