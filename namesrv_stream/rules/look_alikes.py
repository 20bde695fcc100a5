"""Find names that people take for the same one: they differ in blanks, in invisible characters or in case."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of names that look alike. A name with a blank at an end is a group of its own if need be."""
    groups = defaultdict(list)
    for name in names:
        groups[_as_seen(name)].append(name)
    return [group for group in groups.values() if len(group) > 1 or group[0] != group[0].strip()]


def _as_seen(name: str) -> str:
    visible = "".join(each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) != "Cf")
    return " ".join(visible.split()).casefold()
