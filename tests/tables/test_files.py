"""Tables that are followed by their commits show the rows that delta-rs shows."""

import random

import pytest
from deltalake import write_deltalake

from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.rows import FilterRow
from namesrv_stream.tables import files
from namesrv_stream.tables.arrow import rows_from_arrow, rows_to_arrow, with_partition_column
from namesrv_stream.tables.files import FollowedTable, TableFiles
from namesrv_stream.tables.root import FORMAT_PROPERTY, select
from namesrv_stream.tables.schemas import FILTER, FORMAT, LIVE, TOPIC
from namesrv_stream.tables.topic_queues import change_feed
from namesrv_stream.tables.writer import CommitTag, RowChanges
from tests.tables.rows import live, topic

TAG = CommitTag(1, 1)


def rows_at(root, spec, version):
    return sorted(rows_from_arrow(spec, select(root.open(spec, version), spec)))


def random_commit(writer, root, base, chosen):
    """Merge, compact, touch or restore; return the version after it."""
    match chosen.randrange(6):
        case 0:
            return writer.compact(FILTER, base)
        case 1:
            return writer.touch(FILTER, base, TAG)
        case 2 if base:
            return writer.restore(FILTER, base, chosen.randrange(base), TAG)
        case _:
            rows = [FilterRow(f"10.0.0.{chosen.randrange(9)}:10911", (str(base),))]
            there = [row for row in rows_at(root, FILTER, base) if row.broker_addr != rows[0].broker_addr]
            gone = [row[:1] for row in chosen.sample(there, min(1, len(there)))]
            return writer.merge(FILTER, base, RowChanges(rows, gone), TAG)


@pytest.mark.parametrize("seed", range(4))
def test_a_followed_table_shows_at_each_version_what_delta_rs_shows(writer, root, seed):
    chosen = random.Random(seed)
    table, base = FollowedTable(root, FILTER), 0
    for _ in range(12):
        base = random_commit(writer, root, base, chosen)
        if chosen.random() < 0.6:  # else several versions are followed at once
            assert sorted(rows_from_arrow(FILTER, table.rows(base))) == rows_at(root, FILTER, base)
    for version in (chosen.randrange(base), base):
        assert sorted(rows_from_arrow(FILTER, table.rows(version))) == rows_at(root, FILTER, version)


@pytest.fixture
def without_delta_rs(monkeypatch):
    """A function after which a followed table may no longer ask delta-rs."""

    def refuse(*_arguments):
        raise AssertionError("delta-rs was asked")

    return lambda: monkeypatch.setattr(FollowedTable, "_opened", refuse)


def test_one_commit_after_the_other_is_read_without_delta_rs(writer, root, without_delta_rs):
    table = FollowedTable(root, LIVE)
    base = writer.merge(LIVE, 0, RowChanges([live("a")]), TAG)
    table.rows(base)
    without_delta_rs()
    for address in "bc":
        base = writer.merge(LIVE, base, RowChanges([live(address)]), TAG)
        assert live(address) in rows_from_arrow(LIVE, table.rows(base))


def test_too_many_commits_are_left_to_delta_rs(writer, root, monkeypatch):
    table = FollowedTable(root, LIVE)
    table.rows(0)
    base = 0
    for address in "ab":
        base = writer.merge(LIVE, base, RowChanges([live(address)]), TAG)
    monkeypatch.setattr(files, "MOST_COMMITS", 1)
    assert TableFiles(root, LIVE).commits(0, base) is None
    assert sorted(rows_from_arrow(LIVE, table.rows(base))) == [live("a"), live("b")]


def test_a_commit_that_changes_properties_is_left_to_delta_rs_which_reads_the_format(writer, root):
    table = FollowedTable(root, LIVE)
    base = writer.merge(LIVE, 0, RowChanges([live("a")]), TAG)
    table.rows(base)
    root.open(LIVE).alter.set_table_properties({FORMAT_PROPERTY: str(FORMAT + 1)}, raise_if_not_exists=False)
    with pytest.raises(NamesrvError, match="registry format"):
        table.rows(base + 1)


def kinds(feed):
    """Each kind of change with its topic and version, in the feed's order."""
    return list(zip(*(feed[name].to_pylist() for name in ("_change_type", "topic", "_commit_version")), strict=True))


def test_files_that_a_commit_adds_or_removes_without_a_feed_of_its_own_are_rows_inserted_or_deleted(writer, root):
    table = root.open(TOPIC)
    for name in "tu":
        write_deltalake(table, with_partition_column(TOPIC, rows_to_arrow(TOPIC, [topic(name)])), mode="append")
    table.optimize.compact()
    table.delete()  # whole files
    feed = change_feed(TableFiles(root, TOPIC), 0, table.version())
    assert sorted(kinds(feed)) == [("delete", "t", 4), ("delete", "u", 4), ("insert", "t", 1), ("insert", "u", 2)]


def test_a_feed_up_to_its_own_version_is_empty_and_none_leads_back(writer, root):
    base = writer.merge(TOPIC, 0, RowChanges([topic("t")]), TAG)
    assert kinds(change_feed(TableFiles(root, TOPIC), base, base)) == []
    assert change_feed(TableFiles(root, TOPIC), base, 0) is None
