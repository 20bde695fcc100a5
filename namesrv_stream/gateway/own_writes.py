"""Keep the writes that this gateway has acknowledged and no snapshot has read yet: lookups of them wait (E12)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    Command,
    DeleteKvConfig,
    DeleteTopic,
    PutKvConfig,
    RegisterTopic,
    WipeWritePerm,
)
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand

WAIT_LIMIT_S = 2.5
"""Longest wait of one lookup. Clients give up after 3 s, and may ask again after an answer without the topic."""

UNREAD_LIMIT_S = 10.0
"""Time after the acknowledgement of a write after which no lookup waits for it."""

MAX_KEYS = 50_000
"""Most keys that lookups wait for. Beyond it lookups are answered from the newest snapshot at once."""

_OF_NAMESPACE = frozenset({RequestCode.GET_KV_CONFIG, RequestCode.GET_KVLIST_BY_NAMESPACE})
_OF_ALL = frozenset(
    {
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
    }
)

Key = str | tuple[str, str | int | None]
"""The subject of a write: a topic as plain text, or a broker name, a KV namespace, or a connection, whose lookups all
wait, with its kind. (A registration may have 10,000 topics: as many tuples would take 5 ms.)"""


@dataclass(eq=False)
class _Write:
    place: LogPosition
    keys: frozenset[Key]
    read: asyncio.Future[None]


class OwnWrites:
    """The unread writes of one gateway. Lives in the event loop."""

    def __init__(self, answers: AnswerCache) -> None:
        self._answers = answers
        self._writes: set[_Write] = set()
        self._unread: dict[Key, _Write] = {}

    def not_awaited(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that no unread write names. Lookups of the others already wait."""
        return [topic for topic in topics if topic not in self._unread]

    def registered(self, topics: Iterable[str], place: LogPosition) -> None:
        """Note a registration that Kafka has, with its topics that the newest snapshot lacked when it came."""
        self._note(set(topics), place)

    def commanded(self, command: Command, connection: int, place: LogPosition) -> None:
        """Note an operator's command that Kafka has, and the number of its connection."""
        self._note({*_concerns(command), ("connection", connection)}, place)

    def sent(self, place: LogPosition) -> asyncio.Future[None]:
        """Return a future for `until_read` of a record for which no lookup waits."""
        key = ("record", place.offset)
        self._note([key], place)
        if (write := self._unread.get(key)) is not None:
            return write.read
        read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        read.set_result(None)
        return read

    def follow(self, answers: AnswerCache) -> None:
        """Forget the writes that a newer snapshot has read, and end the wait for them."""
        self._answers = answers
        for write in [write for write in self._writes if self._has_read(write.place)]:
            self._release(write)

    @property
    def is_empty(self) -> bool:
        """True if no lookup has to wait."""
        return not self._unread

    def awaited(self, command: RemotingCommand, connection: int | None) -> asyncio.Future[None] | None:
        """Return a future for `until_read` of a lookup that has to wait; None if it need not."""
        if not self._unread:
            return None
        write = next((self._unread[key] for key in self._asked(command, connection) if key in self._unread), None)
        return None if write is None else write.read

    def _asked(self, command: RemotingCommand, connection: int | None) -> Iterable[Key]:
        fields = command.ext_fields or {}
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            topic = fields.get("topic")
            rows = self._answers.tables.queues.get(topic) if topic is not None else None
            return [topic or "", *(("broker", row.broker_name) for row in rows or ())]
        if command.code in _OF_NAMESPACE:
            return [("namespace", fields.get("namespace"))]
        return [("connection", connection)] if command.code in _OF_ALL else []

    def _note(self, keys: Collection[Key], place: LogPosition) -> None:
        if not keys or len(self._unread) + len(keys) > MAX_KEYS or self._has_read(place):
            return
        loop = asyncio.get_running_loop()
        write = _Write(place, frozenset(keys), loop.create_future())
        self._writes.add(write)
        self._unread.update(dict.fromkeys(keys, write))
        loop.call_later(UNREAD_LIMIT_S, self._release, write)

    def _release(self, write: _Write) -> None:
        if write in self._writes:
            self._writes.discard(write)
            for key in write.keys:
                if self._unread.get(key) is write:
                    del self._unread[key]
            write.read.set_result(None)

    def _has_read(self, place: LogPosition) -> bool:
        return place.offset < self._answers.offsets.get(place.partition, 0)


async def until_read(read: asyncio.Future[None]) -> None:
    """Wait until a lookup may be answered, for WAIT_LIMIT_S at most."""
    await asyncio.wait([read], timeout=WAIT_LIMIT_S)


def _concerns(command: Command) -> Iterable[Key]:
    match command:
        case PutKvConfig(namespace=name) | DeleteKvConfig(namespace=name):
            return [("namespace", name)]
        case DeleteTopic(topic=name) | RegisterTopic(topic=name):
            return [name]
        case WipeWritePerm(broker_name=name) | AddWritePerm(broker_name=name):
            return [("broker", name)]
    return []
