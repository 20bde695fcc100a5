"""The behaviour of delta-rs on which publication relies."""

import random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from namesrv_stream.errors import NotARegistryError, TablesTooNewError
from namesrv_stream.rules.rows import ClusterRow, SnapshotRow
from namesrv_stream.tables.arrow import (
    row_changes_to_arrow,
    rows_from_arrow,
    rows_to_arrow,
    topic_bucket,
    with_partition_column,
)
from namesrv_stream.tables.repair import last_rows
from namesrv_stream.tables.root import DAY_MS, fields_to_add, select, table_properties
from namesrv_stream.tables.schemas import (
    BROKER,
    BROKER_EVENT,
    CLUSTER,
    FORMAT,
    LIVE,
    ROW_CHANGE,
    SNAPSHOT,
    TABLES,
    TOPIC,
)
from namesrv_stream.tables.writer import BaseMovedError, CommitTag, RowChanges, RustWriter, holds_rows_of
from tests.tables.rows import T0, broker, event, line_of, live, topic

TAG = CommitTag(epoch=2, term=1)


def rows_at(writer, spec, version):
    return sorted(rows_from_arrow(spec, writer.read(spec, version)))


def test_keys_of_two_columns_are_told_apart_where_their_texts_joined_are_alike(writer):
    rows = [ClusterRow(*key) for key in (("a/", "b"), ("a", "/b"), ("a", "b"))]
    base = writer.merge(CLUSTER, 0, RowChanges(rows), TAG)
    assert rows_at(writer, CLUSTER, writer.merge(CLUSTER, base, RowChanges(deletes=rows[:1]), TAG)) == sorted(rows[1:])


def test_rows_that_another_writer_restored_are_the_ones_that_stay(writer, root):
    """A writer keeps the rows that it wrote last; they count for the version that it wrote alone."""
    first = writer.merge(LIVE, 0, RowChanges([live("kept")]), TAG)
    second = writer.merge(LIVE, first, RowChanges([live("unpublished")]), TAG)
    restored = RustWriter(root).restore(LIVE, second, first, TAG)
    last = writer.merge(LIVE, restored, RowChanges([live("new")]), TAG)
    assert rows_at(writer, LIVE, last) == [live("kept"), live("new")]


def commit_nothing(root, spec):
    table = root.open(spec)
    table.create_write_transaction([], "append", table.schema())


WRITES = {
    "merge": lambda writer: writer.merge(TOPIC, 0, RowChanges([topic("t")]), TAG),
    "rewrite": lambda writer: writer.merge(LIVE, 0, RowChanges([live("a")]), TAG),
    "append": lambda writer: writer.append(BROKER_EVENT, 0, rows_to_arrow(BROKER_EVENT, [event("a")]), TAG),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_a_write_on_a_base_that_has_moved_changes_nothing(writer, root, write):
    foreign = RustWriter(root)
    for spec in (TOPIC, LIVE, BROKER_EVENT):
        commit_nothing(root, spec)
    with pytest.raises(BaseMovedError):
        write(writer)
    assert [foreign.head(spec) for spec in (TOPIC, LIVE, BROKER_EVENT)] == [1, 1, 1]


def test_a_restore_on_a_head_that_has_moved_changes_nothing(writer, root):
    half = writer.merge(TOPIC, 0, RowChanges([topic("half")]), TAG)
    commit_nothing(root, TOPIC)
    with pytest.raises(BaseMovedError):
        writer.restore(TOPIC, half, 0, TAG)
    assert writer.head(TOPIC) == half + 1


def test_a_foreign_commit_between_look_and_commit_is_not_rebased_on(writer, root, monkeypatch):
    """The writer believes the head it saw; the table has moved since. Delta would rebase an append silently."""
    look = type(writer).head

    def late_foreign_commit(self, spec):
        seen = look(self, spec)
        if seen == 0:
            commit_nothing(root, BROKER_EVENT)
        return seen

    monkeypatch.setattr(RustWriter, "head", late_foreign_commit)
    writer.head(BROKER_EVENT)
    with pytest.raises(BaseMovedError):
        WRITES["append"](writer)


def test_compaction_keeps_the_rows_in_fewer_files_of_the_newest_month(writer, root):
    base = 0
    events = [event(str(number), T0 + number // 2 * 40 * DAY_MS) for number in range(4)]
    for each in events:
        base = writer.append(BROKER_EVENT, base, rows_to_arrow(BROKER_EVENT, [each]), TAG)
    compacted = writer.compact(BROKER_EVENT, base)
    assert [writer.file_count(BROKER_EVENT, version) for version in (base, compacted)] == [2, 1]
    assert len(root.open(BROKER_EVENT, compacted).file_uris()) == 2 + 1
    assert rows_at(writer, BROKER_EVENT, compacted) == events
    assert holds_rows_of(writer.commits(BROKER_EVENT, base), base)


BUCKETED = ["broker-a", "broker-b", "broker-c"]
"""Broker names of three buckets."""


def bucket_files(root, version):
    files = pa.table(root.open(TOPIC, version).get_add_actions(flatten=True)).to_pylist()
    return {file["path"]: file["partition.bucket"] for file in files}


def test_a_merge_writes_the_files_of_its_buckets_and_no_others(writer, root):
    assert len({topic_bucket(name) for name in BUCKETED}) == len(BUCKETED)
    first = writer.merge(TOPIC, 0, RowChanges([topic("t", name) for name in BUCKETED]), TAG)
    second = writer.merge(TOPIC, first, RowChanges([topic("t", "broker-b", perm=4)], [("t", "broker-c")]), TAG)
    before, after = bucket_files(root, first), bucket_files(root, second)
    assert [before[path] for path in before.keys() & after.keys()] == [topic_bucket("broker-a")]
    assert rows_at(writer, TOPIC, second) == [topic("t"), topic("t", "broker-b", perm=4)]


def test_compaction_leaves_one_file_a_bucket(writer, root):
    base = 0
    for number in range(3):
        base = writer.merge(TOPIC, base, RowChanges([topic(str(number), name) for name in BUCKETED]), TAG)
    compacted = writer.compact(TOPIC, base)
    assert [writer.file_count(TOPIC, version) for version in (base, compacted)] == [6, 0]
    assert sorted(bucket_files(root, compacted).values()) == sorted(map(topic_bucket, BUCKETED))
    assert rows_at(writer, TOPIC, compacted) == rows_at(writer, TOPIC, base)


def test_the_bucket_of_a_broker_name_never_changes():
    """Stored rows lie in the bucket that it gave."""
    assert [topic_bucket(name) for name in ("", "broker-a", "brökèr")] == ["00", "16", "09"]


def test_compaction_leaves_a_file_that_maintenance_has_put_in_order(writer, root, monkeypatch):
    wide = event("in order")._replace(command=random.randbytes(50_000).hex())
    ordered = writer.append(BROKER_EVENT, 0, rows_to_arrow(BROKER_EVENT, [wide]), TAG)
    [[large, size]] = [[each["path"], each["size_bytes"]] for each in files_of(root, ordered)]
    monkeypatch.setattr("namesrv_stream.tables.writer.SMALL_EVENT_FILE_BYTES", size)
    base = ordered
    for number in range(3):
        base = writer.append(BROKER_EVENT, base, rows_to_arrow(BROKER_EVENT, [event(str(number))]), TAG)
    left = [each["path"] for each in files_of(root, writer.compact(BROKER_EVENT, base))]
    assert (len(left), large in left) == (2, True)


def files_of(root, version):
    return pa.table(root.open(BROKER_EVENT, version).get_add_actions()).to_pylist()


def test_newest_snapshot_is_the_highest_epoch_whatever_the_order_of_files(writer):
    assert writer.newest_snapshot() == (None, 0)
    base = 0
    for epoch in (1, 3, 2):
        row = SnapshotRow(epoch, 1, "run", None, None, T0, None, {0: 9}, {"topic": epoch}, {})
        base = writer.append(SNAPSHOT, base, rows_to_arrow(SNAPSHOT, [row]), TAG)
    newest, version = writer.newest_snapshot()
    assert (newest.epoch, newest.offsets, newest.versions, version) == (3, {0: 9}, {"topic": 3}, base)


def test_replaced_files_stay_an_hour_and_maintenance_alone_shortens_the_log_of_named_versions(root):
    RustWriter(root).ensure_tables()
    for spec in TABLES.values():
        properties = root.open(spec).metadata().configuration
        assert properties["registry.format"] == str(FORMAT)
        assert properties["delta.deletedFileRetentionDuration"] == "interval 4200 seconds"
        assert properties["delta.enableExpiredLogCleanup"] == str(spec is SNAPSHOT).lower()


def test_tables_that_are_there_are_kept_and_follow_a_new_retention(writer, root):
    version = writer.merge(TOPIC, 0, RowChanges([topic("t")]), TAG)
    writer.ensure_tables(exact_ms=2 * 3_600_000)
    assert rows_at(writer, TOPIC, writer.head(TOPIC)) == [topic("t")]
    assert holds_rows_of(writer.commits(TOPIC, version), version)
    properties = root.open(TOPIC).metadata().configuration
    assert properties["delta.deletedFileRetentionDuration"] == "interval 7800 seconds"


def test_a_newer_registry_format_is_refused(writer, root):
    newer = {"registry.format": str(FORMAT + 1), "registry.release": "9.8.7"}
    root.open(TOPIC).alter.set_table_properties(newer, raise_if_not_exists=False)
    with pytest.raises(TablesTooNewError, match=rf"format {FORMAT + 1}.*up to {FORMAT}.*start 9\.8\.7 or a later"):
        RustWriter(root).ensure_tables()


def test_a_release_that_added_a_column_is_named_to_one_that_would_leave_it_empty(writer, root):
    root.open(BROKER).alter.add_columns([Field("later", PrimitiveType("string"))])
    root.open(BROKER).alter.set_table_properties({"registry.release": "0.9.0"}, raise_if_not_exists=False)
    with pytest.raises(TablesTooNewError, match=r"table broker .*\(later\).*start 0\.9\.0 or a later"):
        RustWriter(root).ensure_tables()


def without_zone(schema):
    """A schema of a release that did not know zones, in the table `broker` and in the structs of `row_change`."""
    fields = [field for field in schema if field.name != "zone_name"]
    kinds = [pa.struct(without_zone(each.type)) if pa.types.is_struct(each.type) else each.type for each in fields]
    return [pa.field(each.name, kind, metadata=each.metadata) for each, kind in zip(fields, kinds, strict=True)]


def test_tables_of_a_release_with_a_column_fewer_get_it_also_in_structs_and_their_rows_have_none(root):
    writer = RustWriter(root)
    old, new = ({("broker-a", number): broker(number, zone)} for number, zone in ((0, None), (1, "z")))
    of_old, of_new = (
        {BROKER: rows_to_arrow(BROKER, rows.values()), ROW_CHANGE: row_changes_to_arrow(2, [line_of(broker=rows)])}
        for rows in (old, new)
    )
    for spec, rows in of_old.items():
        schema = pa.schema(without_zone(spec.stored_schema))
        DeltaTable.create(
            root.uri(spec),
            schema,
            partition_by=spec.partition_column,
            configuration=table_properties(spec),
            raise_if_key_not_exists=False,
        )
        stored = with_partition_column(spec, rows).select(schema.names).cast(schema)
        write_deltalake(root.uri(spec), stored, mode="append")

    def rows_read():
        found = {spec: select(root.open(spec), spec) for spec in of_old}
        return sorted(rows_from_arrow(BROKER, found[BROKER])), last_rows(BROKER, found[ROW_CHANGE], 2)

    assert rows_read() == ([*old.values()], old)
    assert len(select(root.open(BROKER), BROKER, "zone_name IS NULL")) == 1, "a condition sees NULL too"
    for spec in of_old:
        writer.ensure_table(spec)
    assert not any(fields_to_add(root, spec, root.open(spec)) for spec in of_old)
    for spec, rows in of_new.items():
        writer.append(spec, writer.head(spec), rows, TAG)
    assert rows_read() == ([*old.values(), *new.values()], old | new)


def test_a_delta_table_that_is_no_registrys_is_refused(root):
    write_deltalake(root.uri(TOPIC), pa.table({"x": [1]}))
    with pytest.raises(NotARegistryError):
        RustWriter(root).ensure_tables()
    assert DeltaTable(root.uri(TOPIC)).version() == 0
