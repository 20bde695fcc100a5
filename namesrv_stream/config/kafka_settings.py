"""Translate the `kafka.*` settings for Spark's Kafka source and for librdkafka.

Both clients read the same settings, which are written as for Kafka's Java clients. A form that only Java can read (a
JKS key store) raises SettingError, whose message names the form that both can read.

With SASL/OAUTHBEARER both clients fetch tokens from the token endpoint (OIDC, client credentials) and renew them. The
client's id, secret and scope are in a JAAS line or in settings of their own, which Java's clients know from 4.1 on:
Spark's get a JAAS line in any case.
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
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.scope sasl.oauthbearer.sub.claim.name
"""
_NAMES = {key: [key] for key in _SAME.split()} | {
    "receive.buffer.bytes": ["socket.receive.buffer.bytes"],
    "send.buffer.bytes": ["socket.send.buffer.bytes"],
    "sasl.jaas.config": ["sasl.username", "sasl.password"],
    "sasl.oauthbearer.client.credentials.client.id": ["sasl.oauthbearer.client.id"],
    "sasl.oauthbearer.client.credentials.client.secret": ["sasl.oauthbearer.client.secret"],
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
    client.dns.lookup socket.connection.setup.timeout.max.ms sasl.login.callback.handler.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.ms
    sasl.login.retry.backoff.max.ms sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.refresh.min.period.seconds sasl.login.refresh.buffer.seconds sasl.oauthbearer.scope.claim.name
"""
_JAVA_ONLY = tuple(_OF_JAVA.split())
"""Options that configure Spark's consumer, or that give Java a fact that librdkafka detects by itself."""
_PEM_TEXTS = frozenset(("ssl.truststore.certificates", "ssl.keystore.key", "ssl.keystore.certificate.chain"))
_PASSWORDS = frozenset(("ssl.truststore.password", "ssl.keystore.password"))
_CHOICES = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"),
}
_JAAS_MODULE = re.compile(r"\b(PlainLoginModule|ScramLoginModule)\b")
_JAAS_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")

_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
_OAUTH_HANDLER = re.compile(r"org\.apache\.kafka\..*\.OAuthBearerLoginCallbackHandler")
_OF_CLIENT = "sasl.oauthbearer.client.credentials.client."
_AS_JAAS = {f"{_OF_CLIENT}id": "clientId", f"{_OF_CLIENT}secret": "clientSecret", "sasl.oauthbearer.scope": "scope"}
"""Settings that give the same as these options of the JAAS line."""
_OF_OAUTH_JAAS = {option: name for key, option in _AS_JAAS.items() for name in _NAMES[key]}
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_JAAS_EXAMPLE = {"clientId": "...", "clientSecret": "...", "scope": "..."}
_TO_QUOTE, _QUOTED = re.compile(r'["\\]'), r"\\\g<0>"
_EXTENSION = "extension_"
_AWS = "software.amazon.msk.auth.iam"
_NOT_AWS = (
    "Amazon MSK also offers SCRAM-SHA-512 and TLS with client certificates. If the Kafka accepts tokens of an OIDC "
    "provider, use kafka.sasl.mechanism=OAUTHBEARER with kafka.sasl.oauthbearer.token.endpoint.url."
)

KAFKA_KEYS = tuple(KAFKA_PREFIX + key for key in [*_NAMES, *_JAVA_ONLY])
"""Settings that are options of Kafka's clients, by which a misspelt one is recognised."""


def is_kafka_option(key: str) -> bool:
    """Return whether this `kafka.*` key is an option of Spark and librdkafka, or one of Java that has advice."""
    name = key.removeprefix(KAFKA_PREFIX)
    return name in _NAMES or name in _PEM_TEXTS or name in _PASSWORDS or name in _JAVA_ONLY


def spark_kafka_options(settings: NamesrvSettings) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink; each key has the prefix `kafka.`."""
    options = dict(settings.kafka_options)
    if _is_oauth(options):
        given = {option: options.pop(key) for key, option in _AS_JAAS.items() if key in options}
        options["sasl.mechanism"] = "OAUTHBEARER"  # Java's clients know it in capitals only
        options.setdefault("sasl.jaas.config", _oauth_jaas(given))
        options.setdefault("sasl.login.callback.handler.class", f"{_OAUTH}LoginCallbackHandler")
    return {KAFKA_PREFIX + key: text for key, text in options.items()} | {
        "kafka.bootstrap.servers": settings.kafka_bootstrap_servers
    }


def java_properties(settings: NamesrvSettings) -> dict[str, str]:
    """Return the system properties without which Kafka's Java clients refuse these settings."""
    url = settings.kafka_options.get(_ENDPOINT) if _is_oauth(settings.kafka_options) else None
    return {"org.apache.kafka.sasl.oauthbearer.allowed.urls": url} if url else {}


def _is_oauth(options: Mapping[str, str]) -> bool:
    return options.get("sasl.mechanism", "").upper() == "OAUTHBEARER"


def _oauth_jaas(given: Mapping[str, str]) -> str:
    quoted = (f'{name}="{re.sub(_TO_QUOTE, _QUOTED, text)}"' for name, text in given.items())
    return f"{_OAUTH}LoginModule required {' '.join(quoted)};"


def kafka_client_arguments(settings: NamesrvSettings) -> dict[str, Any]:
    """Return the options of any client of librdkafka.

    Raises SettingError for an option that has no counterpart there.
    """
    options = settings.kafka_options
    arguments: dict[str, Any] = {"bootstrap.servers": settings.kafka_bootstrap_servers}
    for key, text in options.items():
        arguments |= _argument(key, text, options)
    return arguments | _oauth_method(arguments) if _is_oauth(options) else arguments


def _argument(key: str, text: str, options: Mapping[str, str]) -> dict[str, Any]:
    match key:
        case "security.protocol" | "sasl.mechanism":
            return {key: _choice(key, text)}
        case "sasl.jaas.config":
            return _client_of_jaas(key, text) if _is_oauth(options) else _user_and_password(key, text)
        case "sasl.login.callback.handler.class" if not _OAUTH_HANDLER.fullmatch(text.strip()):
            raise _error(key, f"{text} is not accepted", _NOT_AWS if _AWS in text else "Leave it out.")
        case "ssl.endpoint.identification.algorithm":
            return {key: "https" if text.strip() else "none"}
        case "ssl.truststore.location" | "ssl.keystore.location":
            _require_pem(key, options)
        case _ if key in _PEM_TEXTS:
            store = key.split(".")[1]
            raise _error(
                key, "is PEM text, which Python's client cannot use", f"Put it in a file: kafka.ssl.{store}.location."
            )
        case _ if key in _PASSWORDS:
            raise _error(
                key,
                "is the password of a JKS store, which only Java can read",
                "Use PEM files; see kafka.ssl.key.password.",
            )
    return dict.fromkeys(_NAMES.get(key, ()), _number(key, text) if _NUMBERS.search(key) else text)


def _number(key: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]+", text.strip()):
        raise _error(key, f"{text!r} is not accepted", "Use a whole number.")
    return int(text)


def _choice(key: str, text: str) -> str:
    if text.upper() not in _CHOICES[key]:
        if text.upper() == "AWS_MSK_IAM":
            raise _error(key, f"{text} is a mechanism of AWS, which only Java's client has", _NOT_AWS)
        raise _error(key, f"{text!r} is not accepted here", f"Use one of {', '.join(_CHOICES[key])}.")
    return text.upper()


def _user_and_password(key: str, text: str) -> dict[str, Any]:
    if "Krb5LoginModule" in text:  # librdkafka reads the ticket from the credential cache
        return {}
    if _AWS in text:
        raise _error(key, f"is a module of {_AWS}, which only Java's client has", _NOT_AWS)
    found = _jaas_options(text)
    if not _JAAS_MODULE.search(text) or not {"username", "password"} <= found.keys():
        raise _error(
            key,
            "is neither a PlainLoginModule nor a ScramLoginModule with username and password",
            'Write: org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";',
        )
    return {f"sasl.{name}": found[name] for name in ("username", "password")}


def _jaas_options(text: str) -> dict[str, str]:
    found = _JAAS_OPTION.findall(text)
    return {name: re.sub(r"\\(.)", r"\1", double or single) or bare for name, double, single, bare in found}


def _client_of_jaas(key: str, text: str) -> dict[str, str]:
    """Return id, secret and scope of the client, and what Kafka gets besides, such as Confluent's `logicalCluster`."""
    if f"{_OAUTH}LoginModule" not in text:
        raise _error(key, "is not an OAuthBearerLoginModule", f"Write: {_oauth_jaas(_JAAS_EXAMPLE)}")
    found = _jaas_options(text)
    arguments = {argument: found[option] for option, argument in _OF_OAUTH_JAAS.items() if option in found}
    extensions = (f"{name.removeprefix(_EXTENSION)}={said}" for name, said in found.items() if _EXTENSION in name)
    if joined := ",".join(extensions):
        arguments["sasl.oauthbearer.extensions"] = joined
    if authority := found.get("ssl.truststore.location"):
        arguments["https.ca.location"] = authority
    return arguments


def _oauth_method(arguments: Mapping[str, object]) -> dict[str, str]:
    """Return the method by which librdkafka gets tokens. Raises SettingError if one of its options is missing."""
    if _ENDPOINT not in arguments:
        raise _error(
            _ENDPOINT, "is missing, and kafka.sasl.mechanism is OAUTHBEARER", "Set the URL of the token endpoint."
        )
    for key in (f"{_OF_CLIENT}id", f"{_OF_CLIENT}secret"):
        if not arguments.get(_NAMES[key][0]):
            raise _error(
                key,
                "is missing, and kafka.sasl.mechanism is OAUTHBEARER",
                f"Set it, or kafka.sasl.jaas.config={_oauth_jaas(_JAAS_EXAMPLE)}",
            )
    return {"sasl.oauthbearer.method": "oidc"}


def _require_pem(key: str, options: Mapping[str, str]) -> None:
    kind = key.removesuffix("location") + "type"
    store = options.get(kind, "JKS").upper()
    if store != "PEM":
        raise _error(
            key,
            f"is a {store} store, which only Java can read",
            f"Set kafka.{kind}=PEM and give a PEM file here, which Java and Python read "
            "(`keytool -exportcert -rfc` or `openssl pkcs12` writes one).",
        )


def _error(key: str, problem: str, next_step: str) -> SettingError:
    return SettingError(KAFKA_PREFIX + key, problem, next_step)
