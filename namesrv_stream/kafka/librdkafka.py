"""Options and errors of librdkafka's clients, which run less Python code for each record than kafka-python's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError, NamesrvError

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
        KafkaError._PURGE_INFLIGHT,
        KafkaError._PURGE_QUEUE,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
    }
)


def librdkafka_options(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Return kafka-python's keyword arguments as options of librdkafka."""
    servers = kafka["bootstrap_servers"]
    options: dict[str, Any] = {"bootstrap.servers": servers if isinstance(servers, str) else ",".join(servers)}
    for name, value in kafka.items():
        if name == "ssl_check_hostname":
            options["ssl.endpoint.identification.algorithm"] = "https" if value else "none"
        elif name != "bootstrap_servers":
            options[_NAMES.get(name, name.replace("_", "."))] = value
    return options


def named_kafka_error(error: KafkaError, address: str) -> NamesrvError:
    """Return a KafkaUnreachableError if trying again may help, a KafkaRefusedError otherwise."""
    kind = KafkaUnreachableError if error.code() in _AWAY or error.retriable() else KafkaRefusedError
    return kind(address, error.str())
