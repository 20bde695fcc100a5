"""Answers that are encoded once and kept, by what was asked."""

from __future__ import annotations

from typing import TypeVar

from namesrv_stream.wire.remoting_command import PreparedAnswer, RemotingCommand

MAX_KEPT_BYTES = 256 * 1024 * 1024
MAX_KEPT_OF_OTHERS_BYTES = 16 * 1024 * 1024
"""Limit for each request code but that of route lookups."""

_BYTES_OF_ANY_ANSWER = 500
"""Memory of the objects around an answer's bytes."""

K = TypeVar("K")
Asked = tuple[str | None, ...]
"""The values of a request's fields on which its answer depends."""


class KeptAnswer:
    """An encoded answer, with its request code and its result for the metrics.

    `is_dropped`: a newer snapshot may give another answer, so this one must not be sent any more.
    """

    __slots__ = ("code", "is_dropped", "prepared", "result")

    def __init__(self, code: int, answer: RemotingCommand) -> None:
        self.code = code
        self.result = answer.code
        self.prepared = PreparedAnswer(answer)
        self.is_dropped = False


class KeptAnswers(dict[K, KeptAnswer]):
    """Answers by what was asked.

    Peers may ask for any number of topics that do not exist. So beyond `max_bytes`, or else MAX_KEPT_BYTES, all answers
    are forgotten, and each is kept again when it is next asked for.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        super().__init__()
        self._max_bytes = max_bytes
        self.size_bytes = 0

    def keep(self, key: K, key_bytes: int, answer: KeptAnswer) -> bool:
        """Keep the answer. Return whether all others were forgotten to make room."""
        if key in self:
            self.drop(key, key_bytes)
        more_bytes = key_bytes + answer.prepared.size_bytes + _BYTES_OF_ANY_ANSWER
        is_full = self.size_bytes + more_bytes > (self._max_bytes or MAX_KEPT_BYTES)
        if is_full:
            self.let_go()
        self[key] = answer
        self.size_bytes += more_bytes
        return is_full

    def drop(self, key: K, key_bytes: int) -> None:
        """Forget one answer, and mark it as dropped for other dictionaries that have it."""
        dropped = self.pop(key)
        dropped.is_dropped = True
        self.size_bytes -= key_bytes + dropped.prepared.size_bytes + _BYTES_OF_ANY_ANSWER

    def let_go(self) -> None:
        """Forget all answers."""
        self.clear()
        self.size_bytes = 0


class KeptRoutes:
    """Answers to route lookups: `by_fields` of the request, and `by_frame`, the request's bytes.

    Each answer in `by_frame` is in `by_fields` too, or is marked as dropped. So a change reaches both.
    """

    def __init__(self) -> None:
        self.by_fields: KeptAnswers[Asked] = KeptAnswers()
        self.by_frame: KeptAnswers[bytes] = KeptAnswers()
        self._asked: dict[str | None, list[Asked]] = {}

    def keep(self, asked: Asked, answer: KeptAnswer) -> None:
        """Keep the answer to a lookup; its topic is the first field of `asked`."""
        if self.by_fields.keep(asked, bytes_of(asked), answer):
            self.by_frame.let_go()
            self._asked.clear()
        self._asked.setdefault(asked[0], []).append(asked)

    def drop_all(self) -> None:
        """Drop the answers to all lookups."""
        self.drop(frozenset(topic for topic in self._asked if topic is not None))

    def drop(self, topics: frozenset[str]) -> None:
        """Drop the answers to lookups of these topics."""
        for topic in topics & self._asked.keys():
            for asked in self._asked.pop(topic):
                self.by_fields.drop(asked, bytes_of(asked))


def bytes_of(asked: Asked) -> int:
    """Return the memory of the texts by which an answer is kept."""
    return sum(len(text) if text.isascii() else 4 * len(text) for text in asked if text)
