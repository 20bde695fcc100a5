"""Answers that are encoded once and kept, by what was asked."""

from __future__ import annotations

from namesrv_stream.wire.remoting_command import PreparedAnswer, RemotingCommand

MAX_KEPT_BYTES = 256 * 1024 * 1024
MAX_KEPT_OF_OTHERS_BYTES = 16 * 1024 * 1024
"""Limit for each request code but that of route lookups."""

_BYTES_OF_ANY_ANSWER = 500
"""Memory of the objects around an answer's bytes."""

Asked = tuple[str | None, ...]
"""The values of a request's fields on which its answer depends."""


class KeptAnswer:
    """An encoded answer, with its request code and its result for the metrics."""

    __slots__ = ("code", "prepared", "result")

    def __init__(self, code: int, answer: RemotingCommand) -> None:
        self.code = code
        self.result = answer.code
        self.prepared = PreparedAnswer(answer)


class KeptAnswers(dict[Asked, KeptAnswer]):
    """Answers by what was asked.

    Peers may ask for any number of topics that do not exist. So beyond `max_bytes` all answers are forgotten, and each
    is kept again when it is next asked for.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes
        self._of_first: dict[str | None, list[Asked]] = {}
        self.size_bytes = 0

    def keep(self, asked: Asked, answer: KeptAnswer) -> None:
        """Keep the answer."""
        self.size_bytes += _bytes_of(asked, answer)
        if self.size_bytes > self._max_bytes:
            self.clear()
            self._of_first.clear()
            self.size_bytes = _bytes_of(asked, answer)
        self[asked] = answer
        self._of_first.setdefault(asked[0] if asked else None, []).append(asked)

    def drop(self, values: frozenset[str]) -> None:
        """Forget the answers to requests whose first field has one of these values: its topic, in a route lookup."""
        for value in values & self._of_first.keys():
            for asked in self._of_first.pop(value):
                self.size_bytes -= _bytes_of(asked, self.pop(asked))


def _bytes_of(asked: Asked, answer: KeptAnswer) -> int:
    """Return the memory that an answer and the texts by which it is kept take."""
    texts = sum(len(text) if text.isascii() else 4 * len(text) for text in asked if text)
    return texts + answer.prepared.size_bytes + _BYTES_OF_ANY_ANSWER
