"""Writes the KV table to the log, a minute after the start and then every ten minutes (K6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

log = logging.getLogger(__name__)

KvTable = Mapping[str, Mapping[str, str]]
MOST_ENTRIES = 500
MOST_CHARS = 500
"""Most characters of a value in a line."""
_FIRST_AFTER_S = 60.0
_EVERY_S = 600.0


async def log_kv(table: Callable[[], KvTable]) -> None:
    """Log the table that `table` returns, for ever."""
    await asyncio.sleep(_FIRST_AFTER_S)
    while True:
        for line in kv_lines(table()):
            log.info("%s", line)
        await asyncio.sleep(_EVERY_S)


def kv_lines(table: KvTable) -> Iterator[str]:
    """Yield the number of namespaces and a line an entry, as RocketMQ writes them."""
    yield f"configTable SIZE: {len(table)}"
    entries = ((namespace, key, value) for namespace, values in table.items() for key, value in values.items())
    for namespace, key, value in islice(entries, MOST_ENTRIES):
        yield f"configTable NS: {namespace} Key: {key} Value: {_cut(value)}"
    if (more := sum(map(len, table.values())) - MOST_ENTRIES) > 0:
        yield f"configTable: {more} more entries; `namesrv-stream listKvConfig -s NAMESPACE` shows them"


def _cut(value: str) -> str:
    return value if len(value) <= MOST_CHARS else f"{value[:MOST_CHARS]}... ({len(value)} characters)"
