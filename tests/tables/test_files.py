"""Tables that stay open while they are read at further versions, and their files by the commits in between."""

import random

import pytest

from namesrv_stream.rules.rows import FilterRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.root import OpenTables, Root, select
from namesrv_stream.tables.schemas import FILTER
from namesrv_stream.tables.writer import CommitTag, RowChanges

TAG = CommitTag(1, 1)


def rows_at(root, spec, version):
    return sorted(rows_from_arrow(spec, select(root.open(spec, version), spec)))


def followed_rows(followed, version):
    return sorted(rows_from_arrow(FILTER, select(followed.at(FILTER, version), FILTER)))


def random_commit(writer, root, base, chosen):
    """Merge, compact or restore; return the version after it."""
    match chosen.randrange(5):
        case 0:
            return writer.compact(FILTER, base)
        case 2 if base:
            return writer.restore(FILTER, base, chosen.randrange(base), TAG)
        case _:
            rows = [FilterRow(f"10.0.0.{chosen.randrange(9)}:10911", (str(base),))]
            there = [row for row in rows_at(root, FILTER, base) if row.broker_addr != rows[0].broker_addr]
            gone = [row[:1] for row in chosen.sample(there, min(1, len(there)))]
            return writer.merge(FILTER, base, RowChanges(rows, gone), TAG)


@pytest.mark.parametrize(
    "spelled", ["s3://bucket/registry", "s3a://bucket/registry/", "registry", "./registry/", "link"]
)
def test_a_root_has_one_name_however_it_is_spelled(tmp_path, monkeypatch, spelled):
    """Jobs that wait for each other have to find each other."""
    (tmp_path / "link").symlink_to(tmp_path / "registry")
    monkeypatch.chdir(tmp_path)
    name = "s3a://bucket/registry" if "s3" in spelled else str((tmp_path / "registry").resolve())
    assert Root(spelled).hadoop_url == Root(name).hadoop_url == name


@pytest.mark.parametrize("seed", range(2))
def test_a_followed_table_shows_at_each_version_what_a_table_shows_that_is_opened_there(writer, root, seed):
    chosen = random.Random(seed)
    followed, base = OpenTables(root), 0
    for _ in range(12):
        base = random_commit(writer, root, base, chosen)
        if chosen.random() < 0.6:  # else several versions are followed at once
            assert followed_rows(followed, base) == rows_at(root, FILTER, base)
    for version in (chosen.randrange(base), base):
        assert followed_rows(followed, version) == rows_at(root, FILTER, version)
