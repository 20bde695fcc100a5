"""The indexes by which lookups find rows, made from rows in order of their key.

Readers of the published tables and the registry in memory both make them here, so both answer a lookup alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.queues import TopicQueues

Index = Mapping[Any, Any]


def route_index(table: str, rows: Iterable[Any]) -> Index:
    """Index the rows of one small table, which come in order of their key, as `RouteTables` has it."""
    return _INDEXES[table](rows)


def route_tables(queues: TopicQueues, indexes: Mapping[str, Index]) -> RouteTables:
    """Join the table `topic` and the indexes of all other route tables, by table name."""
    return RouteTables(
        queues=queues,
        brokers=indexes["broker"],
        clusters=indexes["cluster"],
        filters=indexes["filter"],
        live=indexes["live"],
        kv=indexes["kv_config"],
        mappings=indexes["topic_mapping"],
        namesrv_config=indexes["namesrv_config"],
    )


def _by_first(rows: Iterable[Any]) -> Index:
    return {row[0]: row for row in rows}


def _second_by_first(rows: Iterable[Any]) -> Index:
    return dict(rows)


def _nested(rows: Iterable[Any], value: Callable[[Any], Any]) -> Index:
    """First key column -> second key column -> value."""
    index: dict[Any, dict[Any, Any]] = defaultdict(dict)
    for row in rows:
        index[row[0]][row[1]] = value(row)
    return dict(index)


def _seconds_by_first(rows: Iterable[Any]) -> Index:
    index: dict[Any, list[Any]] = defaultdict(list)
    for first, second in rows:
        index[first].append(second)
    return dict(index)


def _kv(rows: Iterable[Any]) -> Index:
    """Namespace -> key -> value; the row that records a namespace is no entry (K3, K4)."""
    index: dict[str, dict[str, str]] = {}
    for row in rows:
        entries = index.setdefault(row.namespace, {})
        if row.value is not None:
            entries[row.key] = row.value
    return index


_INDEXES: Mapping[str, Callable[[Iterable[Any]], Index]] = {
    "broker": lambda rows: _nested(rows, lambda row: row),
    "cluster": _seconds_by_first,
    "filter": _second_by_first,
    "live": _by_first,
    "kv_config": _kv,
    "namesrv_config": _second_by_first,
    "topic_mapping": lambda rows: _nested(rows, lambda row: row.mapping),
}

SMALL_TABLES = tuple(_INDEXES)
"""All route tables but `topic`."""
