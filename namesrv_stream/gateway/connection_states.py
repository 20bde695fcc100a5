"""The states of one connection: when its peer is read from, and when its requests are answered. Owns no socket."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from namesrv_stream.wire.remoting_command import RemotingCommand

MAX_UNANSWERED = 512
MAX_UNANSWERED_BYTES = 32 * 1024 * 1024
"""Limits of one connection's requests that have been read and not answered."""


class State(Enum):
    """State of a connection. Only in the state READING requests are read and answered."""

    READING = auto()
    RESTING = auto()  # others are served before its next turn
    HELD_BY_KAFKA = auto()  # too many requests have been read and not answered
    HELD_BY_PEER = auto()  # the peer does not take its answers
    HELD_BY_BOTH = auto()
    CLOSING = auto()


class Event(Enum):
    """An event that may change a connection's state."""

    TURN_ENDS = auto()
    TURN_BEGINS = auto()
    UNANSWERED_ARE_MANY = auto()
    UNANSWERED_ARE_FEW = auto()
    ANSWERS_PILE_UP = auto()
    ANSWERS_ARE_TAKEN = auto()
    CLOSE = auto()


_TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.READING: {
        Event.TURN_ENDS: State.RESTING,
        Event.UNANSWERED_ARE_MANY: State.HELD_BY_KAFKA,
        Event.ANSWERS_PILE_UP: State.HELD_BY_PEER,
    },
    State.RESTING: {
        Event.TURN_BEGINS: State.READING,
        Event.UNANSWERED_ARE_MANY: State.HELD_BY_KAFKA,
        Event.ANSWERS_PILE_UP: State.HELD_BY_PEER,
    },
    State.HELD_BY_KAFKA: {Event.UNANSWERED_ARE_FEW: State.RESTING, Event.ANSWERS_PILE_UP: State.HELD_BY_BOTH},
    State.HELD_BY_PEER: {Event.ANSWERS_ARE_TAKEN: State.RESTING, Event.UNANSWERED_ARE_MANY: State.HELD_BY_BOTH},
    State.HELD_BY_BOTH: {
        Event.UNANSWERED_ARE_FEW: State.HELD_BY_PEER,
        Event.ANSWERS_ARE_TAKEN: State.HELD_BY_KAFKA,
    },
    State.CLOSING: {},
}
"""All transitions, except that CLOSE leads to CLOSING from each state. An event that is not listed changes nothing."""


class ConnectionStates:
    """Follows the state of one connection, and counts its unanswered requests."""

    def __init__(self) -> None:
        self.state = State.READING
        self.unanswered = 0
        self.unanswered_bytes = 0
        self._alone: RemotingCommand | None = None

    def on(self, event: Event) -> bool:
        """Apply an event. Return whether it has changed the state."""
        before = self.state
        self.state = State.CLOSING if event is Event.CLOSE else _TRANSITIONS[before].get(event, before)
        return self.state is not before

    def add(self, request: RemotingCommand, *, alone: bool) -> bool:
        """Count an unanswered request.

        Return whether the state has changed. `alone`: no later one is answered before it.
        """
        self.unanswered += 1
        self.unanswered_bytes += len(request.body)
        self._alone = request if alone else self._alone
        return self._is_full and self.on(Event.UNANSWERED_ARE_MANY)

    def remove(self, request: RemotingCommand) -> bool:
        """Count a request no longer, because it is answered. Return whether the state has changed."""
        self.unanswered -= 1
        self.unanswered_bytes -= len(request.body)
        self._alone = None if request is self._alone else self._alone
        return not self._is_full and self.on(Event.UNANSWERED_ARE_FEW)

    @property
    def is_held(self) -> bool:
        """True if the connection gets no turn until Kafka or the peer has taken something."""
        return self.state is not State.READING and self.state is not State.RESTING

    @property
    def is_held_by_peer(self) -> bool:
        """True while the peer does not take its answers."""
        return self.state is State.HELD_BY_PEER or self.state is State.HELD_BY_BOTH

    @property
    def _is_full(self) -> bool:
        too_many = self.unanswered > MAX_UNANSWERED or self.unanswered_bytes > MAX_UNANSWERED_BYTES
        return too_many or self._alone is not None
