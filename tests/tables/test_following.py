"""A reader that is there before the first snapshot."""

import pytest

from namesrv_stream.errors import NoSuchSnapshotError
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter


def test_a_reader_that_was_opened_on_empty_tables_follows_the_first_snapshot(tmp_path):
    writer = RustWriter(Root(str(tmp_path)))
    writer.ensure_tables(retention_ms=86_400_000)
    reader = RouteReader(str(tmp_path))
    with pytest.raises(NoSuchSnapshotError):
        reader.follow()
    Publisher.claim(writer, "run", 1)
    assert reader.follow().snapshot.epoch == 1
