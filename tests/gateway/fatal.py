"""A producer that breaks for good, as when Kafka has forgotten what an idempotent producer has sent."""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka

from namesrv_stream.kafka.producer import RecordProducer

INVALID_PRODUCER_EPOCH = 47


class BreakableProducer(RecordProducer):
    def break_for_good(self) -> None:
        """Break by librdkafka's own function for tests; the handle stands behind the head of its Python object."""
        (library,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
        handle = ctypes.c_void_p.from_address(id(self._producer) + object.__basicsize__)
        test_fatal_error = ctypes.CDLL(str(library)).rd_kafka_test_fatal_error
        test_fatal_error.argtypes = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        assert test_fatal_error(handle, INVALID_PRODUCER_EPOCH, b"as a test wants it") == 0
