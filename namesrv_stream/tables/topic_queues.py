"""The table `topic` in the form that lookups read: packed from Arrow once, then updated from `row_change`.

Arrow works on whole columns without holding Python's lock, so lookups in other threads are not held up.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from namesrv_stream.rules.queues import (
    CELL_BYTES,
    PAGE_TOPICS,
    Page,
    QueueCodes,
    QueueSettings,
    TopicChanges,
    TopicQueues,
)
from namesrv_stream.tables.changes import folded
from namesrv_stream.tables.damage import UNREADABLE
from namesrv_stream.tables.root import batches, query
from namesrv_stream.tables.schemas import TOPIC

log = logging.getLogger(__name__)

_PAIR = struct.Struct("=ii")
_LONG = struct.Struct("=q")
_LOW_BITS = 0xFFFF_FFFF
_IS_GONE = "is_gone"
_CHANGES = TOPIC.schema.append(pa.field(_IS_GONE, pa.bool_()))
_PIECE_ROWS = 2_048
MAX_CHANGES = 500_000
"""Most changed rows that are applied. For more, loading the whole table takes no longer and needs less
memory."""


def load_queues(table: DeltaTable, condition: str = "true") -> TopicQueues:
    """Return the queues of the table `topic` that meet a SQL condition, at the version of `table`."""
    queues = packed_queues(batches(table, TOPIC.schema, condition))
    pa.default_memory_pool().release_unused()  # the memory of the columns, which is more than that of the queues
    return queues


def packed_queues(rows: Iterable[pa.RecordBatch]) -> TopicQueues:
    """Return the queues of rows with TOPIC's columns. The rows may be in any order."""
    table = pa.Table.from_batches(rows, TOPIC.schema)
    if not len(table):
        return TopicQueues()
    order = pc.sort_indices(table, [(name, "ascending") for name in TOPIC.key])
    name, first, second = _coded(table)
    settings = _both(first, second)
    codes = QueueCodes(name.dictionary.to_pylist(), _settings_of(settings.dictionary, first, second))
    cells = pc.bit_wise_or(name.indices.cast(pa.int64()), _in_high_bits(settings.indices.cast(pa.int64()))).take(order)
    runs = pc.run_end_encode(table["topic"].take(order).combine_chunks())
    counts = {each["values"]: each["counts"] for each in pc.value_counts(name).to_pylist()}
    del table, rows, order, first, second, settings  # the pages take as much memory
    return TopicQueues(codes, _pages(codes, runs, cells), counts)


def changed_queues(queues: TopicQueues, changes: pa.Table) -> tuple[TopicQueues, frozenset[str]]:
    """Return `queues` after what `last_changes` has returned, and the topics that changed.

    Rows become Python objects in small pieces: one long step would hold up the lookups of other threads.
    """
    topics: set[str] = set()
    for piece in changes.to_batches(max_chunksize=_PIECE_ROWS):
        by_topic = _by_topic(piece)
        queues = queues.changed(by_topic)
        topics.update(by_topic)
    return queues, frozenset(topics)


def _by_topic(piece: pa.RecordBatch) -> TopicChanges:
    changes: dict[str, dict[str, QueueSettings | None]] = {}
    for topic, broker_name, *settings, is_gone in zip(*(column.to_pylist() for column in piece.columns), strict=True):
        changes.setdefault(topic, {})[broker_name] = None if is_gone else QueueSettings(*settings)
    return changes


def last_changes(table: DeltaTable, after: int, until: int) -> pa.Table | None:
    """Return the last change of each topic's row after one epoch, up to another one. `table` is `row_change`.

    Return None, so that the whole table is loaded, if more than `MAX_CHANGES` rows changed, or if it cannot be read.
    """
    try:
        found = query(table, f"{folded([TOPIC], f'epoch > {after} AND epoch <= {until}')} LIMIT {MAX_CHANGES + 1}")
    except UNREADABLE as error:
        log.debug("this process cannot read the changes from snapshot %d to %d: %s", after, until, error)
        return None
    if len(found) > MAX_CHANGES:
        return None
    rows = found[f"was_{TOPIC.name}"]
    settings = [pc.struct_field(rows, [name]) for name in QueueSettings._fields]
    return pa.table([found["topic"], found["broker_name"], *settings, rows.is_null()], _CHANGES.names).cast(_CHANGES)


def _coded(table: pa.Table) -> tuple[pa.DictionaryArray, ...]:
    """Return three dictionary-encoded columns: broker name, both queue counts, and both kinds of bits.

    Each pair of numbers is packed into one 64-bit integer.
    """
    values = [table[name].cast(pa.int64()) for name in QueueSettings._fields]
    low = [pc.bit_wise_and(value, _number(_LOW_BITS)) for value in values]
    pairs = [pc.bit_wise_or(_in_high_bits(values[at]), low[at + 1]) for at in (0, 2)]
    return tuple(pc.dictionary_encode(column.combine_chunks()) for column in (table["broker_name"], *pairs))


def _both(first: pa.DictionaryArray, second: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return each combination as index of `first` times the number of distinct `second` values + index of `second`."""
    high = pc.multiply(first.indices.cast(pa.int64()), _number(len(second.dictionary)))
    return pc.dictionary_encode(pc.add(high, second.indices.cast(pa.int64())))


def _settings_of(
    combinations: pa.Array, first: pa.DictionaryArray, second: pa.DictionaryArray
) -> Iterable[QueueSettings]:
    queues, bits = (
        [_PAIR.unpack(_LONG.pack(value))[::-1] for value in each.dictionary.to_pylist()] for each in (first, second)
    )
    for combination in combinations.to_pylist():
        high, low = divmod(combination, len(bits))
        yield QueueSettings(*queues[high], *bits[low])


def _in_high_bits(values: pa.Array) -> pa.Array:
    return pc.shift_left(values, _number(32))


def _number(value: int) -> pa.Scalar:
    """Return a number as an Arrow scalar. pa.scalar would import pandas, which takes almost a second."""
    return pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(_LONG.pack(value))])[0]


def _pages(codes: QueueCodes, runs: pa.RunEndEncodedArray, cells: pa.Array) -> Iterable[Page]:
    """Yield the pages. `runs`: the topics with the ends of their rows; `cells`: the rows in order."""
    topics, ends, coded = runs.values, runs.run_ends, pc.dictionary_encode(cells)
    single = [codes.shared(_LONG.pack(cell)) for cell in coded.dictionary.to_pylist()]
    view = memoryview(cells.buffers()[1])[cells.offset * CELL_BYTES :]
    last = 0
    for first in range(0, len(topics), PAGE_TOPICS):
        bounds = [last, *ends.slice(first, PAGE_TOPICS).to_pylist()]
        begin, last, count = last, bounds[-1], len(bounds) - 1
        if last - begin == count:  # each topic has one row
            pieces: Iterable[bytes] = map(single.__getitem__, coded.indices.slice(begin, count).to_pylist())
        else:
            pieces = (codes.shared(bytes(view[at * CELL_BYTES : end * CELL_BYTES])) for at, end in pairwise(bounds))
        yield dict(zip(topics.slice(first, count).to_pylist(), pieces, strict=True))
