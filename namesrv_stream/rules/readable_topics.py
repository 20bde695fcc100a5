"""Drops nulls from a registration, and topics that cannot be read (R1a)."""

from __future__ import annotations

from typing import Any

import msgspec

from namesrv_stream.rules.record_types import PERM_READ_WRITE, TopicConfig


def without_nulls(value: Any) -> Any:
    """Return parsed JSON without the fields and items that are null, at any depth."""
    match value:
        case dict():
            return {key: without_nulls(each) for key, each in value.items() if each is not None}
        case list():
            return [without_nulls(each) for each in value if each is not None]
    return value


def readable_topics(table: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    """Return the topics of which all settings can be read; `strict` takes no text for a number.

    A topic without a permission gets RocketMQ's.
    """
    return {name: config for name, config in table.items() if _is_readable(config, strict)}


def _is_readable(config: Any, strict: bool) -> bool:
    try:
        config.setdefault("perm", PERM_READ_WRITE)
        msgspec.convert(config, TopicConfig, strict=strict)
    except (msgspec.ValidationError, AttributeError):
        return False
    return True
