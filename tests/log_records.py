"""Records of a topic as Kafka has them."""

from itertools import islice

from kafka import KafkaConsumer, TopicPartition

from namesrv_stream.records import decode_record


def first_records(kafka, topic, count):
    """Return key and request of each of the first records."""
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, consumer_timeout_ms=30_000)
    try:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        return [(each.key, decode_record(each.value)) for each in islice(consumer, count)]
    finally:
        consumer.close()
