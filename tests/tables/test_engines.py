"""The setting `writer`."""

import pytest

from namesrv_stream.tables.engines import BULK_ROWS, choose_writers, delta_rs_reaches
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.spark_writer import SparkWriter

NOWHERE = Root("hdfs://127.0.0.1:1/registry")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("setting", "books", "small_change", "bulk_change"),
    [
        ("rust", RustWriter, RustWriter, RustWriter),
        ("spark", RustWriter, SparkWriter, SparkWriter),
        ("auto", RustWriter, RustWriter, SparkWriter),
    ],
)
def test_each_change_goes_to_the_engine_that_the_setting_names(spark, root, setting, books, small_change, bulk_change):
    writers = choose_writers(setting, root, spark)
    chosen = (writers.everyday, writers.for_change(BULK_ROWS - 1), writers.for_change(BULK_ROWS))
    assert tuple(map(type, chosen)) == (books, small_change, bulk_change)


@pytest.mark.spark
@pytest.mark.parametrize("setting", ["spark", "auto"])
def test_spark_does_everything_where_delta_rs_does_not_reach(spark, setting):
    writers = choose_writers(setting, NOWHERE, spark)
    assert isinstance(writers.everyday, SparkWriter)
    assert writers.for_change(1) is writers.everyday


def test_delta_rs_reaches_a_folder_that_is_not_made_yet_but_no_dead_name_node(root):
    assert delta_rs_reaches(root)
    assert not delta_rs_reaches(NOWHERE)
