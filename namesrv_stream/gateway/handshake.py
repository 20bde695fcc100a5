"""The opening of a connection: PROXY header, TLS and remoting, recognised by their first bytes. Owns no socket."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from namesrv_stream.errors import NamesrvError
from namesrv_stream.wire.opening import Opening, opening_of, proxy_header


class Stage(Enum):
    """The part of its opening that a connection has reached."""

    FIRST = "first bytes"
    PROXIED = "behind a PROXY header"
    TLS = "inside TLS"
    FRAMES = "remoting frames"


class Terms(NamedTuple):
    """The protocols with which a peer may begin.

    `has_tls`: a certificate is set, and tls.server.mode is not `disabled`.
    """

    has_tls: bool
    has_plain_text: bool
    is_trusted_proxy: bool


class HandshakeRefusedError(NamesrvError):
    """The first bytes of a connection are not allowed: close it."""


_TRANSITIONS: Final[Mapping[tuple[Stage, Opening], Stage]] = {
    (Stage.FIRST, Opening.PROXY_V1): Stage.PROXIED,
    (Stage.FIRST, Opening.PROXY_V2): Stage.PROXIED,
    (Stage.FIRST, Opening.TLS): Stage.TLS,
    (Stage.FIRST, Opening.REMOTING): Stage.FRAMES,
    (Stage.PROXIED, Opening.TLS): Stage.TLS,
    (Stage.PROXIED, Opening.REMOTING): Stage.FRAMES,
    (Stage.TLS, Opening.REMOTING): Stage.FRAMES,
}
"""All transitions of any connection. The terms of a peer decide which of them it may take."""


class Handshake:
    """Follows one connection from its first byte to its first frame. `source`: the peer that a PROXY header names."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._first = b""
        self.stage = Stage.FIRST
        self.source: str | None = None

    @property
    def is_unfinished(self) -> bool:
        """True while a part of an opening has come."""
        return bool(self._first)

    def feed(self, data: bytes) -> bytes | None:
        """Take the next bytes. Return those that belong to the stage now reached; None if more bytes are needed.

        At the stage TLS the returned bytes are ciphertext; feed the plain text inside them next.
        Raises HandshakeRefusedError, or FrameError for a broken PROXY header.
        """
        self._first += data
        while (opening := opening_of(self._first)) is not None:
            stage = self._next(opening)
            if stage is Stage.PROXIED:
                if not self._take_proxy_header():
                    return None
                continue
            self.stage = stage
            rest, self._first = self._first, b""
            return rest
        return None

    def _next(self, opening: Opening) -> Stage:
        stage = _TRANSITIONS.get((self.stage, opening))
        if stage is None:
            raise HandshakeRefusedError(
                f"the peer speaks {opening.value}, not RocketMQ's remoting: is this the port it meant?"
            )
        if refusal := self._refusal(stage):
            raise HandshakeRefusedError(refusal)
        return stage

    def _refusal(self, stage: Stage) -> str | None:
        """Return the reason why this peer may not enter a stage that others may; None if it may."""
        match stage:
            case Stage.PROXIED if not self._terms.is_trusted_proxy:
                return "it sends a PROXY header: if it is a load balancer of yours, add it to proxyProtocol.trusted"
            case Stage.TLS if not self._terms.has_tls:
                return "the peer speaks TLS: set tls.server.certPath and keyPath, or tlsEnable=false on the peer"
            case Stage.FRAMES if self.stage is not Stage.TLS and not self._terms.has_plain_text:
                return "plain text, and tls.server.mode is enforcing: set tlsEnable=true on the peer"
        return None

    def _take_proxy_header(self) -> bool:
        header = proxy_header(self._first)
        if header is None:
            return False
        self.stage, self.source = Stage.PROXIED, header.source
        self._first = self._first[header.length_bytes :]
        return True
