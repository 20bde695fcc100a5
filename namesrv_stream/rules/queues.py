"""The queues of all topics in little memory, where a change copies only a small part.

A row takes eight bytes: a number for its broker name and a number for its queue settings, because few settings are
distinct. Topics lie in pages in order of their names. A page never changes. The next snapshot has a new page for each
changed one and shares all others, so the holder of a snapshot still sees all of it (E8).
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from namesrv_stream.rules.record_types import PERM_WRITE
from namesrv_stream.rules.rows import TopicRow

PAGE_TOPICS = 1_024
"""Number of topics in a new page. A page of twice as many topics is split. Copying a page takes 20 µs."""

CELL_BYTES = 8
_CELL = struct.Struct("=II")

T = TypeVar("T")


class QueueSettings(NamedTuple):
    """The columns of a row of `topic` beside its key."""

    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


TopicChanges = Mapping[str, Mapping[str, QueueSettings | None]]
"""Topic -> broker name -> the row's new settings, None if the row is deleted."""

Page = dict[str, bytes]
"""Topic -> its cells, in order of broker name; topics in order."""


class QueueCodes:
    """Numbers for broker names and queue settings.

    Numbers are only added, so all snapshots of one follower share them.
    """

    def __init__(self, names: Iterable[str] = (), settings: Iterable[QueueSettings] = ()) -> None:
        self.names = list(names)
        self.settings = list(settings)
        self._name_codes = {name: code for code, name in enumerate(self.names)}
        self._settings_codes = {each: code for code, each in enumerate(self.settings)}
        self._shared: dict[bytes, bytes] = {}

    def cell(self, broker_name: str, settings: QueueSettings) -> bytes:
        """Return one row of `topic` without its topic, as bytes."""
        name_code = _code(broker_name, self.names, self._name_codes)
        return _CELL.pack(name_code, _code(settings, self.settings, self._settings_codes))

    def rows(self, topic: str, cells: bytes) -> list[TopicRow]:
        """Return the rows of a topic."""
        names, settings = self.names, self.settings
        return [TopicRow(topic, names[name], *settings[code]) for name, code in _CELL.iter_unpack(cells)]

    def first_settings(self, cells: bytes) -> QueueSettings:
        """Return the settings of a topic's first row."""
        code: int = _CELL.unpack_from(cells)[1]
        return self.settings[code]

    def name_code(self, broker_name: str) -> bytes | None:
        """Return the number of a broker name as its bytes in a cell; None if it has no number."""
        code = self._name_codes.get(broker_name)
        return None if code is None else _CELL.pack(code, 0)[: CELL_BYTES // 2]

    def name_codes(self, names: Container[str]) -> set[int]:
        """Return the numbers of those of `names` that have one."""
        return {code for code, name in enumerate(self.names) if name in names}

    def shared(self, cells: bytes) -> bytes:
        """Return equal bytes that are one object for all topics with the same single row."""
        return self._shared.setdefault(cells, cells) if len(cells) == CELL_BYTES else cells

    def changed(self, cells: bytes, changes: Mapping[str, QueueSettings | None], counts: Counter[str]) -> bytes:
        """Return the cells of a topic after a change, and update `counts`, the number of topics by broker name."""
        holders = name_codes_of(cells)
        for name, settings in changes.items():
            at = bisect_left(holders, name, key=self.names.__getitem__)
            was = int(at < len(holders) and self.names[holders[at]] == name)
            cell = b"" if settings is None else self.cell(name, settings)
            cells = cells[: at * CELL_BYTES] + cell + cells[(at + was) * CELL_BYTES :]
            holders[at : at + was] = name_codes_of(cell)
            counts[name] += bool(cell) - was
        return self.shared(cells)


class TopicQueues(Mapping[str, Sequence[TopicRow]]):
    """Topic -> its rows in order of broker name, for one snapshot.

    `topic_counts`: broker name -> its number of topics, if above 0. `pages`: the topics in order; successive snapshots
    share the pages in which nothing has changed. Rows are made on request. `changed` returns the queues of the next
    snapshot.
    """

    def __init__(
        self, codes: QueueCodes | None = None, pages: Iterable[Page] = (), topic_counts: Mapping[str, int] | None = None
    ) -> None:
        self._codes = codes or QueueCodes()
        self.pages = [page for page in pages if page]
        self._firsts = [next(iter(page)) for page in self.pages]
        self._length = sum(map(len, self.pages))
        self.topic_counts: Mapping[str, int] = topic_counts or {}

    @classmethod
    def of(cls, rows: Iterable[TopicRow]) -> TopicQueues:
        """Return the queues of these rows."""
        changes: dict[str, dict[str, QueueSettings | None]] = {}
        for row in rows:
            changes.setdefault(row.topic, {})[row.broker_name] = QueueSettings(*row[2:])
        return cls().changed(changes)

    def __getitem__(self, topic: str) -> list[TopicRow]:
        return self._codes.rows(topic, self._page_of(topic)[topic])

    def __contains__(self, topic: object) -> bool:
        return isinstance(topic, str) and topic in self._page_of(topic)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.pages)

    def __len__(self) -> int:
        return self._length

    def settings_on(self, broker_name: str, topics: Iterable[str]) -> Iterator[QueueSettings | None]:
        """Yield for each of `topics` the settings of its row on a broker name, None if there is no such row."""
        name_code = self._codes.name_code(broker_name)
        settings, at = self._codes.settings, 0
        for topic in topics:
            cells = self._page_of(topic).get(topic, b"")
            if name_code is None:
                yield None
                continue
            if cells[at : at + len(name_code)] != name_code:  # else it is at the same place as in the topic before
                at = _position(cells, name_code)
            yield None if at < 0 else settings[_CELL.unpack_from(cells, at)[1]]
            at = max(at, 0)

    def flags(self) -> Iterator[tuple[str, int]]:
        """Yield each topic with the flag of its first row."""
        first_settings = cache(self._codes.first_settings)
        return ((topic, first_settings(cells).topic_sys_flag) for topic, cells in self._all_cells())

    def topics_on(self, broker_names: Container[str]) -> list[str]:
        """Return the topics that have a row of one of these broker names."""
        codes = self._codes.name_codes(broker_names)
        has_one = cache(lambda cells: not codes.isdisjoint(name_codes_of(cells)))  # few distinct single rows
        return [topic for topic, cells in self._all_cells() if has_one(cells)]

    def alike(self, broker_names: Container[str]) -> list[tuple[list[TopicRow], list[str]]]:
        """Return the topics that have a row of one of these broker names, in order; those with the same rows together.

        The rows name no topic.
        """
        codes = self._codes.name_codes(broker_names)
        found: dict[bytes, list[str] | None] = {}
        for topic, cells in self._all_cells():
            if cells not in found:
                found[cells] = None if codes.isdisjoint(name_codes_of(cells)) else []
            if (topics := found[cells]) is not None:
                topics.append(topic)
        return [(self._codes.rows("", cells), topics) for cells, topics in found.items() if topics is not None]

    def counts_of(self, topics: Iterable[str]) -> Counter[str]:
        """Return broker name -> how many of these topics it has, if above 0."""
        distinct = Counter(self._page_of(topic).get(topic, b"") for topic in topics)
        counts = Counter[str]()
        for cells, count in distinct.items():
            for code in name_codes_of(cells):
                counts[self._codes.names[code]] += count
        return counts

    def by_rows(self, function: Callable[[Sequence[TopicRow]], T]) -> dict[str, T]:
        """Return topic -> what `function` returns for its rows, in order of topics.

        It is called once for all topics that have the same rows, with rows that name no topic.
        """
        distinct = set(chain.from_iterable(page.values() for page in self.pages))
        results = {cells: function(self._codes.rows("", cells)) for cells in distinct}
        return {topic: results[cells] for page in self.pages for topic, cells in page.items()}

    @cached_property
    def writable_names(self) -> frozenset[str]:
        """The broker names on which some topic has the write permission."""
        distinct = set(chain.from_iterable(page.values() for page in self.pages))
        names, settings = self._codes.names, self._codes.settings
        cells = chain.from_iterable(_CELL.iter_unpack(each) for each in distinct)
        return frozenset(names[name] for name, code in set(cells) if settings[code].perm & PERM_WRITE)

    def rows(self) -> Iterator[TopicRow]:
        """Yield all rows in order of their key."""
        return chain.from_iterable(self._codes.rows(topic, cells) for topic, cells in self._all_cells())

    def by_broker_name(self) -> dict[str, dict[str, QueueSettings]]:
        """Return broker name -> topic -> settings; equal names and settings are one object."""
        found: dict[str, dict[str, QueueSettings]] = {name: {} for name in self.topic_counts}
        by_code = [found.get(name, {}) for name in self._codes.names]
        settings = self._codes.settings
        for topic, cells in self._all_cells():
            for name, code in _CELL.iter_unpack(cells):
                by_code[name][topic] = settings[code]
        return found

    def changed(self, changes: TopicChanges) -> TopicQueues:
        """Return the queues after a change. This object stays as it is."""
        topics_by_page: dict[int, list[str]] = {}
        for topic in changes:
            topics_by_page.setdefault(self._page_number(topic), []).append(topic)
        counts, pages = Counter(self.topic_counts), list[Page]()
        for number, page in enumerate(self.pages or [{}]):
            topics = topics_by_page.get(number)
            pages += self._changed_page(page, topics, changes, counts) if topics else [page]
        return TopicQueues(self._codes, pages, +counts)

    def _changed_page(
        self, page: Page, topics: Iterable[str], changes: TopicChanges, counts: Counter[str]
    ) -> Iterable[Page]:
        after = dict(page)
        for topic in topics:
            after[topic] = self._codes.changed(after.get(topic, b""), changes[topic], counts)
        return _in_pages((topic, after[topic]) for topic in sorted(after) if after[topic])

    def _page_number(self, topic: str) -> int:
        return max(0, bisect_right(self._firsts, topic) - 1)

    def _page_of(self, topic: str) -> Page:
        return self.pages[self._page_number(topic)] if self.pages else {}

    def _all_cells(self) -> Iterator[tuple[str, bytes]]:
        return chain.from_iterable(page.items() for page in self.pages)


def _position(cells: bytes, name_code: bytes) -> int:
    """Return the index at which the cell of a broker name begins, -1 if it has none."""
    at = cells.find(name_code)
    while at > 0 and at % CELL_BYTES:  # these bytes belong to queue settings or to two numbers: look further
        at = cells.find(name_code, at + 1)
    return at


def name_codes_of(cells: bytes) -> list[int]:
    """Return the numbers of the broker names in a topic's cells."""
    return memoryview(cells).cast("I").tolist()[::2]


def _in_pages(items: Iterable[tuple[str, bytes]]) -> list[Page]:
    """Return sorted topics as one page, or as pages of PAGE_TOPICS if there are twice PAGE_TOPICS or more."""
    left = iter(items)
    page = dict(islice(left, 2 * PAGE_TOPICS))
    if len(page) < 2 * PAGE_TOPICS:
        return [page]
    everything = chain(page.items(), left)
    return list(iter(lambda: dict(islice(everything, PAGE_TOPICS)), {}))


def _code(value: T, values: list[T], codes: dict[T, int]) -> int:
    """Return the number of a value; a value without one gets the next."""
    code = codes.get(value)
    if code is None:
        code = codes[value] = len(values)
        values.append(value)
    return code
