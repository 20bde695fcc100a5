"""A NameServer's KV file (K5), taken over once: where the registry has no KV yet."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from namesrv_stream.rules.requests import PutKvConfig
from namesrv_stream.wire.errors import MalformedBodyError
from namesrv_stream.wire.json_text import decode_json

log = logging.getLogger(__name__)


class _KvFile(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]] = {}


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
