"""Difference between two answers to the same question. Plain Python: no socket, no table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_KEYS = {"queueDatas": "brokerName", "brokerDatas": "brokerName"}
"""Lists of objects whose order has no meaning -> the field by which an object is found in both."""
_SETS = frozenset({"topicList"})


class Difference(NamedTuple):
    """One place at which two answers differ. `ours` or `theirs` is None if that side has nothing there."""

    question: str
    place: str
    ours: Any
    theirs: Any


def differences(question: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    """Yield the places at which two answers, as JSON values, differ. The order of queues and groups does not count."""
    yield from _compared(question, "", _normal("", ours), _normal("", theirs))


def _compared(question: str, place: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    if ours == theirs:
        return
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _compared(question, f"{place}.{key}".lstrip("."), ours.get(key), theirs.get(key))
        return
    yield Difference(question, place, ours, theirs)


def _normal(name: str, value: Any) -> Any:
    """Return the value with lists that have no order as dicts by their key, and without empty fields."""
    if isinstance(value, Mapping):
        named = {str(key): _normal(str(key), each) for key, each in value.items()}
        return {key: each for key, each in named.items() if not _may_be_left_out(each)}
    if isinstance(value, list) and name in _KEYS:
        by_key = {each[_KEYS[name]]: each for each in value}
        return {key: _normal("", {k: v for k, v in each.items() if k != _KEYS[name]}) for key, each in by_key.items()}
    if isinstance(value, list) and name in _SETS:
        return dict.fromkeys(sorted(value), "listed")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return sorted(value)
    return value


def _may_be_left_out(value: Any) -> bool:
    """Return whether one release of RocketMQ writes this value and another one leaves the field out."""
    return value is False or value in (None, "", {}, [])
