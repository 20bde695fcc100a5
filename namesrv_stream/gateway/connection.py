"""One peer's connection: bytes to requests, answers to bytes, and what a connection may ask of this process."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from typing import Protocol, cast

from namesrv_stream.access.users import Origin
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.answers import KeptAnswer
from namesrv_stream.gateway.lookup_frames import LookupFrames
from namesrv_stream.gateway.tls import Certificates, TlsSession
from namesrv_stream.wire.command import RemotingCommand, encode_command
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.opening import Opening, opening_of, proxy_header

log = logging.getLogger(__name__)

MAX_UNANSWERED = 512
MAX_UNANSWERED_BYTES = 32 * 1024 * 1024
"""Of the requests of one connection: beyond it nothing more is read from it until answers have gone out."""

MAX_BUFFERED_BYTES = 256 * 1024 * 1024
"""Of incomplete frames of all connections together."""


class ConnectionRefusedByRuleError(NamesrvError):
    """A connection that is not spoken to: the wrong protocol, or too much of it."""


class Requests(Protocol):
    """What answers the requests of all connections."""

    lookups: LookupFrames | None
    """None while no lookup may be answered from memory alone."""

    def answer(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        """The answer's frame, at once; None where it comes later, through `reply`, or never (oneway)."""

    def count_lookups(self, given: list[KeptAnswer], seconds: float) -> None:
        """These lookups were answered by their bytes, together in this time."""

    def connection_lost(self, connection: Connection) -> None:
        """No request will come over it any more."""


class Connections:
    """All open connections of one server, and what they share."""

    def __init__(self, certificates: Certificates, tls_mode: str) -> None:
        self.certificates = certificates
        self.tls_mode = tls_mode
        self.open: set[Connection] = set()
        self.buffered_bytes = 0
        self._number = 0

    def next_number(self) -> int:
        """Of a new connection, never given twice."""
        self._number += 1
        return self._number

    def close_idle(self, now_s: float, limit_s: float) -> None:
        """Closes who has neither sent nor received for `limit_s`, or has not ended a frame within it."""
        for connection in [each for each in self.open if each.is_idle(now_s, limit_s)]:
            if not connection.is_closing:
                log.info("connection of %s closed: nothing whole came within %d s", connection.peer, limit_s)
            connection.close()


class Connection(asyncio.Protocol):
    """Cuts what comes into requests, has them answered and writes the answers. Lives in the event loop.

    `order`: held while what a broker says is handed to Kafka, so that its records have the order of its requests.
    """

    def __init__(self, requests: Requests, connections: Connections) -> None:
        self._requests = requests
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._tls: TlsSession | None = None
        self._take: Callable[[bytes], None] = self._take_opening
        self._first = b""
        self._has_proxy_header = False
        self._decoder_is_ready = False
        self._decoder = FrameDecoder()
        self._counted_bytes = 0
        self._unanswered = 0
        self._unanswered_bytes = 0
        self._is_held_by_peer = False
        self._is_reading = True
        self._active_s = self._loop.time()
        self._frame_began_s: float | None = self._active_s
        self.number = connections.next_number()
        self.peer = "?"
        self.order = asyncio.Lock()
        self.is_lost = False

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called once, first."""
        self._transport = cast(asyncio.Transport, transport)
        self.peer = _address_text(transport.get_extra_info("peername"))
        self._connections.open.add(self)

    def data_received(self, data: bytes) -> None:
        """Whatever goes wrong with these bytes costs this connection and no other."""
        self._active_s = self._loop.time()
        try:
            self._take(data)
        except (NamesrvError, ssl.SSLError) as error:
            self._fail(str(error))
        except Exception:
            log.exception("connection of %s closed: an error of ours", self.peer)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Called once, last."""
        self.is_lost = True
        self._connections.open.discard(self)
        self._connections.buffered_bytes -= self._counted_bytes
        self._requests.connection_lost(self)

    def pause_writing(self) -> None:
        """The peer does not take its answers: read no more questions."""
        self._is_held_by_peer = True
        self._read_or_wait()

    def resume_writing(self) -> None:
        """The peer has taken what was waiting."""
        self._is_held_by_peer = False
        self._read_or_wait()

    # --- what the gateway calls

    def reply(self, request: RemotingCommand, answer: RemotingCommand | None) -> None:
        """Ends a request whose answer came later; None: it gets none."""
        self.reply_frame(request, None if answer is None else encode_command(answer))

    def reply_frame(self, request: RemotingCommand, frame: bytes | None) -> None:
        """The same, with an answer that is encoded already."""
        self._unanswered -= 1
        self._unanswered_bytes -= len(request.body)
        if frame is not None and not request.is_oneway:
            self._write(frame)
        self._read_or_wait()

    def await_answer(self, request: RemotingCommand) -> None:
        """Counts a request that `reply` will end."""
        self._unanswered += 1
        self._unanswered_bytes += len(request.body)
        self._read_or_wait()

    def is_idle(self, now_s: float, limit_s: float) -> bool:
        """Silent both ways for that long, or in the middle of a frame for that long."""
        if self._unanswered:
            return False
        return now_s - self._active_s > limit_s or (
            self._frame_began_s is not None and now_s - self._frame_began_s > limit_s
        )

    def close(self) -> None:
        """Closes once what was written has been sent; at once where the peer takes nothing, or when called again."""
        if self._is_held_by_peer or self.is_closing:
            self._transport.abort()
        else:
            self._transport.close()

    @property
    def is_closing(self) -> bool:
        """Whether it is closed, but for what has yet to be sent."""
        return self._transport.is_closing()

    @property
    def origin(self) -> Origin:
        """What the connection itself proves of its peer. A PROXY header is no proof of an address."""
        peername = None if self._has_proxy_header else self._transport.get_extra_info("peername")
        return Origin(peername[0] if peername else None, self._tls.certificate_names if self._tls else frozenset())

    @property
    def is_answered(self) -> bool:
        """Whether no answer is outstanding."""
        return self._unanswered == 0

    # --- bytes in

    def _take_opening(self, data: bytes) -> None:
        """The first bytes tell the protocol; a PROXY header may stand before them."""
        self._first += data
        opening = opening_of(self._first)
        if opening is None:
            return
        if opening in (Opening.PROXY_V1, Opening.PROXY_V2) and not self._has_proxy_header:
            self._take_proxy_header()
        elif opening is Opening.TLS and self._tls is None:
            self._start_tls()
        elif opening is Opening.REMOTING and (self._tls or self._connections.tls_mode != "enforcing"):
            self._start_frames()
        else:
            raise ConnectionRefusedByRuleError(_refusal(opening))

    def _take_proxy_header(self) -> None:
        header = proxy_header(self._first)
        if header is None:
            return
        self._has_proxy_header = True
        self.peer = f"{header.source} (through {self.peer})" if header.source else self.peer
        self._first = self._first[header.length_bytes :]
        if self._first:
            self._take_opening(b"")

    def _start_tls(self) -> None:
        context = self._connections.certificates.context() if self._connections.tls_mode != "disabled" else None
        if context is None:
            raise ConnectionRefusedByRuleError(
                "the peer speaks TLS: set tls.server.certPath and keyPath, or tlsEnable=false on the peer"
            )
        self._tls = TlsSession(context)
        first, self._first = self._first, b""
        self._take = self._take_tls
        self._take_tls(first)

    def _take_tls(self, data: bytes) -> None:
        assert self._tls is not None, "this state is entered with a session"
        try:
            plain = self._tls.decrypted(data)
        finally:
            if said := self._tls.to_send():
                self._transport.write(said)
        if plain:
            self._take_plain(plain)

    def _take_plain(self, plain: bytes) -> None:
        if self._decoder_is_ready:
            self._take_frames(plain)
        else:
            self._take_opening(plain)

    def _start_frames(self) -> None:
        first, self._first = self._first, b""
        self._decoder_is_ready = True
        if self._tls is None:
            self._take = self._take_frames
        self._take_frames(first)

    def _take_frames(self, data: bytes) -> None:
        lookups = self._requests.lookups
        if lookups is not None and not self._decoder.buffered_bytes:
            started_s = time.perf_counter()
            pieces, taken, given = lookups.take(data)
            if given:
                self._write(b"".join(pieces))
                self._requests.count_lookups(given, time.perf_counter() - started_s)
            if taken == len(data):
                self._frame_began_s = None
                return
            data = data[taken:] if taken else data
        for command in self._decoder.feed(data):
            self._frame_began_s = None
            self._handle(command)
        self._mind_what_waits()

    def _handle(self, command: RemotingCommand) -> None:
        if command.is_response:
            return  # nothing was asked
        frame = self._requests.answer(command, self)
        if frame is not None:
            self._write(frame)

    def _mind_what_waits(self) -> None:
        """Incomplete frames count for all connections together, and each has to end within the idle limit."""
        waiting = self._decoder.buffered_bytes
        shared = self._connections
        shared.buffered_bytes += waiting - self._counted_bytes
        self._counted_bytes = waiting
        self._frame_began_s = (self._frame_began_s or self._active_s) if waiting else None
        if waiting and shared.buffered_bytes > MAX_BUFFERED_BYTES:
            raise ConnectionRefusedByRuleError(
                f"incomplete frames of all connections hold {shared.buffered_bytes} bytes, over the limit of "
                f"{MAX_BUFFERED_BYTES}: is somebody sending without end?"
            )

    # --- bytes out

    def _write(self, data: bytes) -> None:
        if not self.is_lost:
            self._transport.write(self._tls.encrypted(data) if self._tls else data)

    def _read_or_wait(self) -> None:
        """Back pressure: whoever does not take answers, or asks faster than Kafka takes, is not read from."""
        too_much = self._unanswered > MAX_UNANSWERED or self._unanswered_bytes > MAX_UNANSWERED_BYTES
        should_read = not (self._is_held_by_peer or too_much)
        if should_read != self._is_reading and not self._transport.is_closing():
            self._is_reading = should_read
            (self._transport.resume_reading if should_read else self._transport.pause_reading)()

    def _fail(self, problem: str) -> None:
        log.warning("connection of %s closed: %s", self.peer, problem)
        self.close()


def _refusal(opening: Opening) -> str:
    if opening is Opening.REMOTING:
        return "plain text, and tls.server.mode is enforcing: set tlsEnable=true on the peer"
    return f"the peer speaks {opening.value}, not RocketMQ's remoting: is this the port it meant?"


def _address_text(peername: object) -> str:
    match peername:
        case (str(host), int(port), *_):
            return f"{host}:{port}"
    return "?"
