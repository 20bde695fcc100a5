"""A NameServer's KV file (K5), taken over once: where the registry has no KV yet."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from namesrv_stream.rules.requests import DeleteKvConfig, PutKvConfig
from namesrv_stream.wire.errors import MalformedBodyError
from namesrv_stream.wire.json_text import decode_json

log = logging.getLogger(__name__)


class _KvFile(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]] = {}


MARK_NAMESPACE = "NAMESRV_STREAM"
MARK_KEY = "kvConfigPath"
"""The entry that stands in the registry from the first entry that is taken over to the last."""

_decoder = msgspec.json.Decoder(_KvFile)


def commands_of(file: Path) -> list[PutKvConfig]:
    """What puts the file's content into the registry; empty where there is no file, or none that can be read."""
    try:
        content = file.read_bytes() if file.is_file() else b""
        table = decode_json(content, _decoder, "KVConfigSerializeWrapper").config_table if content.strip() else {}
    except (OSError, MalformedBodyError) as error:
        log.error("kvConfigPath %s is not taken over: %s", file, error)
        return []
    return [
        PutKvConfig(namespace=namespace, key=key, value=value, requested_by=str(file))
        for namespace, entries in table.items()
        for key, value in entries.items()
        if key
    ]


def steps_of(
    commands: Sequence[PutKvConfig], kv: Mapping[str, Mapping[str, str]]
) -> list[PutKvConfig | DeleteKvConfig]:
    """What takes the file over into a registry that has this KV: nothing where it has some of its own.

    A takeover that was interrupted has left its mark: what is missing is put, and nothing that is there is replaced.
    """
    is_interrupted = MARK_KEY in kv.get(MARK_NAMESPACE, {})
    if not commands or (kv and not is_interrupted):
        return []
    by = commands[0].requested_by
    mark = PutKvConfig(namespace=MARK_NAMESPACE, key=MARK_KEY, value="is being taken over", requested_by=by)
    missing = [command for command in commands if command.key not in kv.get(command.namespace, {})]
    end = DeleteKvConfig(namespace=MARK_NAMESPACE, key=MARK_KEY, requested_by=by)
    return [*([] if is_interrupted else [mark]), *missing, end]
