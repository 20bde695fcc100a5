"""Options and errors of librdkafka, the client of all that speaks to Kafka here but Spark."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError

librdkafka_log = logging.getLogger("librdkafka")

KafkaOptions = Mapping[str, Any]
"""Settings of a client, as `kafka_client_arguments` returns them: by the names of kafka-python."""

COMPRESSION = "zstd"
"""The records' codec. A registration of 10,000 topics takes 1 ms; gzip would take 7 ms of a thread, lz4 five times the
space (docs/decisions/0008)."""

_NAMES = {
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "send_buffer_bytes": "socket.send.buffer.bytes",
    "sasl_plain_password": "sasl.password",
    "sasl_plain_username": "sasl.username",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}
"""Name of an option in kafka-python -> in librdkafka, if the two differ by more than dots."""

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


def librdkafka_options(kafka: KafkaOptions) -> dict[str, Any]:
    """Return the settings of a client as options of librdkafka."""
    options: dict[str, Any] = {"bootstrap.servers": address_of(kafka)}
    for name, value in kafka.items():
        if name == "ssl_check_hostname":
            options["ssl.endpoint.identification.algorithm"] = "https" if value else "none"
        elif name not in ("bootstrap_servers", "bootstrap_timeout_ms"):
            options[_NAMES.get(name, name.replace("_", "."))] = value
    return options


def address_of(kafka: KafkaOptions) -> str:
    """Return the bootstrap servers as one text, for messages."""
    servers = kafka["bootstrap_servers"]
    return servers if isinstance(servers, str) else ",".join(servers)


def named_kafka_error(error: KafkaError, address: str) -> NamesrvError:
    """Return a KafkaUnreachableError if trying again may help, a KafkaRefusedError otherwise."""
    problem = error.str().partition(" (after ")[0]
    if problem.endswith(": "):
        problem += error.name()
    if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        problem += ". Is kafka.security.protocol that of this listener?"
    kind = KafkaUnreachableError if error.code() in _AWAY or error.retriable() else KafkaRefusedError
    return kind(address, problem)
