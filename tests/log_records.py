"""Records of a topic as Kafka has them."""

from namesrv_stream.kafka.record_reader import RecordReader
from namesrv_stream.kafka.topic import end_offsets
from namesrv_stream.records import decode_record


def stored_records(kafka, topic, count=None):
    """Return the first `count` records, by default all that there are. `kafka`: options of a client."""
    with RecordReader(kafka, topic) as reader:
        return list(reader.between(0, end_offsets(kafka, topic)[0] if count is None else count))


def requests(kafka, topic):
    """Return what all records say."""
    return [decode_record(each.value) for each in stored_records(kafka, topic)]


def first_records(kafka, topic, count):
    """Return key and request of each of the first records."""
    found = stored_records({"bootstrap.servers": kafka.bootstrap_servers}, topic, count)
    return [(each.key, decode_record(each.value)) for each in found]
