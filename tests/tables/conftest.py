import pytest

from namesrv_stream.tables import rust_writer
from namesrv_stream.tables.root import DEFAULT_RETENTION_MS, Root
from namesrv_stream.tables.rust_writer import RustWriter


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))


@pytest.fixture
def writer(root):
    """On fresh tables."""
    writer = RustWriter(root)
    writer.ensure_tables(DEFAULT_RETENTION_MS)
    return writer


@pytest.fixture
def limit_tables(monkeypatch):
    """A function that lets the writer know some tables alone."""

    def limit(*specs):
        monkeypatch.setattr(rust_writer, "TABLES", {spec.name: spec for spec in specs})

    return limit
