"""The last results of questions that are asked again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Keeps the `most` results that were asked for last, by what they depend on.

    Two threads may compute the same result.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the kept result for a key, or the one that `compute` makes."""
        try:
            self._found.move_to_end(key)
            return self._found[key]
        except KeyError:
            made = self._found[key] = compute()
        while len(self._found) > self._most:
            self._found.popitem(last=False)
        return made
