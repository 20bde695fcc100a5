"""Limits of what is served for one connection at a time: its turn, and the requests that await an answer."""

from __future__ import annotations

import time

from namesrv_stream.wire.remoting_command import RemotingCommand

MAX_UNANSWERED = 512
MAX_UNANSWERED_BYTES = 32 * 1024 * 1024
"""Limits of one connection's unanswered requests: beyond them it is not read from until answers have been sent."""

_SECONDS_OF_ANY_READ = 0.0001
_SECONDS_OF_A_BYTE = 0.000_001
"""A read is charged to its host with at most this time, however long it took: no host loses its turn because other work
keeps the machine busy. This thread's CPU time would be exact, but reading it takes a system call."""

_TURN_S = 0.001
"""A connection's turn ends after this time, even if more requests have been read: others are answered first."""


class Turn:
    """The event loop's work for one connection until it turns to another one.

    `later_s`: the time of work in the loop that will follow for requests that are answered later. `has_more`: the turn
    ended before all requests that have been read were answered.
    """

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self.later_s = 0.0
        self.has_more = False

    @property
    def spent_s(self) -> float:
        """The loop's time for this turn until now, with what will follow."""
        return time.perf_counter() - self._began_s + self.later_s

    @property
    def is_over(self) -> bool:
        """True if others are to be served before the next request of this connection."""
        return self.spent_s > _TURN_S

    def charged_s(self, read_bytes: int) -> float:
        """Return the time to charge for this turn, in which so many bytes were read."""
        return min(self.spent_s, _SECONDS_OF_ANY_READ + read_bytes * _SECONDS_OF_A_BYTE + self.later_s)


class Unanswered:
    """The requests of one connection that have been read and not answered."""

    def __init__(self) -> None:
        self._count = 0
        self._alone: RemotingCommand | None = None
        self.held_bytes = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, request: RemotingCommand, *, alone: bool = False) -> None:
        """Count a request. `alone`: no other request of the connection is answered before."""
        self._count += 1
        self._alone = request if alone else self._alone
        self.held_bytes += len(request.body)

    def remove(self, request: RemotingCommand) -> None:
        """Count a request no longer: it is answered."""
        self._count -= 1
        self._alone = None if request is self._alone else self._alone
        self.held_bytes -= len(request.body)

    @property
    def is_full(self) -> bool:
        """True while no further request may be read."""
        return self._alone is not None or self._count > MAX_UNANSWERED or self.held_bytes > MAX_UNANSWERED_BYTES
