"""Which topics of a registration count (R1a), whether a gateway or another program has written its record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import TypeVar

import msgspec

from namesrv_stream.rules.record_types import DataVersion, RegisterBroker, TopicConfig

MAX_TOPIC_CHARS = 1_024
"""Longest name of a topic: a retry topic is `%RETRY%` and a group of 255 characters, a POP retry topic has its topic's
name too."""

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

MEANING = blake2b(
    repr(
        (*(kind.__struct_fields__ for kind in (RegisterBroker, TopicConfig, DataVersion)),
         MAX_TOPIC_CHARS, _CONTROL_CHARACTERS.pattern)
    ).encode(),
    digest_size=4,
).hexdigest()  # fmt: skip
"""What is made of a registration: the fields of its record, and the rule of names. A release in which it is another one
makes other tokens (E10), so that all brokers send in full once more."""

T = TypeVar("T")


def admitted(request: RegisterBroker) -> tuple[RegisterBroker, tuple[str, ...]]:
    """Return a registration with the topics that count, and the names of those that are left out."""
    table, mappings = request.topic_config_table, request.topic_queue_mapping_info_map
    if _are_usual(table) and _are_usual(mappings):
        return request, ()
    left_out = tuple(name for name in table if not is_topic_name(name))
    kept = {"topic_config_table": _of_topic_names(table), "topic_queue_mapping_info_map": _of_topic_names(mappings)}
    return msgspec.structs.replace(request, **kept), left_out


def is_topic_name(name: str) -> bool:
    """Return whether a client can ask for a topic of this name."""
    return 0 < len(name) <= MAX_TOPIC_CHARS and not has_control_characters(name)


def has_control_characters(name: str) -> bool:
    """Return whether a name has characters that move a terminal's cursor, or end a line."""
    return _CONTROL_CHARACTERS.search(name) is not None


def _are_usual(names: Mapping[str, object]) -> bool:
    """Return whether all names are certainly topic names. One check of all is quicker than a check of each."""
    return "" not in names and "".join(names).isprintable() and max(map(len, names), default=0) <= MAX_TOPIC_CHARS


def _of_topic_names(values: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in values.items() if is_topic_name(name)}
