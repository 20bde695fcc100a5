"""One connection without its socket: its bytes become requests, and its state says when it is read from and answered.

Bytes have a PROXY header, TLS and frames in this order.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from functools import cached_property
from typing import Final, NamedTuple

from namesrv_stream.errors import NamesrvError
from namesrv_stream.wire.frame import FrameDecoder, Opening, opening_of, proxy_header
from namesrv_stream.wire.remoting_command import RemotingCommand

MAX_UNANSWERED = 512
MAX_UNANSWERED_BYTES = 32 * 1024 * 1024
"""Limits of one connection's requests that have been read and not answered."""

_CHUNK_BYTES = 64 * 1024

_BEHIND_PROXY: Final = frozenset({Opening.TLS, Opening.REMOTING})


class State(Enum):
    """State of a connection. Only in the state READING requests are read and answered."""

    READING = auto()
    RESTING = auto()  # others are served before its next turn
    HELD_BY_KAFKA = auto()  # too many requests have been read and not answered
    HELD_BY_PEER = auto()  # the peer does not take its answers
    HELD_BY_BOTH = auto()
    CLOSING = auto()


class FlowEvent(Enum):
    """An event that may change a connection's state."""

    TURN_ENDS = auto()
    TURN_BEGINS = auto()
    UNANSWERED_ARE_MANY = auto()
    UNANSWERED_ARE_FEW = auto()
    ANSWERS_PILE_UP = auto()
    ANSWERS_ARE_TAKEN = auto()
    CLOSE = auto()


_TRANSITIONS: Final[Mapping[State, Mapping[FlowEvent, State]]] = {
    State.READING: {
        FlowEvent.TURN_ENDS: State.RESTING,
        FlowEvent.UNANSWERED_ARE_MANY: State.HELD_BY_KAFKA,
        FlowEvent.ANSWERS_PILE_UP: State.HELD_BY_PEER,
    },
    State.RESTING: {
        FlowEvent.TURN_BEGINS: State.READING,
        FlowEvent.UNANSWERED_ARE_MANY: State.HELD_BY_KAFKA,
        FlowEvent.ANSWERS_PILE_UP: State.HELD_BY_PEER,
    },
    State.HELD_BY_KAFKA: {FlowEvent.UNANSWERED_ARE_FEW: State.RESTING, FlowEvent.ANSWERS_PILE_UP: State.HELD_BY_BOTH},
    State.HELD_BY_PEER: {FlowEvent.ANSWERS_ARE_TAKEN: State.RESTING, FlowEvent.UNANSWERED_ARE_MANY: State.HELD_BY_BOTH},
    State.HELD_BY_BOTH: {
        FlowEvent.UNANSWERED_ARE_FEW: State.HELD_BY_PEER,
        FlowEvent.ANSWERS_ARE_TAKEN: State.HELD_BY_KAFKA,
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

    def on(self, event: FlowEvent) -> bool:
        """Apply an event. Return whether it has changed the state."""
        before = self.state
        self.state = State.CLOSING if event is FlowEvent.CLOSE else _TRANSITIONS[before].get(event, before)
        return self.state is not before

    def add(self, request: RemotingCommand, *, alone: bool) -> bool:
        """Count an unanswered request.

        Return whether the state has changed. `alone`: no later one is answered before it.
        """
        self.unanswered += 1
        self.unanswered_bytes += len(request.body)
        self._alone = request if alone else self._alone
        return self._is_full and self.on(FlowEvent.UNANSWERED_ARE_MANY)

    def remove(self, request: RemotingCommand) -> bool:
        """Count a request no longer, because it is answered. Return whether the state has changed."""
        self.unanswered -= 1
        self.unanswered_bytes -= len(request.body)
        self._alone = None if request is self._alone else self._alone
        return not self._is_full and self.on(FlowEvent.UNANSWERED_ARE_FEW)

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


class Terms(NamedTuple):
    """The protocols with which a peer may begin.

    `has_tls`: a certificate is set, and tls.server.mode is not `disabled`.
    """

    has_tls: bool
    has_plain_text: bool
    is_trusted_proxy: bool


_MAY_FOLLOW: Final[Mapping[Opening | None, frozenset[Opening]]] = {
    None: frozenset({Opening.PROXY_V1, Opening.PROXY_V2, Opening.TLS, Opening.REMOTING}),
    Opening.PROXY_V1: _BEHIND_PROXY,
    Opening.PROXY_V2: _BEHIND_PROXY,
    Opening.TLS: frozenset({Opening.REMOTING}),
}
"""Protocol -> protocols that may follow it. The terms of a peer decide which of them it may use."""


class TlsSession:
    """The server's side of one connection's TLS. Raises ssl.SSLError if the peer violates the protocol."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_shaken = False
        """True once the handshake is whole."""

    def received(self, data: bytes, send: Callable[[bytes], None]) -> bytes:
        """Return the plain text that these bytes complete. Send TLS's own messages, such as those of the handshake."""
        self._incoming.write(data)
        plain = []
        try:
            if not self.is_shaken:
                self._session.do_handshake()
                self.is_shaken = True
            while chunk := self._session.read(_CHUNK_BYTES):
                plain.append(chunk)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        finally:
            if ciphertext := self._outgoing.read():
                send(ciphertext)
        return b"".join(plain)

    @cached_property
    def certificate_names(self) -> frozenset[str]:
        """The subject alternative names of the client's verified certificate, each as `DNS:name`.

        Read it only after the handshake: the first result is kept.
        """
        certificate = self._session.getpeercert() or {}
        names: Iterable[tuple[str, str]] = certificate.get("subjectAltName", ())  # type: ignore[assignment]
        return frozenset(f"{kind}:{name}" for kind, name in names)

    def encrypted(self, data: bytes | bytearray) -> bytes:
        """Return the bytes to send for this plain text."""
        self._session.write(data)
        return self._outgoing.read()


class Inbound:
    """Decoder of one connection from its first byte on. `source`: the peer that a PROXY header names.

    `context` returns the TLS settings for a new session, None if they cannot be read. `send` sends TLS's own messages.
    `answer_if_known`: see `FrameDecoder`.
    """

    def __init__(
        self,
        terms: Terms,
        context: Callable[[], ssl.SSLContext | None],
        send: Callable[[bytes], None],
        answer_if_known: Callable[[bytes], bool] = lambda _content: False,
    ) -> None:
        self._terms = terms
        self._context = context
        self._send = send
        self._first = b""
        self._decoder = FrameDecoder(answer_if_known=answer_if_known)
        self.opening: Opening | None = None
        """The protocol that was begun last; after REMOTING there is no other."""
        self.source: str | None = None
        self.tls: TlsSession | None = None

    @property
    def buffered_bytes(self) -> int:
        """The number of plain bytes that wait for the rest of their frame, or to be taken."""
        return self._decoder.buffered_bytes

    @property
    def content(self) -> bytes:
        """The frame of the request that was yielded last, if it is small, else empty."""
        return self._decoder.content

    @property
    def is_unfinished(self) -> bool:
        """True while a part of an opening or of a frame has come, or frames wait to be taken."""
        if self.opening is Opening.REMOTING:
            return self._decoder.buffered_bytes > 0
        return bool(self._first) or (self.tls is not None and not self.tls.is_shaken)

    def feed(self, data: bytes) -> Iterator[RemotingCommand]:
        """Take bytes at once, and yield the complete requests one by one.

        The next feed yields those that are not taken from the iterator. Raises NamesrvError or ssl.SSLError for bytes
        that a peer may not send, after the requests before them; close the connection then.
        """
        plain = data if self.tls is None else self.tls.received(data, self._send)
        if self.opening is not Opening.REMOTING:
            plain = self._opened(plain)
        return self._decoder.feed(plain)

    def drop(self) -> None:
        """Forget all bytes that wait."""
        self._first, self._decoder = b"", FrameDecoder()

    def _opened(self, data: bytes) -> bytes:
        """Take bytes of the opening. Return those that belong to frames."""
        self._first += data
        while (opening := opening_of(self._first)) is not None:
            self._check(opening)
            if opening is Opening.TLS:
                context = self._context()
                if context is None:
                    raise NamesrvError(
                        "the gateway cannot read its TLS certificate. The log of its start shows the cause."
                    )
                self.tls = TlsSession(context)
                self._first = self.tls.received(self._first, self._send)
            elif opening is not Opening.REMOTING:
                header = proxy_header(self._first)
                if header is None:
                    break
                self.source = header.source
                self._first = self._first[header.length_bytes :]
            self.opening = opening
            if opening is Opening.REMOTING:
                rest, self._first = self._first, b""
                return rest
        return b""

    def _check(self, opening: Opening) -> None:
        """Raise NamesrvError if the peer may not begin with this protocol now."""
        if opening not in _MAY_FOLLOW[self.opening]:
            raise NamesrvError(
                f"the peer speaks {opening.value}, not RocketMQ's remoting protocol. Check its host and port."
            )
        match opening:
            case Opening.PROXY_V1 | Opening.PROXY_V2 if not self._terms.is_trusted_proxy:
                raise NamesrvError(
                    "the peer sends a PROXY header. If it is a load balancer of yours, add it to proxyProtocol.trusted."
                )
            case Opening.TLS if not self._terms.has_tls:
                raise NamesrvError(
                    "the peer speaks TLS, and this gateway accepts only plain text. Set tls.server.certPath and "
                    "tls.server.keyPath, or -Dtls.enable=false on the peer."
                )
            case Opening.REMOTING if self.opening is not Opening.TLS and not self._terms.has_plain_text:
                raise NamesrvError(
                    "the peer speaks plain text, and tls.server.mode is enforcing. Set -Dtls.enable=true on the peer."
                )
