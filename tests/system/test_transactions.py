"""Records of transactions by other programs: those of an aborted one never count, those of a committed one do."""

import pytest
from confluent_kafka import Producer

from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.kafka.record_reader import RecordReader
from namesrv_stream.kafka.topic import end_offsets
from namesrv_stream.records import encode_record, record_key
from tests.system.heartbeats import LIMIT_S, address, registration, until

pytestmark = pytest.mark.system


class Transactional:
    """A program that registers brokers in transactions."""

    def __init__(self, log):
        self._topic = log.topic
        self._producer = Producer(log.kafka | {"transactional.id": log.topic})
        self._producer.init_transactions(LIMIT_S)

    def begin(self, *requests):
        self._producer.begin_transaction()
        for each in requests:
            self._producer.produce(self._topic, encode_record(each), record_key(each))
        self._producer.flush(LIMIT_S)

    def abort(self, *requests):
        self.begin(*requests)
        self.end()

    def end(self):
        self._producer.abort_transaction(LIMIT_S)

    def commit(self, *requests):
        self.begin(*requests)
        self._producer.commit_transaction(LIMIT_S)


def test_the_reader_passes_by_markers_and_aborted_records_and_waits_for_none(heartbeats):
    other = Transactional(heartbeats)
    other.abort(registration(1), registration(2))
    other.commit(registration(3))
    heartbeats.say(registration(4))
    other.abort(registration(5))
    [end] = end_offsets(heartbeats.kafka, heartbeats.topic).values()
    with RecordReader(heartbeats.kafka, heartbeats.topic) as reader:
        found = {record.offset: record.key.decode() for record in reader.between(0, end)}
    assert list(found.values()) == [address(3), address(4)]
    assert max(found) < end - 1, "the last offsets are an aborted record and its marker"


@pytest.mark.full
@pytest.mark.spark
def test_a_job_registers_what_is_committed_alone_also_after_a_restart(heartbeats, spark):
    other = Transactional(heartbeats)

    def await_brokers(*numbers):
        until(lambda: heartbeats.live() == sorted(map(address, numbers)))

    with BackgroundJob(spark.newSession(), heartbeats.settings):
        other.abort(registration(1))
        other.commit(registration(2))
        heartbeats.tick()
        await_brokers(2)
        other.begin(registration(3))  # stays open while the job is away
    with BackgroundJob(spark.newSession(), heartbeats.settings):
        heartbeats.say(registration(4))
        other.end()
        heartbeats.tick()
        await_brokers(2, 4)
    with BackgroundJob(spark.newSession(), heartbeats.settings):
        other.abort(registration(5))
        heartbeats.say(registration(6))
        await_brokers(2, 4, 6)
