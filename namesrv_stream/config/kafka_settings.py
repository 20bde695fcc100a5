"""Translate the `kafka.*` settings for Spark's Kafka source and for librdkafka.

Both clients read the same settings, which are written as for Kafka's Java clients. A form that only Java can read (a
JKS key store) raises SettingError, whose message names the form that both can read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from namesrv_stream.config.settings import KAFKA_PREFIX, NamesrvSettings
from namesrv_stream.errors import SettingError

_SAME = """
    client.id request.timeout.ms connections.max.idle.ms metadata.max.age.ms reconnect.backoff.ms
    reconnect.backoff.max.ms retry.backoff.ms sasl.kerberos.service.name
    retry.backoff.max.ms security.protocol socket.connection.setup.timeout.ms sasl.mechanism
    ssl.key.password ssl.endpoint.identification.algorithm
"""
_NAMES = {key: [key] for key in _SAME.split()} | {
    "receive.buffer.bytes": ["socket.receive.buffer.bytes"],
    "send.buffer.bytes": ["socket.send.buffer.bytes"],
    "sasl.jaas.config": ["sasl.username", "sasl.password"],
    "ssl.truststore.location": ["ssl.ca.location"],
    "ssl.keystore.location": ["ssl.certificate.location", "ssl.key.location"],
}
"""Name of an option in Kafka's Java clients -> its names in librdkafka."""

_NUMBERS = re.compile(r"\.(ms|bytes)$")
_OF_JAVA = """
    fetch.min.bytes fetch.max.bytes fetch.max.wait.ms max.partition.fetch.bytes max.poll.records max.poll.interval.ms
    session.timeout.ms heartbeat.interval.ms group.id group.instance.id group.protocol group.remote.assignor
    isolation.level check.crcs default.api.timeout.ms metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms ssl.truststore.type ssl.keystore.type ssl.protocol ssl.enabled.protocols client.rack
    client.dns.lookup socket.connection.setup.timeout.max.ms
"""
_JAVA_ONLY = tuple(_OF_JAVA.split())
"""Options that configure Spark's consumer, or that give Java a fact that librdkafka detects by itself."""
_PEM_TEXTS = frozenset(("ssl.truststore.certificates", "ssl.keystore.key", "ssl.keystore.certificate.chain"))
_PASSWORDS = frozenset(("ssl.truststore.password", "ssl.keystore.password"))
_CHOICES = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"),
}
_JAAS_MODULE = re.compile(r"\b(PlainLoginModule|ScramLoginModule)\b")
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')

KAFKA_KEYS = tuple(KAFKA_PREFIX + key for key in [*_NAMES, *_JAVA_ONLY])
"""Settings that are options of Kafka's clients, by which a misspelt one is recognised."""


def is_kafka_option(key: str) -> bool:
    """Return whether this `kafka.*` key is an option of Spark and librdkafka, or one of Java that has advice."""
    name = key.removeprefix(KAFKA_PREFIX)
    return name in _NAMES or name in _PEM_TEXTS or name in _PASSWORDS or name in _JAVA_ONLY


def spark_kafka_options(settings: NamesrvSettings) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink; each key has the prefix `kafka.`."""
    options = {KAFKA_PREFIX + key: text for key, text in settings.kafka_options.items()}
    return options | {"kafka.bootstrap.servers": settings.kafka_bootstrap_servers}


def kafka_client_arguments(settings: NamesrvSettings) -> dict[str, Any]:
    """Return the options of any client of librdkafka.

    Raises SettingError for an option that has no counterpart there.
    """
    options = settings.kafka_options
    arguments: dict[str, Any] = {"bootstrap.servers": settings.kafka_bootstrap_servers}
    for key, text in options.items():
        arguments |= _argument(key, text, options)
    return arguments


def _argument(key: str, text: str, options: Mapping[str, str]) -> dict[str, Any]:
    match key:
        case "security.protocol" | "sasl.mechanism":
            return {key: _choice(key, text)}
        case "sasl.jaas.config":
            return _user_and_password(key, text)
        case "ssl.endpoint.identification.algorithm":
            return {key: "https" if text.strip() else "none"}
        case "ssl.truststore.location" | "ssl.keystore.location":
            _require_pem(key, options)
        case _ if key in _PEM_TEXTS:
            store = key.split(".")[1]
            raise _error(key, "is PEM text, which Python cannot take", f"Put it in a file: kafka.ssl.{store}.location.")
        case _ if key in _PASSWORDS:
            raise _error(
                key, "is of a JKS store, which only Java can read", "Use PEM files; see kafka.ssl.key.password."
            )
    return dict.fromkeys(_NAMES.get(key, ()), _number(key, text) if _NUMBERS.search(key) else text)


def _number(key: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text.strip()):
        raise _error(key, f"{text!r} is not accepted", "A whole number is.")
    return int(text)


def _choice(key: str, text: str) -> str:
    if text.upper() not in _CHOICES[key]:
        raise _error(key, f"{text!r} is not accepted here", f"Use one of {', '.join(_CHOICES[key])}.")
    return text.upper()


def _user_and_password(key: str, text: str) -> dict[str, Any]:
    if "Krb5LoginModule" in text:  # librdkafka reads the ticket from the credential cache
        return {}
    found = {name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _JAAS_OPTION.findall(text)}
    if not _JAAS_MODULE.search(text) or not {"username", "password"} <= found.keys():
        raise _error(
            key,
            "is neither of PlainLoginModule nor of ScramLoginModule with username and password",
            'Write: org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";',
        )
    return {f"sasl.{name}": found[name] for name in ("username", "password")}


def _require_pem(key: str, options: Mapping[str, str]) -> None:
    kind = key.removesuffix("location") + "type"
    store = options.get(kind, "JKS").upper()
    if store != "PEM":
        raise _error(
            key,
            f"is a {store} store, which only Java can read",
            f"Both Java and Python read PEM: set kafka.{kind}=PEM and give the PEM file here "
            "(keytool -exportcert -rfc or openssl pkcs12 make one).",
        )


def _error(key: str, problem: str, next_step: str) -> SettingError:
    return SettingError(KAFKA_PREFIX + key, problem, next_step)
