"""A micro-batch on a registry in a folder, and records as Spark reads them."""

from typing import NamedTuple

import pyarrow as pa

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.job.micro_batch import MicroBatches
from namesrv_stream.job.source import MAX_CARRIED_BYTES
from namesrv_stream.kafka.record_reader import StoredRecord
from namesrv_stream.records import encode_record
from namesrv_stream.rules.record_types import (
    BrokerHeartbeat,
    Scan,
    UnregisterBroker,
)
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.publication import KafkaLog, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.tables.writer import RustWriter
from tests.build import registration

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
