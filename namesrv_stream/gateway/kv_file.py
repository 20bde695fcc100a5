"""Takes a NameServer's KV file over into the registry, once: if the registry has no KV yet (K5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from namesrv_stream.rules.record_types import DeleteKvConfig, PutKvConfig
from namesrv_stream.wire.json_text import decode_json
from namesrv_stream.wire.wire_errors import BadRequestError

log = logging.getLogger(__name__)


class _KvFile(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]] = {}


MARK_NAMESPACE = "NAMESRV_STREAM"
MARK_KEY = "kvConfigPath"
"""The mark of a takeover: an entry that is put before the file's first entry and deleted after its last."""

_decoder = msgspec.json.Decoder(_KvFile)


def commands_of(file: Path) -> list[PutKvConfig]:
    """Return the commands that put the file's content into the registry; none if there is no file or it is unreadable.

    An unreadable file is logged.
    """
    try:
        content = file.read_bytes() if file.is_file() else b""
        table = decode_json(content, _decoder, "KVConfigSerializeWrapper").config_table if content.strip() else {}
    except (OSError, BadRequestError) as error:
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
    """Return the commands that take the file over into a registry with this KV; none if it has KV of its own.

    If the KV has the mark of an interrupted takeover, the missing entries are put, and no existing one is replaced.
    """
    is_interrupted = MARK_KEY in kv.get(MARK_NAMESPACE, {})
    if not commands or (kv and not is_interrupted):
        return []
    by = commands[0].requested_by
    mark = PutKvConfig(namespace=MARK_NAMESPACE, key=MARK_KEY, value="is being taken over", requested_by=by)
    missing = [command for command in commands if command.key not in kv.get(command.namespace, {})]
    end = DeleteKvConfig(namespace=MARK_NAMESPACE, key=MARK_KEY, requested_by=by)
    return [*([] if is_interrupted else [mark]), *missing, end]
