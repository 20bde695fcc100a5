"""Load settings from the command line, the environment, a file and the defaults; the first that has a value wins."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import javaproperties
from pydantic import ValidationError

from namesrv_stream.config.kafka_settings import KAFKA_KEYS, is_kafka_option
from namesrv_stream.config.rocketmq_settings import is_idle
from namesrv_stream.config.settings import (
    CATALOGUE,
    KAFKA_PREFIX,
    STORAGE_PREFIX,
    NamesrvSettings,
    is_passed_through,
    is_secret,
)
from namesrv_stream.errors import SettingError, did_you_mean, note_secrets

log = logging.getLogger(__name__)

ENV_PREFIX = "NAMESRV_"
RETIRED = {
    "clockJumpGraceMillis": "A step of a clock no longer ends leases. Leave it out.",
    "clockJumpMillis": "A step of a clock no longer ends leases. Leave it out.",
    "console.maxWatchers": "A console has a fixed limit of watchers. Start a second one for more.",
    "idleTickMillis": "A gateway automatically sends fewer clock ticks while no lease can end soon. Leave it out.",
    "liveRefreshMillis": "The job publishes heartbeats with each change, and every few minutes. Leave it out.",
    "peerBufferMaxBytes": "A gateway has a fixed limit for its peers' bytes. maxConnections limits how many there are.",
    "registrationCacheMaxBytes": "A gateway compares registrations with the tables. Leave it out.",
    "rejected.retention": "Maintenance removes old rows of the table `rejected`. Copy those you need longer.",
    "snapshot.retention": "Any past time is computed from the history, which is kept for ever. Leave it out.",
    "watermarkDelayMillis": "No lease depended on it. Leave it out.",
    "writer": "delta-rs writes all tables. Leave it out.",
}
"""Settings of earlier releases -> what holds now, and what to do instead."""

_SERVICE_VARIABLE = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")

_SHOWN_CHARS = 50


def load_settings(
    file: Path | None = None, environ: Mapping[str, str] | None = None, options: Mapping[str, str] | None = None
) -> NamesrvSettings:
    """Return the settings in force. Keys of `options` are properties names.

    Raises SettingError, which names the file that cannot be read, or the key, the place where it was found and the
    accepted values.
    """
    read = _read_properties(file) if file else {}
    by_origin = {
        f"in {file}": read,
        "in the environment": from_environment(environ or {}),
        "on the command line": options or {},
    }
    origins = {key: origin for origin, values in by_origin.items() for key in values}
    _check_known({key: origin for key, origin in origins.items() if not is_idle(key)})
    merged = {key: text for values in by_origin.values() for key, text in values.items()}
    merged = {key: text if is_secret(key) else text.strip() for key, text in merged.items()}
    if file:  # as in RocketMQ the file of -c becomes configStorePath, even if the file sets another one
        merged["configStorePath"] = str(file)
    note_secrets(text for key, text in merged.items() if is_secret(key))
    try:
        return NamesrvSettings.model_validate(merged)
    except ValidationError as error:
        raise _setting_error(error, origins) from error


def checked_changes(settings: NamesrvSettings, properties: Mapping[str, str]) -> dict[str, str]:
    """Return changes at run time in the form that is sent to the job, checked as strictly as the values of a file.

    RocketMQ itself reads `yes` as false and ignores a number that it cannot parse. Raises SettingError, or
    ConfigBlackListError for a setting that cannot be changed at run time.
    """
    settings.live_changes(properties)
    origins = dict.fromkeys(properties, "in this change")
    _check_known(origins)
    try:
        checked = NamesrvSettings.model_validate(dict(properties)).properties(masked=False)
    except ValidationError as error:
        raise _setting_error(error, origins) from error
    return {key: checked[key] for key in properties}


@dataclass(frozen=True)
class Invocation:
    """The sources of one program run's settings; commands receive it with `@click.pass_obj`."""

    file: Path | None
    options: dict[str, str]
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @cached_property
    def settings(self) -> NamesrvSettings:
        """The settings in force. Raises SettingError."""
        return load_settings(self.file, self.environ, self.options)


def log_notes(settings: NamesrvSettings) -> None:
    """Log a process's notes about its settings at the start: settings without effect."""
    if idle := [key for key in settings.idle if key != "enableControllerInNamesrv"]:
        log.warning("this process ignores settings that have no effect here: %s. They may be left out.",
                    ", ".join(idle))  # fmt: skip
    if settings.idle.get("enableControllerInNamesrv") == "true":
        log.warning(
            "enableControllerInNamesrv=true has no effect: this process runs no controller. Run RocketMQ's "
            "mqcontroller as a separate process."
        )


def as_options(settings: Mapping[str, object]) -> list[str]:
    """Return settings as arguments for the start of another process: --set KEY=VALUE for each."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def environment_name(key: str) -> str:
    """Return the environment variable of a key: NAMESRV_LISTEN_PORT for `listenPort`.

    `kafka.bootstrap.servers` gives NAMESRV_KAFKA_BOOTSTRAP_SERVERS.
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).replace(".", "_")
    return ENV_PREFIX + words.upper()


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings among environment variables, properties name -> text.

    NAMESRV_KAFKA_SASL_MECHANISM is kafka.sasl.mechanism, NAMESRV_DELTA_STORAGE_AWS_REGION delta.storage.aws_region.
    Other variables with the prefix NAMESRV_ are ignored: RocketMQ's clients use NAMESRV_ADDR, and Kubernetes sets some
    for every service called namesrv or namesrv-something.
    """
    own = {name: value for name, value in environ.items() if not _is_of_kubernetes(name, value)}
    return {key: value for name, value in own.items() if (key := _key_of_variable(name))}


def _is_of_kubernetes(name: str, value: str) -> bool:
    """Return whether Kubernetes sets this variable for a Service.

    Examples: NAMESRV_KAFKA_SERVICE_HOST, and NAMESRV_METRICS_PORT=tcp://10.0.0.1:80.
    """
    return bool(_SERVICE_VARIABLE.search(name)) or (name.endswith("_PORT") and bool(_SERVICE_ADDRESS.match(value)))


def _key_of_variable(name: str) -> str | None:
    if key := _KEYS_BY_VARIABLE.get(name):
        return key
    if name.startswith(f"{ENV_PREFIX}DELTA_STORAGE_"):
        return STORAGE_PREFIX + name.removeprefix(f"{ENV_PREFIX}DELTA_STORAGE_").lower()
    if name.startswith(f"{ENV_PREFIX}KAFKA_"):  # Kafka's options have no underscore and no capital letter
        return name.removeprefix(ENV_PREFIX).replace("_", ".").lower()
    return None


_KEYS_BY_VARIABLE = {environment_name(key): key for key in [*CATALOGUE, *RETIRED] if not key.endswith("*")}


def _read_properties(file: Path) -> dict[str, str]:
    line, found = 1, {}
    try:
        for each in javaproperties.parse(_decoded(file.read_bytes())):
            if isinstance(each, javaproperties.KeyValue):
                if not each.key or not each.key.isprintable():
                    raise ValueError(f"expected KEY=VALUE, not the key {each.key[:_SHOWN_CHARS]!a}")
                found[each.key] = each.value
            line += each.source.count("\n")
    except (OSError, ValueError) as error:  # an invalid escape sequence is a ValueError
        problem = (error.strerror or str(error)).lower() if isinstance(error, OSError) else f"line {line}: {error}"
        advice = "Write lines of KEY=VALUE in UTF-8, as `namesrv-stream -p` prints them."
        raise SettingError("-c", f"{file}: {problem}", advice) from error
    return found


def _decoded(content: bytes) -> str:
    """Decode UTF-8, or else Latin-1, the encoding of properties files in older Java releases."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _check_known(origins: Mapping[str, str]) -> None:
    """Raise SettingError if there are retired or unknown keys. `origins`: key -> the place where it was found."""
    if retired := [(key, place) for key, place in origins.items() if key in RETIRED]:
        (first, place), *others = retired
        more = "".join(f" Setting {key} {at} is no longer supported either. {RETIRED[key]}" for key, at in others)
        raise SettingError(first, f"{place} is no longer supported", RETIRED[first] + more)
    unknown = [(key, place) for key, place in origins.items() if not _is_known(key)]
    if not unknown:
        return
    (first, place), *others = unknown
    more = "".join(f"Setting {key} {place} is unknown too. {_meant(key)}" for key, place in others)
    of_kafka = " (Spark and librdkafka do not both have it)" if first.startswith(KAFKA_PREFIX) else ""
    advice = f"{_meant(first)}{more}`namesrv-stream -p` prints all settings."
    raise SettingError(first, f"{place} is unknown{of_kafka}", advice)


def _meant(key: str) -> str:
    """Return the setting that was probably meant: the most similar one, or that of the gateway's port."""
    similar = did_you_mean(key, {*CATALOGUE, *KAFKA_KEYS} - {f"{KAFKA_PREFIX}*"})
    return similar or ("The port of the gateway is listenPort. " if key.lower().endswith("port") else "")


def _is_known(key: str) -> bool:
    if key in CATALOGUE or not is_passed_through(key):
        return key in CATALOGUE and not key.endswith("*")
    return not key.startswith(KAFKA_PREFIX) or is_kafka_option(key)


def _setting_error(error: ValidationError, origins: Mapping[str, str]) -> SettingError:
    first = error.errors(include_url=False)[0]
    key = str(first["loc"][0])
    what = first["msg"].removeprefix("Value error, ").replace("Input ", "the value ", 1)
    shown = "its value" if is_secret(key) else repr(first["input"])
    return SettingError(key, f"{shown} is not accepted; {what}", f"Correct it {origins.get(key, 'there')}.")
