"""Causes that an operator has acknowledged: KV values of one namespace, and the commands that put them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from namesrv_stream.answers.events import Span, newest_of
from namesrv_stream.answers.model import AnswerModel, fact
from namesrv_stream.reporting.texts import Time, clock_text
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.root import quoted

LONGEST_MS = 30 * 24 * 3_600_000
"""Longest time for which an acknowledgement holds; one that ends later is none."""

NAMESPACE = "NAMESRV_STREAM_ACKNOWLEDGED"
"""KV namespace; a key is the id of a cause, and its value a JSON object with `until` in epoch milliseconds."""

_PUT = str(PutKvConfig.__struct_config__.tag)


class Acknowledgement(AnswerModel):
    """An operator's word that a cause is known, which holds `until` a time.

    `by` and `reason` are those of the command in the history, null if it has none.
    """

    until: Time
    by: str | None
    reason: str | None

    @property
    def text(self) -> str:
        """The words for the end of a sentence: `acknowledged by ann until 20:00:00 UTC, drill`."""
        by = f" by {self.by}" if self.by else ""
        return f"acknowledged{by} until {clock_text(self.until)}{f', {self.reason}' if self.reason else ''}"


class _Value(msgspec.Struct):
    until: int


def acknowledgement_value(until_ms: int) -> str:
    """Return the KV value of an acknowledgement that ends at a time."""
    return msgspec.json.encode(_Value(until_ms)).decode()


@fact
def acknowledgements(registry: RegistryAt) -> Mapping[str, Acknowledgement]:
    """Return the acknowledgements that hold at a moment, by the id of the cause. A value that is none is left out."""
    until: dict[str, int] = {}
    for key, value in registry.kv.get(NAMESPACE, {}).items():
        with suppress(msgspec.DecodeError):
            until[key] = msgspec.json.decode(value, type=_Value).until
    held = {key: at_ms for key, at_ms in until.items() if registry.now_ms < at_ms <= registry.now_ms + LONGEST_MS}
    if not held:
        return {}
    since = Span(registry.now_ms - LONGEST_MS)
    condition = f"type = {quoted(_PUT)} AND contains(command, {quoted(NAMESPACE)}) AND {since.covers}"
    puts = newest_of(registry, condition, None)
    commands = ((msgspec.json.decode(line.command or "{}"), line) for line in puts)
    by_key = {command.get("key"): line for command, line in commands if command.get("namespace") == NAMESPACE}
    found = {}
    for key, at_ms in held.items():
        line = by_key.get(key)
        found[key] = Acknowledgement(Time(at_ms), line and line.requested_by, line and line.reason)
    return found
