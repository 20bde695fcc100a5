"""The registry's rows of `topic` in little memory: about 20 bytes a row, besides the topics' names.

Each broker name has a dictionary from its topics to their queue settings. Broker names share the names of topics, and
equal settings are one object, so that a row is only an entry of a dictionary.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from namesrv_stream.rules.journal import Journal, Key, Table
from namesrv_stream.rules.queues import QueueSettings, TopicQueues
from namesrv_stream.rules.rows import TopicRow

Topics = dict[str, QueueSettings]
"""Topic -> settings, for one broker name."""


class TopicTable(Table[TopicRow]):
    """Rows of `topic`, in groups by broker name. Rows are made on request."""

    def __init__(self, journal: Journal) -> None:
        super().__init__("topic", lambda row: row[:2], lambda row: row.broker_name, journal)
        self._topics: dict[str, Topics] = {}
        self._settings: dict[QueueSettings, QueueSettings] = {}

    def load(self, rows: Iterable[TopicRow] | TopicQueues) -> None:
        """Take rows that are already published. An empty table takes packed queues at once."""
        if isinstance(rows, TopicQueues) and not self._topics:
            self._topics = rows.by_broker_name()
        else:
            super().load(rows.rows() if isinstance(rows, TopicQueues) else rows)

    def of(self, group: Hashable) -> Mapping[Key, TopicRow]:
        """Return the rows of one broker name by key. The mapping is live: copy it before a `put` or `drop`."""
        return _TopicRows(str(group), self._topics.get(str(group), {}))

    def groups(self) -> Collection[Hashable]:
        """Return the broker names that have topics."""
        return self._topics.keys()

    def refresh(self, row: TopicRow) -> None:
        """Replace a row without a journal entry."""
        settings = QueueSettings(*row[2:])
        topics = self._topics.setdefault(row.broker_name, {})
        topics[sys.intern(row.topic)] = self._settings.setdefault(settings, settings)

    def _known(self, row: TopicRow) -> TopicRow | None:
        topics = self._topics.get(row.broker_name)
        settings = topics.get(row.topic) if topics else None
        return None if settings is None else TopicRow(row.topic, row.broker_name, *settings)

    def _remove(self, row: TopicRow) -> TopicRow | None:
        topics = self._topics.get(row.broker_name, {})
        settings = topics.pop(row.topic, None)
        if not topics:
            self._topics.pop(row.broker_name, None)
        return None if settings is None else TopicRow(row.topic, row.broker_name, *settings)


class _TopicRows(Mapping[Key, TopicRow]):
    """The rows of one broker name, (topic, broker name) -> row."""

    def __init__(self, broker_name: str, topics: Topics) -> None:
        self._broker_name = broker_name
        self._topics = topics

    def __getitem__(self, key: Key) -> TopicRow:
        topic, broker_name = key
        if broker_name != self._broker_name:
            raise KeyError(key)
        return TopicRow(str(topic), self._broker_name, *self._topics[str(topic)])

    def __iter__(self) -> Iterator[Key]:
        return ((topic, self._broker_name) for topic in self._topics)

    def __len__(self) -> int:
        return len(self._topics)
