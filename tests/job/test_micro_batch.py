"""One micro-batch on the driver: rows of the query in, published tables out. Real Delta."""

import threading
from pathlib import Path

import pytest
from pyspark.sql.functions import udf

from namesrv_stream.job import micro_batch
from namesrv_stream.job.micro_batch import AbandonedError, BrokenOffError
from namesrv_stream.tables import publication
from tests.job.batches_run import QUERY, T0, A, B, Registry, as_table, event, heartbeat, registered, tick, unregistered
from tests.waiting import until


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path / "registry")


class Query:
    """A query of Spark whose micro-batches `batches` handles; `raised` are the kinds of their errors."""

    def __init__(self, rows, batches, checkpoint):
        self.raised = []
        self._batches, self._came = batches, threading.Event()
        writer = rows.writeStream.foreachBatch(self._handle).option("checkpointLocation", str(checkpoint))
        self._query = writer.start()

    def _handle(self, frame, batch_id):
        self._came.set()
        try:
            self._batches(frame, batch_id)
        except Exception as error:
            self.raised.append(type(error))
            raise

    def await_batch(self):
        assert self._came.wait(60)

    def stop(self):
        self._query.stop()
        assert self._query.exception() is None


def test_a_batch_that_comes_too_late_is_interrupted_without_the_stack_on_which_spark_overflows(
    registry, spark, tmp_path
):
    registry.batches.close()
    query = Query(spark.readStream.format("rate").load(), registry.batches, tmp_path / "checkpoint")
    query.await_batch()
    query.stop()
    assert query.raised == [BrokenOffError]


def test_a_stop_does_not_wait_for_rows_that_spark_computes_for_long(registry, spark, tmp_path, monkeypatch):
    monkeypatch.setattr(micro_batch, "COLLECT_LIMIT_S", 0.2)
    runs = tmp_path / "runs"
    slow = udf(lambda _value: runs.touch() or threading.Event().wait(100), "boolean")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().select(slow("value"))
    query = Query(rows, registry.batches, tmp_path / "checkpoint")
    until(runs.exists, limit_s=60)
    registry.batches.close()
    assert registry.publisher.last.kind == "STOP"
    query.stop()
    assert query.raised == [BrokenOffError]


def test_nothing_of_a_failed_batch_is_published_when_the_job_stops(registry):
    registry.handle(registered(A, 0, 0))
    registry.handle(heartbeat(A, 5_000, 1))
    before = registry.heads()
    lost = registered(A, 6_001, 3, topics=[f"Topic{number}" for number in range(100)])
    rows = as_table([registered(B, 6_000, 2).stored, lost.stored])
    with pytest.raises(KeyError):  # the log has no value for what was too long to come with the batch
        registry.batches.handle(rows, QUERY, 2)
    registry.batches.close()
    assert registry.heads() == before


def test_a_record_outside_the_contract_is_kept(registry):
    long = event("", 5, 3, b"x" * 65_537, key=b"\xff")
    registry.handle(long, event("", 6, 4, None))
    first, tombstone = sorted(registry.rows("rejected"))
    assert (first.event_time, first.offset, first.key, first.length) == (T0 + 5, 3, "\ufffd", 65_537)
    assert (first.value, first.reason) == (b"x" * 65_536, "not JSON: JSON is malformed: invalid character (byte 0)")
    assert (tombstone.value, tombstone.length, tombstone.reason) == (None, 0, "no value")


@pytest.mark.parametrize(("key", "value", "count", "epochs"), [(b"k" * 65_536, b"x", 6, 2), (b"", b"x" * 1_000, 10, 3)])
def test_many_large_values_and_keys_are_published_in_parts(registry, monkeypatch, key, value, count, epochs):
    monkeypatch.setattr(micro_batch, "PUBLISH_AT_BYTES", 3_000)
    before = registry.publisher.last.epoch
    registry.handle(*(event("", n, n, value, key=key) for n in range(count)))
    assert {len(row.key) for row in registry.rows("rejected")} == {min(len(key), 1_024)}
    assert len(registry.rows("rejected")) == count
    assert registry.publisher.last.epoch == before + epochs
    taken = registry.batches.metrics.registry.get_sample_value("namesrv_job_value_bytes_total")
    assert taken == count * (len(value) + min(len(key), 1_024))


def test_a_sign_every_half_minute_says_that_the_newest_snapshot_still_holds(registry):
    newest = registry.handle(tick(0, 0), registered(A, 0, 1))
    registry.handle(heartbeat(A, 29_998, 2), tick(29_999, 3))
    assert registry.signs == []
    registry.handle(tick(30_000, 4))
    registry.handle(tick(59_999, 5))
    [sign] = registry.signs
    assert registry.publisher.last == newest
    assert (sign.epoch, sign.term, sign.event_time, sign.offsets) == (newest.epoch, newest.term, T0 + 30_000, {0: 5})
    assert sign.late_from == T0 + 29_998 + 90_000 + 1
    registry.handle(registered(B, 70_000, 6), tick(70_000, 7))
    registry.handle(tick(99_999, 8))
    assert len(registry.signs) == 1


def test_a_job_that_is_replaced_breaks_its_catch_up_off(registry, tmp_path):
    registry.handle(registered(A, 0, 0))
    registry.log.records[1] = unregistered(A, 1_000, 1).stored
    again = Registry(tmp_path / "registry", "run-2", log=registry.log)
    again.batches.abandon()
    with pytest.raises(AbandonedError):
        again.handle(tick(2_000, 2))
    assert again.addresses() == [A]


@pytest.mark.usefixtures("low_bounds")
def test_a_long_catch_up_shows_in_the_tables_how_far_it_has_come(registry, tmp_path, monkeypatch):
    monkeypatch.setattr(micro_batch, "SHOW_PROGRESS_S", 0)
    registry.handle(registered(A, 0, 0))
    registry.log.records |= {each.stored.offset: each.stored for each in (tick(1_000 * n, n) for n in range(1, 12))}
    again = Registry(tmp_path / "registry", "run-2", log=registry.log)
    claimed = again.publisher.last.epoch
    again.handle(tick(12_000, 12))
    assert again.publisher.last.epoch >= claimed + 11
    assert again.publisher.last.event_time == T0 + 11_000
    assert again.file_counts()["snapshot"] <= 3 + 4


@pytest.fixture
def low_bounds(monkeypatch):
    """Tables are compacted at more than 3 files, after each 4th publication."""
    monkeypatch.setattr(publication, "MAX_SMALL_FILES", 3)
    monkeypatch.setattr(micro_batch, "PUBLICATIONS_BETWEEN_CARE", 4)


def test_the_files_of_every_table_stay_within_the_bound_that_the_docs_name_however_short_the_runs(tmp_path, request):
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text("utf-8")
    assert f"at most {publication.MAX_SMALL_FILES + micro_batch.PUBLICATIONS_BETWEEN_CARE} files" in page
    request.getfixturevalue("low_bounds")
    most, offset = 0, 0
    for run, publications in enumerate((6, 2, 2, 2)):
        registry = Registry(tmp_path / "registry", f"run-{run}")
        for _ in range(publications):
            registry.handle(registered(f"10.0.1.{offset}:10911", offset, offset, broker_id=offset), batch_id=offset)
            offset += 1
            most = max(most, *registry.file_counts().values())
    assert 3 < most <= 3 + 4
