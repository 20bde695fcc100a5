"""Read records of the heartbeat topic by their offsets, in order.

Spark carries no long values, because a micro-batch would hold all of them in memory. The driver reads each one here
when it applies the record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Self, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from namesrv_stream.errors import KafkaUnreachableError, NamesrvError
from namesrv_stream.kafka.librdkafka import KafkaOptions, named_kafka_error, opened
from namesrv_stream.records import MAX_RECORD_BYTES

LOG_PARTITION = 0
_READ_OVER_RECORDS = 1_000
"""Gap between two wanted records at which the reader seeks. The records of a shorter gap are read and dropped."""
_POLL_S = 1.0
_LIMIT_S = 30.0


class StoredRecord(NamedTuple):
    """One record as Kafka holds it."""

    offset: int
    append_time_ms: int
    key: bytes
    value: bytes | None


class RecordGoneError(NamesrvError):
    """A record that has to be read is no longer in the topic."""

    def __init__(self, topic: str, offset: int) -> None:
        super().__init__(
            f"topic {topic} no longer has the record at offset {offset}. The job continues with the oldest record in "
            "Kafka. Check that retention.ms is long enough, and that no records were deleted."
        )


class RecordReader:
    """Reader of the topic's one partition. Use it from one thread at a time.

    Raises KafkaUnreachableError after 30 s without an answer, KafkaRefusedError if Kafka refuses a request, and
    RecordGoneError if the topic no longer has the record.
    """

    def __init__(self, kafka: KafkaOptions, topic: str) -> None:
        """Make the consumer."""
        self._topic = topic
        self._address = kafka["bootstrap.servers"]
        options = {
            **kafka,
            "group.id": "namesrv-stream-reader",  # librdkafka requires one; no group is joined and no offset committed
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",  # as Spark reads: both have to see the same records
            "enable.partition.eof": True,  # the last offsets may be a transaction's marker, or aborted records
            "fetch.message.max.bytes": MAX_RECORD_BYTES,
            "queued.max.messages.kbytes": 64 * 1024,
            "fetch.wait.max.ms": 10,
            "reconnect.backoff.max.ms": 1_000,
        }
        self._consumer = opened(Consumer, options, self._address)
        self._next_offset: int | None = None
        self._find_leader()

    def _find_leader(self) -> None:
        """Ask Kafka which broker leads the partition. Without this the first read waits for up to a second.

        librdkafka looks for the leaders of newly assigned partitions only once a second.
        """
        with suppress(KafkaException):  # reading then fails too, and reports why
            self._consumer.list_topics(self._topic, timeout=_POLL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def at(self, offsets: Sequence[int]) -> Generator[StoredRecord]:
        """Yield the records at these rising offsets.

        Close the iterator when you need no more, because it reads ahead.
        """
        try:
            for offset in offsets:
                yield self._at(offset)
        finally:
            self._rest()

    def between(self, start: int, end: int) -> Iterator[StoredRecord]:
        """Yield all records from offset `start` to before `end`; markers and aborted records are none."""
        if start >= end:
            return
        self._seek(start)
        while (record := self._next(end)) is not None and record.offset < end:
            yield record
            if record.offset == end - 1:
                break
        self._rest()

    def _at(self, offset: int) -> StoredRecord:
        next_offset = self._next_offset
        if next_offset is None or not next_offset <= offset < next_offset + _READ_OVER_RECORDS:
            self._seek(offset)
        record = self._next(offset + 1)
        while record is not None and record.offset < offset:
            record = self._next(offset + 1)
        if record is None or record.offset > offset:
            raise RecordGoneError(self._topic, offset)
        return record

    def _seek(self, offset: int) -> None:
        self._consumer.assign([TopicPartition(self._topic, LOG_PARTITION, offset)])
        self._next_offset = offset

    def _rest(self) -> None:
        """Stop fetching ahead, because the records of the next call may be far away."""
        self._consumer.unassign()
        self._next_offset = None

    def _next(self, end: int) -> StoredRecord | None:
        """Return the next record, None if the log has none before offset `end`."""
        message = self._poll(end)
        if message is None:
            return None
        kind, append_time_ms = message.timestamp()
        offset, key, value = cast(
            "tuple[int, bytes | None, bytes | None]", (message.offset(), message.key(), message.value())
        )
        self._next_offset = offset + 1
        return StoredRecord(offset, 0 if kind == TIMESTAMP_NOT_AVAILABLE else append_time_ms, key or b"", value)

    def _poll(self, end: int) -> Message | None:
        given_up_s = time.monotonic() + _LIMIT_S
        problem: NamesrvError | None = None
        while time.monotonic() < given_up_s:
            message = self._consumer.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message
            if error.code() == KafkaError._PARTITION_EOF:
                if (message.offset() or 0) >= end:
                    return None
                continue  # of a consumer that has not read to the end of an open transaction yet
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise RecordGoneError(self._topic, self._next_offset or 0)
            problem = named_kafka_error(error, self._address)
            if not isinstance(problem, KafkaUnreachableError):
                raise problem
        raise problem or KafkaUnreachableError(self._address, f"no answer for {math.ceil(_LIMIT_S)} s")
