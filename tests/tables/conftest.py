import pytest

from namesrv_stream.tables.root import DEFAULT_RETENTION_MS, Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.spark_writer import SparkWriter


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


@pytest.fixture
def rust(root):
    return RustWriter(root)


@pytest.fixture(params=["rust", pytest.param("spark", marks=pytest.mark.spark)])
def make_writer(request):
    """One engine after the other, as `Root -> TableWriter`."""
    if request.param == "rust":
        return RustWriter
    spark = request.getfixturevalue("spark")
    return lambda root: SparkWriter(spark, root)


@pytest.fixture
def writer(make_writer, root):
    """One engine after the other, on fresh tables; delta-rs makes them, in a hundredth of Spark's time."""
    RustWriter(root).ensure_tables(DEFAULT_RETENTION_MS)
    return make_writer(root)
