"""One micro-batch on the driver: rows of the query in, published tables out. Real Delta."""

import threading
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql.functions import udf

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job import micro_batch
from namesrv_stream.job.micro_batch import AbandonedError, BrokenOffError, MicroBatches
from namesrv_stream.job.source import MAX_CARRIED_BYTES
from namesrv_stream.kafka.record_reader import StoredRecord
from namesrv_stream.records import encode_record
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    Scan,
    UnregisterBroker,
)
from namesrv_stream.tables import publication
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.publication import KafkaLog, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.tables.writer import RustWriter
from tests.build import registration
from tests.waiting import until

T0 = 1_700_000_000_000
QUERY = "query-1"
A, B = "10.0.0.1:10911", "10.0.0.2:10911"


COLUMNS = {"offset": pa.int64(), "append_time_ms": pa.int64(), "key": pa.binary(), "value": pa.binary(),
           "length": pa.int64()}  # fmt: skip


def as_table(records, evictions=()):
    """Records and evictions as a micro-batch gets them: long values are left in Kafka."""
    rows = [
        (each.offset, each.append_time_ms, each.key, None if each.value is None else carried(each.value),
         None if each.value is None else len(each.value))
        for each in records
    ]  # fmt: skip
    rows += [(None, heard_ms, address.encode(), None, None) for address, heard_ms in evictions]
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, COLUMNS.values(), strict=True)], [*COLUMNS]
    )


def carried(value):
    return value if len(value) <= MAX_CARRIED_BYTES else None


class Log:
    """The log in memory, where the micro-batch reads values by offset."""

    def __init__(self):
        self.records = {}

    def at(self, offsets):
        return (self.records[offset] for offset in offsets)

    def between(self, start, end):
        return iter([self.records[offset] for offset in sorted(self.records) if start <= offset < end])


class Event(NamedTuple):
    """A record as Kafka has it, or an eviction: an address and its last sign of life."""

    stored: StoredRecord | None
    eviction: tuple[str, int] | None = None


def event(address, at_ms, offset, value, key=None):
    return Event(StoredRecord(offset, T0 + at_ms, address.encode() if key is None else key, value))


def registered(address, at_ms, offset, *, broker_id=0, topics=("TopicA",), **fields):
    request = registration(address, broker_id=broker_id, topics=topics, **{"cluster_name": "c"} | fields)
    return event(address, at_ms, offset, encode_record(request))


def heartbeat(address, at_ms, offset):
    return event(address, at_ms, offset, encode_record(BrokerHeartbeat(broker_addr=address)))


def unregistered(address, at_ms, offset):
    return event(address, at_ms, offset, encode_record(UnregisterBroker(broker_addr=address)))


def expired(address, last_heard_ms):
    """The keyed state was evicted."""
    return Event(None, (address, T0 + last_heard_ms))


def tick(at_ms, offset):
    return event("", at_ms, offset, encode_record(Scan()))


def with_bad_mappings(good):
    value = good.stored.value.replace(b'"topicConfigTable"', b'"topicQueueMappingInfoMap":"?","topicConfigTable"')
    return good._replace(stored=good.stored._replace(value=value))


class Registry:
    """A run's micro-batches on the tables under `root`; batches are numbered from 0."""

    def __init__(self, root, run_id="run-1", log=None, *, is_new_log=False, **settings):
        self._root = Root(str(root))
        self._writer = RustWriter(self._root)
        self.log = log or Log()
        self.publisher = Publisher.claim(self._writer, run_id, T0, log_of=lambda _former: KafkaLog(is_new=is_new_log))
        next_offset = self.publisher.last.offsets.get(0, 0)
        self.signs = []
        given = NamesrvSettings.model_validate({"tickGapMillis": 0} | settings)
        self.batches = MicroBatches(given, self.publisher, self.log, next_offset, show=self.signs.append)
        self.batch_id = -1

    def handle(self, *events, batch_id=None, query_id=QUERY):
        self.batch_id = self.batch_id + 1 if batch_id is None else batch_id
        self.log.records |= {each.stored.offset: each.stored for each in events if each.stored is not None}
        rows = as_table(
            [each.stored for each in events if each.stored], [each.eviction for each in events if each.eviction]
        )
        self.batches.handle(rows, query_id, self.batch_id)
        return self.publisher.last

    def rows(self, name):
        return rows_from_arrow(TABLES[name], self.publisher.table(name))

    def heads(self):
        """The newest version of each table, whatever a snapshot names."""
        return {name: Root.open(self._root, spec).version() for name, spec in TABLES.items()}

    def file_counts(self):
        """The files of each table, `topic` without one for each bucket."""
        writer = RustWriter(self._root)
        return {name: writer.file_count(spec, writer.head(spec)) for name, spec in TABLES.items()}

    def addresses(self, table="live"):
        return sorted(row.broker_addr for row in self.rows(table))


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
