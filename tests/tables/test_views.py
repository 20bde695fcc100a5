"""A snapshot as analysts see it in Spark."""

import re
from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality

from namesrv_stream.analysis.views import open_snapshot, table_as_of
from namesrv_stream.rules.rows import RowChange
from namesrv_stream.tables.arrow import rows_to_arrow, with_partition_column
from namesrv_stream.tables.publication import Batch
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import LIVE, TABLES, TOPIC
from namesrv_stream.tables.writer import RowChanges
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.tables.batches import claim, publish
from tests.tables.rows import NOW, T0, event, live, topic

pytestmark = pytest.mark.spark


def assert_view_holds(spark, spec, rows):
    wanted = spark.createDataFrame(with_partition_column(spec, rows_to_arrow(spec, rows)))
    assert_df_equality(
        spark.table(spec.name), wanted, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )


def test_views_show_one_snapshot_by_epoch_by_time_and_the_newest(spark, root):
    publisher = claim(root)
    publish(publisher, 0, topic=[topic("t", perm=0)], live=[live("a")])
    changed = RowChange("topic", ("t", "broker-a"), topic("t", perm=0), topic("t", perm=1))
    line = event("a", T0 + 1)._replace(changes=(changed,))
    rows = {"topic": RowChanges([changed.after])}
    publisher.publish(Batch("query", 1, T0 + 1, {0: 1}, rows, [line]), NOW)
    publish(publisher, 2, live=[live("a", T0 + 2)])
    first_moment = datetime.fromtimestamp(T0 / 1000, UTC)
    for asked, epoch, perm, seen_ms in (
        ({"epoch": 3}, 3, 1, T0 + 1),  # heard since, at a time that is not known any more
        ({"at": first_moment}, 2, 0, T0),
        ({}, 4, 1, T0 + 2),
    ):
        assert open_snapshot(spark, root.url, **asked).epoch == epoch
        if not asked:  # the views stay at their snapshot
            publish(publisher, 3, topic=[topic("t", perm=3)], live=[live("a", T0 + 3)])
        assert_view_holds(spark, TOPIC, [topic("t", perm=perm)])
        assert_view_holds(spark, LIVE, [live("a", seen_ms)])


def test_views_read_a_folder_whose_name_reads_like_a_pattern(spark, tmp_path):
    root = Root(str(tmp_path / "{a,b} c*?"))
    publish(claim(root), 0, topic=[topic("t"), topic("u", "broker-b")])
    open_snapshot(spark, root)
    assert_view_holds(spark, TOPIC, [topic("t"), topic("u", "broker-b")])


def test_rows_that_spark_marks_as_deleted_in_their_file_are_not_seen(spark, root):
    publish(claim(root), 0, topic=[topic("t"), topic("u")])
    table = f"delta.`{root.spark_path(TOPIC)}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table} WHERE topic = 't'")
    assert root.open(TOPIC).protocol().min_reader_version == 3
    assert [row.topic for row in table_as_of(spark, root, TOPIC).collect()] == ["u"]


def test_a_table_that_delta_was_told_to_spread_over_random_folders_shows_all_its_rows(spark, root):
    publish(claim(root), 0, topic=[topic("t")])
    properties = "SET TBLPROPERTIES ('delta.randomizeFilePrefixes' = 'true')"
    spark.sql(f"ALTER TABLE delta.`{root.spark_path(TOPIC)}` {properties}")
    more = spark.createDataFrame(with_partition_column(TOPIC, rows_to_arrow(TOPIC, [topic("u", "broker-b")])))
    more.write.format("delta").mode("append").save(root.spark_path(TOPIC))
    assert root.open(TOPIC).protocol().min_reader_version == 1
    assert sorted(row.topic for row in table_as_of(spark, root, TOPIC).collect()) == ["t", "u"]


def test_views_are_read_as_parquet_and_not_by_deltas_reader(spark, root):
    publish(claim(root), 0, topic=[topic("t")], live=[live("a")])
    open_snapshot(spark, root)
    for spec in (TOPIC, LIVE):
        plan = spark.table(spec.name)._jdf.queryExecution().executedPlan().toString()
        assert ("InMemoryFileIndex" in plan, "Delta" in plan) == (True, False)


@pytest.fixture
def schema(spark):
    """An empty schema of the metastore."""
    spark.sql("CREATE SCHEMA routes")
    yield "routes"
    spark.sql("DROP SCHEMA routes CASCADE")


def test_a_table_of_a_metastore_at_a_folder_shows_the_newest_version_and_writes_nothing(spark, root, schema):
    publisher = claim(root)
    publish(publisher, 0, topic=[topic("t", perm=0)])
    heads = {name: root.open(spec).version() for name, spec in TABLES.items()}
    page = (CHECKOUT / "docs" / "bi.md").read_text("utf-8")
    [statement] = re.findall(r"^(CREATE TABLE .*);$", page, re.MULTILINE)
    spark.sql(statement.replace("/data/registry", root.url))
    assert {name: root.open(spec).version() for name, spec in TABLES.items()} == heads
    publish(publisher, 1, topic=[topic("t", perm=1)])
    assert [row.perm for row in spark.sql(f"SELECT perm FROM {schema}.newest_topic").collect()] == [1]
    described = {row.col_name: row.comment for row in spark.sql(f"DESCRIBE {schema}.newest_topic").collect()}
    assert described["topic"] == "Name of the topic."
