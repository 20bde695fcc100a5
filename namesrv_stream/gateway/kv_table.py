"""Read a NameServer's KV file (K5), and log the KV table (K6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from namesrv_stream.errors import BadRequestError
from namesrv_stream.rules.record_types import PutKvConfig
from namesrv_stream.wire.json_text import decode_json

log = logging.getLogger(__name__)

KvTable = Mapping[str, Mapping[str, str]]

MAX_ENTRIES = 500
MAX_KV_NAMED = 20
MAX_CHARS = 500
"""Most characters of a value in a line."""
_FIRST_AFTER_S = 60.0
_EVERY_S = 600.0


class _KvFile(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]] = {}


_decoder = msgspec.json.Decoder(_KvFile)


def kv_not_in(known: KvTable, commands: Sequence[PutKvConfig]) -> list[PutKvConfig]:
    """Return the commands whose entries a registry lacks, or has with another value."""
    return [each for each in commands if known.get(each.namespace, {}).get(each.key) != each.value]


def kv_commands(file: Path, *, is_expected: bool = False) -> list[PutKvConfig]:
    """Return the commands that put the file's content into the registry; none if there is no file or it is unreadable.

    An unreadable file is logged, and one that is expected and not there.
    """
    try:
        content = file.read_bytes() if is_expected or file.is_file() else b""
        table = decode_json(content, _decoder, "KVConfigSerializeWrapper").config_table if content.strip() else {}
    except (OSError, BadRequestError) as error:
        log.error("cannot read kvConfigPath %s: %s; the gateway continues without its entries", file, error)
        return []
    return [
        PutKvConfig(namespace=namespace, key=key, value=value, requested_by=str(file))
        for namespace, entries in table.items()
        for key, value in entries.items()
        if key
    ]


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
