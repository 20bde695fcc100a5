"""Measure what a codec of Kafka's costs for registrations: CPU of the sender and of Kafka, and bytes in the log.

    .venv/bin/python -m benchmarks.codecs

The sender is librdkafka with the options of `RecordProducer`. The registrations of a batch look alike, as those of real
brokers do.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from benchmarks.harness import Bench, benchmark, cpu_seconds, option, running_kafka
from benchmarks.peers import registration
from namesrv_stream.kafka.topic import TOPIC_CONFIG, ensure_topic
from namesrv_stream.records import MAX_RECORD_BYTES, encode_record
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.wire.write_requests import register_broker

CODECS = ("none", "gzip", "lz4", "zstd")
RECORDS_BY_TOPICS = {20: 30_000, 1_000: 2_000, 10_000: 150}
_BROKERS = 8
_IN_FLIGHT = {20: 64, 1_000: 64, 10_000: 8}


class Cost(NamedTuple):
    """The cost of one record: CPU of the sender and of Kafka in µs, and bytes in the log."""

    sender_us: float
    kafka_us: float
    log_bytes: float


def measure(folder: Path, kafka: LocalKafka, codec: str, topics: int, share: float) -> Cost:
    """Send registrations with so many topics to a topic of their own, which keeps them as they are sent."""
    assert kafka.pid is not None, "it runs"
    name, count = f"{codec}-{topics}", max(_BROKERS, round(share * RECORDS_BY_TOPICS[topics]))
    ensure_topic({"bootstrap.servers": kafka.bootstrap_servers}, name, TOPIC_CONFIG)
    values = [encode_record(register_broker(registration(number, topics))) for number in range(_BROKERS)]
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "compression.type": codec,
            "linger.ms": 1,
            "acks": "all",
            "enable.idempotence": True,
            "message.max.bytes": MAX_RECORD_BYTES,
        }
    )
    producer.list_topics(name)
    own_s, kafka_s = time.process_time(), cpu_seconds(kafka.pid)
    for number in range(count):
        producer.produce(name, values[number % _BROKERS], b"%d" % (number % _BROKERS), 0)
        if (number + 1) % _IN_FLIGHT[topics] == 0:
            producer.flush()
    producer.flush()
    own_s, kafka_s = time.process_time() - own_s, cpu_seconds(kafka.pid) - kafka_s
    in_log = sum(file.stat().st_size for file in folder.rglob(f"{name}-0/*.log"))
    return Cost(1e6 * own_s / count, 1e6 * kafka_s / count, in_log / count)


@benchmark(option("--share", 1.0, "Of the records."))
def main(bench: Bench, share: float) -> None:
    """Print the figures."""
    rows = []
    with running_kafka(bench.folder) as (kafka, _):
        for topics in RECORDS_BY_TOPICS:
            costs = [measure(bench.folder, kafka, codec, topics, share) for codec in CODECS]
            cells = (f"{cost.sender_us:,.0f} + {cost.kafka_us:,.0f}; {cost.log_bytes:,.0f}" for cost in costs)
            rows.append((f"{topics:,} topics", *cells))
    bench.rows(("registration of", *(f"{codec}: sender + Kafka, µs; bytes" for codec in CODECS)), rows)


if __name__ == "__main__":
    main()
