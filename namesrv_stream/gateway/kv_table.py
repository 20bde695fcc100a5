"""Take a NameServer's KV file over into the registry, once (K5), and log the KV table (K6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from namesrv_stream.rules.record_types import DeleteKvConfig, PutKvConfig
from namesrv_stream.wire.json_text import decode_json
from namesrv_stream.wire.wire_errors import BadRequestError

log = logging.getLogger(__name__)

KvTable = Mapping[str, Mapping[str, str]]

MARK_NAMESPACE = "NAMESRV_STREAM"
MARK_KEY = "kvConfigPath"
"""The mark of a takeover: an entry that is put before the file's first entry and deleted after its last."""

MAX_ENTRIES = 500
MAX_CHARS = 500
"""Most characters of a value in a line."""
_FIRST_AFTER_S = 60.0
_EVERY_S = 600.0


class _KvFile(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]] = {}


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


def steps_of(commands: Sequence[PutKvConfig], kv: KvTable) -> list[PutKvConfig | DeleteKvConfig]:
    """Return the commands that take the file over into a registry with this KV; none if it has KV of its own.

    If the KV has the mark of an interrupted takeover, only missing entries are put.
    """
    is_interrupted = MARK_KEY in kv.get(MARK_NAMESPACE, {})
    if not commands or (kv and not is_interrupted):
        return []
    by = commands[0].requested_by
    mark = PutKvConfig(namespace=MARK_NAMESPACE, key=MARK_KEY, value="is being taken over", requested_by=by)
    missing = [command for command in commands if command.key not in kv.get(command.namespace, {})]
    end = DeleteKvConfig(namespace=MARK_NAMESPACE, key=MARK_KEY, requested_by=by)
    return [*([] if is_interrupted else [mark]), *missing, end]


async def log_kv(table: Callable[[], KvTable]) -> None:
    """Log the table that `table` returns, a minute after the start and then every ten minutes, for ever."""
    await asyncio.sleep(_FIRST_AFTER_S)
    while True:
        for line in kv_lines(table()):
            log.info("%s", line)
        await asyncio.sleep(_EVERY_S)


def kv_lines(table: KvTable) -> Iterator[str]:
    """Yield the number of namespaces and a line an entry, as RocketMQ writes them."""
    yield f"configTable SIZE: {len(table)}"
    entries = ((namespace, key, value) for namespace, values in table.items() for key, value in values.items())
    for namespace, key, value in islice(entries, MAX_ENTRIES):
        yield f"configTable NS: {namespace} Key: {key} Value: {_cut(value)}"
    if (more := sum(map(len, table.values())) - MAX_ENTRIES) > 0:
        yield f"configTable: {more} more entries; `namesrv-stream listKvConfig -s NAMESPACE` shows them"


def _cut(value: str) -> str:
    return value if len(value) <= MAX_CHARS else f"{value[:MAX_CHARS]}... ({len(value)} characters)"
