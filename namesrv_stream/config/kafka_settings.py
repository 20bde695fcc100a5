"""Translate the `kafka.*` settings for Spark's Kafka source and for kafka-python.

Both clients read the same settings, which are written as for Kafka's Java clients. A form that only Java can read (a
JKS key store) raises SettingError, whose message names the form that both can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from namesrv_stream.config.settings import KAFKA_PREFIX, NamesrvSettings
from namesrv_stream.errors import SettingError, did_you_mean

_SAME_IN_PYTHON = frozenset(
    {
        "client.id",
        "request.timeout.ms",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "receive.buffer.bytes",
        "send.buffer.bytes",
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
_PEM_FILES = {"ssl.truststore.location": ["ssl_cafile"], "ssl.keystore.location": ["ssl_certfile", "ssl_keyfile"]}
_PEM_TEXTS = ("ssl.truststore.certificates", "ssl.keystore.key", "ssl.keystore.certificate.chain")
_JAAS_MODULE = re.compile(r"\b(PlainLoginModule|ScramLoginModule)\b")
_JAAS_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')


def spark_kafka_options(settings: NamesrvSettings) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink; each key has the prefix `kafka.`."""
    options = {KAFKA_PREFIX + key: text for key, text in settings.kafka_options.items()}
    return options | {"kafka.bootstrap.servers": settings.kafka_bootstrap_servers}


def kafka_client_arguments(settings: NamesrvSettings) -> dict[str, Any]:
    """Return keyword arguments for any client of kafka-python.

    Raises SettingError for an option that has no counterpart in kafka-python.
    """
    options = settings.kafka_options
    arguments: dict[str, Any] = {"bootstrap_servers": settings.kafka_bootstrap_servers.split(",")}
    for key, text in options.items():
        arguments |= _argument(key, text, options)
    return arguments


def _argument(key: str, text: str, options: Mapping[str, str]) -> dict[str, Any]:
    if translate := _TRANSLATIONS.get(key):
        return translate(key, text, options)
    if key in _SAME_IN_PYTHON:
        return {key.replace(".", "_"): _number(key, text) if _NUMBERS.search(key) else text}
    if _JAVA_ONLY.match(key):
        return {}
    raise _error(
        key,
        "is no option that both Spark and kafka-python have",
        f"{did_you_mean(key, _KNOWN)}Leave it out, or set it in Kafka's own configuration.",
    )


def _number(key: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text.strip()):
        raise _error(key, f"{text!r} is not accepted", "A whole number is.")
    return int(text)


def _choice(key: str, text: str, _options: Mapping[str, str]) -> dict[str, Any]:
    if text.upper() not in _CHOICES[key]:
        raise _error(key, f"{text!r} is not accepted here", f"Use one of {', '.join(_CHOICES[key])}.")
    return {key.replace(".", "_"): text.upper()}


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
    return {"sasl_plain_username": found["username"], "sasl_plain_password": found["password"]}


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
    "sasl.jaas.config": _jaas,
    "ssl.key.password": lambda _key, text, _options: {"ssl_password": text},
    "ssl.endpoint.identification.algorithm": lambda _key, text, _options: {"ssl_check_hostname": bool(text.strip())},
}
_KNOWN = (*_SAME_IN_PYTHON, *_TRANSLATIONS, "bootstrap.servers", "topic")


def _error(key: str, problem: str, next_step: str) -> SettingError:
    return SettingError(KAFKA_PREFIX + key, problem, next_step)
