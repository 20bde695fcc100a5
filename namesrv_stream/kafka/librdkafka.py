"""Clients and errors of librdkafka, which everything but Spark uses to reach Kafka."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError

T = TypeVar("T")
librdkafka_log = logging.getLogger("librdkafka")

KafkaOptions = Mapping[str, Any]
"""Options of a client, as `kafka_client_arguments` returns them."""

COMPRESSION = "zstd"
"""The records' codec. It compresses a registration of 10,000 topics in 1 ms. gzip would take 7 ms, lz4 five times the
space (docs/decisions/0008)."""

_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._NOENT,  # no partition has a leader
        KafkaError._PURGE_INFLIGHT,
        KafkaError._PURGE_QUEUE,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
    }
)
_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token"
_PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Codes after which clients try again, by Kafka's contract. librdkafka calls few of them retriable."""


def opened(client: Callable[..., T], options: Mapping[str, Any], address: str) -> T:
    """Open a client of librdkafka. Raises KafkaRefusedError if librdkafka refuses an option."""
    try:
        return client(options, logger=librdkafka_log)
    except KafkaException as error:
        raise named_kafka_error(error.args[0], address) from error


def answered(asked: Future[T], limit_s: float | None = None) -> T:
    """Return Kafka's answer to a call of an AdminClient. Raises the future's error as a copy, and TimeoutError.

    The future's own error is not raised, because its traceback would hold the callers' frames and with them the client.
    librdkafka's thread may drop that error last, and a client that is closed in that thread aborts the process.
    """
    error = asked.exception(limit_s)
    if error is not None:
        raise type(error)(*error.args)
    return asked.result()


def is_passing(error: KafkaError) -> bool:
    """Return whether Kafka has answered with an error that passes: a partition that gets a leader, for example."""
    return error.code() in _PASSING


def named_kafka_error(error: KafkaError, address: str) -> NamesrvError:
    """Return a KafkaUnreachableError if trying again may help, a KafkaRefusedError otherwise."""
    problem = error.str().partition(" (after ")[0].removeprefix(f"{address}/bootstrap: ")
    if problem.endswith(": "):
        problem += error.name()
    if has_no_token := _NO_TOKEN in problem:
        problem += " (check kafka.sasl.oauthbearer.token.endpoint.url, and the client's ID and secret)"
    elif error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        problem += " (check that kafka.security.protocol is that of this listener)"
    is_away = error.code() in _AWAY or is_passing(error) or error.retriable()
    if has_no_token and f"{_NO_TOKEN}: {{" not in problem:  # JSON is the endpoint's own refusal
        is_away = True
    return (KafkaUnreachableError if is_away else KafkaRefusedError)(address, problem)
