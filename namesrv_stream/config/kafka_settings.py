"""Translate the `kafka.*` settings for Spark's Kafka source and for librdkafka.

Both clients read the same settings, which are written as for Kafka's Java clients. A form that only Java can read (a
JKS key store) raises SettingError, whose message names the form that both can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from namesrv_stream.config.settings import KAFKA_PREFIX, NamesrvSettings
from namesrv_stream.errors import SettingError, did_you_mean

_SAME = frozenset(
    {
        "client.id",
        "request.timeout.ms",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.service.name",
    }
)
_NUMBERS = re.compile(r"\.(ms|bytes)$")
_JAVA_ONLY = re.compile(
    r"(fetch|max\.poll|max\.partition\.fetch|session|heartbeat|group|isolation|check\.crcs|default\.api|"
    r"metrics|metric|ssl\.(truststore|keystore)\.type|ssl\.protocol|ssl\.enabled|"
    r"client\.rack|client\.dns\.lookup)(\.|$)"
)
"""Options that configure Spark's consumer, or that give Java a fact that Python detects by itself."""
_CHOICES = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"),
}
_PEM_FILES = {
    "ssl.truststore.location": ["ssl.ca.location"],
    "ssl.keystore.location": ["ssl.certificate.location", "ssl.key.location"],
}
_BUFFERS = ("receive.buffer.bytes", "send.buffer.bytes")
_PEM_TEXTS = ("ssl.truststore.certificates", "ssl.keystore.key", "ssl.keystore.certificate.chain")
_JAAS_MODULE = re.compile(r"\b(PlainLoginModule|ScramLoginModule)\b")
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')


def spark_kafka_options(settings: NamesrvSettings) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink; each key has the prefix `kafka.`."""
    options = {KAFKA_PREFIX + key: text for key, text in settings.kafka_options.items()}
    return options | {"kafka.bootstrap.servers": settings.kafka_bootstrap_servers}


def kafka_client_arguments(settings: NamesrvSettings) -> dict[str, Any]:
    """Return the options for any client of librdkafka.

    Raises SettingError for an option that has no counterpart in librdkafka.
    """
    options = settings.kafka_options
    arguments: dict[str, Any] = {"bootstrap.servers": settings.kafka_bootstrap_servers}
    for key, text in options.items():
        arguments |= _argument(key, text, options)
    return arguments


def _argument(key: str, text: str, options: Mapping[str, str]) -> dict[str, Any]:
    if translate := _TRANSLATIONS.get(key):
        return translate(key, text, options)
    if key in _SAME:
        return {key: _number(key, text) if _NUMBERS.search(key) else text}
    if _JAVA_ONLY.match(key):
        return {}
    raise _error(
        key,
        "is no option that both Spark and librdkafka have",
        f"{did_you_mean(key, _KNOWN)}Leave it out, or set it in Kafka's own configuration.",
    )


def _number(key: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text.strip()):
        raise _error(key, f"{text!r} is not accepted", "A whole number is.")
    return int(text)


def _choice(key: str, text: str, _options: Mapping[str, str]) -> dict[str, Any]:
    if text.upper() not in _CHOICES[key]:
        raise _error(key, f"{text!r} is not accepted here", f"Use one of {', '.join(_CHOICES[key])}.")
    return {key: text.upper()}


def _jaas(key: str, text: str, _options: Mapping[str, str]) -> dict[str, Any]:
    if "Krb5LoginModule" in text:  # Python takes the ticket from the credential cache
        return {}
    found = {name: re.sub(r"\\(.)", r"\1", quoted) or bare for name, quoted, bare in _JAAS_OPTION.findall(text)}
    if not _JAAS_MODULE.search(text) or not {"username", "password"} <= found.keys():
        raise _error(
            key,
            "is neither of PlainLoginModule nor of ScramLoginModule with username and password",
            'Write: org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";',
        )
    return {"sasl.username": found["username"], "sasl.password": found["password"]}


def _pem_file(key: str, text: str, options: Mapping[str, str]) -> dict[str, Any]:
    kind = key.removesuffix("location") + "type"
    store = options.get(kind, "JKS").upper()
    if store != "PEM":
        raise _error(
            key,
            f"is a {store} store, which only Java can read",
            f"Both Java and Python read PEM: set kafka.{kind}=PEM and give the PEM file here "
            "(keytool -exportcert -rfc or openssl pkcs12 make one).",
        )
    return dict.fromkeys(_PEM_FILES[key], text)


def _pem_text(key: str, _text: str, _options: Mapping[str, str]) -> dict[str, Any]:
    store = key.split(".")[1]
    raise _error(key, "is PEM text, which Python cannot take", f"Put it in a file: kafka.ssl.{store}.location.")


_TRANSLATIONS: dict[str, Callable[[str, str, Mapping[str, str]], dict[str, Any]]] = {
    **dict.fromkeys(_CHOICES, _choice),
    **dict.fromkeys(_PEM_FILES, _pem_file),
    **dict.fromkeys(_PEM_TEXTS, _pem_text),
    **dict.fromkeys(_BUFFERS, lambda key, text, _options: {f"socket.{key}": _number(key, text)}),
    "sasl.jaas.config": _jaas,
    "ssl.key.password": lambda key, text, _options: {key: text},
    "ssl.endpoint.identification.algorithm": lambda key, text, _options: {key: text.strip() or "none"},
}
_KNOWN = (*_SAME, *_TRANSLATIONS, "bootstrap.servers", "topic")


def _error(key: str, problem: str, next_step: str) -> SettingError:
    return SettingError(KAFKA_PREFIX + key, problem, next_step)
