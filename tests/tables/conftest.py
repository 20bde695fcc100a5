import pytest

from namesrv_stream.tables import rust_writer, spark_writer
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


BOOKKEEPING = pytest.mark.parametrize(
    "make_writer", ["rust", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.full])], indirect=True
)
"""Of what Spark does only where delta-rs does not reach the storage: seldom, and in seconds."""


@pytest.fixture
def writer(make_writer, root):
    """One engine after the other, on fresh tables; delta-rs makes them, in a hundredth of Spark's time."""
    RustWriter(root).ensure_tables(DEFAULT_RETENTION_MS)
    return make_writer(root)


@pytest.fixture
def limit_tables(monkeypatch):
    """A function that lets writers know some tables alone: making one costs Spark a second."""

    def limit(*specs):
        for module in (rust_writer, spark_writer):
            monkeypatch.setattr(module, "TABLES", {spec.name: spec for spec in specs})

    return limit
