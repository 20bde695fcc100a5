"""One peer's connection: bytes to requests, answers to bytes, and what a connection may ask of this process."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from namesrv_stream.access.users import Origin
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.admission import TooManyConnectionsError
from namesrv_stream.gateway.answers import KeptAnswer
from namesrv_stream.gateway.connections import Connections
from namesrv_stream.gateway.handshake import Handshake, HandshakeRefusedError, Stage
from namesrv_stream.gateway.lookup_frames import LookupFrames
from namesrv_stream.gateway.tls import TlsSession
from namesrv_stream.wire.command import RemotingCommand, encode_command
from namesrv_stream.wire.frame import FrameDecoder

log = logging.getLogger(__name__)

MAX_UNANSWERED = 512
MAX_UNANSWERED_BYTES = 32 * 1024 * 1024
"""Of the requests of one connection: beyond it nothing more is read from it until answers have gone out."""

LONG_READ_BYTES = 128 * 1024
"""After a read of so many bytes it is the other connections' turn, however much has come over this one."""

_SECONDS_OF_ANY_READ = 0.0001
_SECONDS_OF_A_BYTE = 0.000_001
"""A read costs its host no more than this, however long it took: a machine that is busy with other work costs nobody
its turn. The time of this thread's own work would tell, but asking for it is a call of the system."""

OPENING_LIMIT_S = 10.0
"""From the connection to its first frame: for the first bytes, a PROXY header and the TLS handshake together."""


class Requests(Protocol):
    """What answers the requests of all connections."""

    lookups: LookupFrames | None
    """None while no lookup may be answered from memory alone."""

    def answer(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        """The answer's frame, at once; None where it comes later, through `reply`, or never (oneway)."""

    def count_lookups(self, given: Sequence[KeptAnswer], seconds: float) -> None:
        """These lookups were answered by their bytes, together in this time."""

    def connection_lost(self, connection: Connection) -> None:
        """No request will come over it any more."""


class Connection(asyncio.Protocol):
    """Cuts what comes into requests, has them answered and writes the answers. Lives in the event loop.

    `host`: the peer's address without its port; `order`: held while what a broker says is handed to Kafka, so that its
    records have the order of its requests.
    """

    def __init__(self, requests: Requests, connections: Connections) -> None:
        self._requests = requests
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._handshake: Handshake
        self._tls: TlsSession | None = None
        self._take: Callable[[bytes], None] = self._take_opening
        self._counted_for: str | None = None
        self._is_admitted = False
        self._decoder = FrameDecoder()
        self._unread = b""
        self._held_bytes = 0
        self._unanswered = 0
        self._unanswered_bytes = 0
        self._awaits_alone: RemotingCommand | None = None
        self._is_held_by_peer = False
        self._is_resting = False
        self._is_reading = True
        self._opened_s = self._active_s = self._loop.time()
        self._frame_began_s: float | None = None
        self.number = connections.next_number()
        self.host = self.peer = "?"
        self.order = asyncio.Lock()
        self.is_lost = False

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called once, first."""
        self._transport = cast(asyncio.Transport, transport)
        self.host, self.peer = _address(transport.get_extra_info("peername"))
        self._handshake = Handshake(self._connections.terms(self.host))
        self._is_from_proxy = self.host in self._connections.trusted_proxies
        counted_for = None if self._is_from_proxy else self.host
        try:
            self._connections.admission.enter(counted_for)
        except TooManyConnectionsError as error:
            self._say(logging.WARNING, f"connection of {self.peer} refused: {error}")
            self._transport.abort()
            return
        self._is_admitted, self._counted_for = True, counted_for
        self._connections.open.add(self)

    def data_received(self, data: bytes) -> None:
        """Whatever goes wrong with these bytes costs this connection and no other."""
        self._active_s = self._loop.time()
        started_s = time.perf_counter()
        self._guard(self._take, data)
        explained_s = _SECONDS_OF_ANY_READ + len(data) * _SECONDS_OF_A_BYTE
        spent_s = min(time.perf_counter() - started_s, explained_s)
        rest_s = self._connections.loop_time.spend(self.host, self._active_s, spent_s)
        if rest_s is not None:
            self._rest(rest_s)
        elif len(data) >= LONG_READ_BYTES:
            self._rest(0)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Called once, last."""
        self.is_lost = True
        if self._is_admitted:
            self._connections.open.discard(self)
            self._connections.admission.leave(self._counted_for)
            self._unread, self._decoder = b"", FrameDecoder()
            self.count_held()
            self._requests.connection_lost(self)

    def pause_writing(self) -> None:
        """The peer does not take its answers: read no more questions."""
        self._is_held_by_peer = True
        self._read_or_wait()

    def resume_writing(self) -> None:
        """The peer has taken what was waiting."""
        self._active_s = self._loop.time()
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
        self._awaits_alone = None if request is self._awaits_alone else self._awaits_alone
        if frame is not None and not request.is_oneway:
            self._write(frame)
        self._read_or_wait()
        self.count_held()

    def await_answer(self, request: RemotingCommand, *, alone: bool = False) -> None:
        """Counts a request that `reply` will end; `alone`: nothing more is answered over this connection before."""
        self._unanswered += 1
        self._awaits_alone = request if alone else self._awaits_alone
        self._unanswered_bytes += len(request.body)
        self._read_or_wait()

    def count_held(self) -> None:
        """Tells the budget of all peers what this one holds now."""
        held_bytes = 0 if self.is_lost or self.is_closing else self._holds_bytes()
        if held_bytes != self._held_bytes:
            self._held_bytes = held_bytes
            self._connections.hold(self, held_bytes, self._loop.time())

    def give_up(self, all_bytes: int) -> None:
        """Closes this connection at once, because all peers together hold too much and this one is to pay for it."""
        self._say(
            logging.WARNING,
            f"connection of {self.peer} closed: it holds {self._held_bytes} bytes of unfinished frames and answers not "
            f"taken, and all peers hold {all_bytes}, over peerBufferMaxBytes",
        )
        self._held_bytes = 0
        self._transport.abort()

    def complain(self, problem: str) -> None:
        """Names this peer in the log for a request that was answered and should not have been asked."""
        self._say(logging.INFO, f"request of {self.peer} refused: {problem}")

    def close_if_overdue(self, now_s: float, idle_limit_s: float) -> None:
        """Closes this connection if it has not begun, has said nothing, or is in one frame for too long."""
        has_begun = self._handshake.stage is Stage.FRAMES
        limit_s = idle_limit_s if has_begun else min(OPENING_LIMIT_S, idle_limit_s)
        if not self._is_overdue(now_s, limit_s):
            return
        if not self.is_closing:
            self._say(logging.INFO, f"connection of {self.peer} closed: nothing whole came within {limit_s:g} s")
        self.close()

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
        """What the connection itself proves of its peer. A load balancer's address proves none, nor a PROXY header."""
        address = None if self._is_from_proxy else self.host
        return Origin(address, self._tls.certificate_names if self._tls else frozenset())

    @property
    def is_answered(self) -> bool:
        """Whether no answer is outstanding."""
        return self._unanswered == 0

    # --- bytes in

    def _guard(self, take: Callable[[bytes], None], data: bytes) -> None:
        try:
            take(data)
        except (NamesrvError, ssl.SSLError) as error:
            self._fail(str(error))
        except Exception:
            log.exception("connection of %s closed: an error of ours", self.peer)
            self.close()
        self.count_held()

    def _take_opening(self, data: bytes) -> None:
        """Follows the handshake: in the clear, and again inside TLS."""
        rest = self._handshake.feed(data)
        if self._handshake.source is not None and self._counted_for is None:
            self._be_known_as(self._handshake.source)
        if rest is None:
            return
        if self._handshake.stage is Stage.TLS:
            self._start_tls(rest)
            return
        if self._tls is None:
            self._take = self._take_frames
        self._take_frames(rest)

    def _be_known_as(self, source: str) -> None:
        """The peer behind a load balancer counts and pays for itself."""
        host = source.rpartition(":")[0]
        self.peer = f"{source} (through {self.peer})"
        self._connections.admission.move(None, host)
        self.host = self._counted_for = host

    def _start_tls(self, first: bytes) -> None:
        context = self._connections.certificates.context()
        if context is None:
            raise HandshakeRefusedError("the TLS certificate cannot be read: see the log of this gateway's start")
        self._tls = TlsSession(context)
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
            (self._take_frames if self._handshake.stage is Stage.FRAMES else self._take_opening)(plain)

    def _take_frames(self, data: bytes) -> None:
        """Answers what has come, until the peer has to take answers first; what is left waits for `_go_on`."""
        data = self._unread + data if self._unread else data
        at = 0 if self._decoder.buffered_bytes else self._answer_lookups(data)
        self._unread = data[at:] if at else data
        if not self._is_held:
            data, self._unread = self._unread, b""
            self._answer_commands(data)
        is_unfinished = self._decoder.buffered_bytes and not self._is_held
        self._frame_began_s = (self._frame_began_s or self._active_s) if is_unfinished else None

    def _answer_lookups(self, data: bytes) -> int:
        """Answers the lookups that are known by their bytes; gives where the rest begins."""
        lookups = self._requests.lookups
        at = 0
        while lookups is not None and at < len(data) and not self._is_held:
            started_s = time.perf_counter()
            pieces, at, given = lookups.take(data, at)
            if not given:
                break
            self._frame_began_s = None
            self._write(b"".join(pieces))
            self._requests.count_lookups(given, time.perf_counter() - started_s)
        return at

    def _answer_commands(self, data: bytes) -> None:
        for command in self._decoder.feed(data):
            self._frame_began_s = None
            self._handle(command)
            if self._is_held:
                return  # the decoder gives the rest when it is fed again

    def _handle(self, command: RemotingCommand) -> None:
        if command.is_response:
            return  # nothing was asked
        frame = self._requests.answer(command, self)
        if frame is not None:
            self._write(frame)

    def _go_on(self) -> None:
        """Answers what came while the peer was held."""
        if not (self._is_held or self.is_lost or self.is_closing):
            self._guard(self._take_frames, b"")

    # --- bytes out

    def _write(self, data: bytes) -> None:
        if not self.is_lost:
            self._transport.write(self._tls.encrypted(data) if self._tls else data)

    @property
    def _is_held(self) -> bool:
        """Back pressure: whether the peer has to take answers, or wait for Kafka, before it is answered more."""
        too_much = self._unanswered > MAX_UNANSWERED or self._unanswered_bytes > MAX_UNANSWERED_BYTES
        return self._is_held_by_peer or too_much or self._awaits_alone is not None or self.is_closing

    def _rest(self, seconds: float) -> None:
        """Leaves the event loop to others for so long; 0: for one turn of it."""
        if not self._is_resting and not self.is_closing:
            self._is_resting = True
            self._read_or_wait()
            self._loop.call_later(seconds, self._on_rested)

    def _on_rested(self) -> None:
        self._is_resting = False
        self._read_or_wait()

    def _read_or_wait(self) -> None:
        """A peer that is held is not read from either."""
        should_read = not (self._is_held or self._is_resting)
        if should_read == self._is_reading or self._transport.is_closing():
            return
        self._is_reading = should_read
        (self._transport.resume_reading if should_read else self._transport.pause_reading)()
        if should_read and (self._unread or self._decoder.buffered_bytes):
            self._loop.call_soon(self._go_on)

    def _holds_bytes(self) -> int:
        unfinished = self._decoder.buffered_bytes + len(self._unread)
        return unfinished + self._unanswered_bytes + self._transport.get_write_buffer_size()

    def _is_overdue(self, now_s: float, limit_s: float) -> bool:
        if self._unanswered:
            return False
        began_s = self._frame_began_s if self._handshake.stage is Stage.FRAMES else self._opened_s
        return now_s - self._active_s > limit_s or (began_s is not None and now_s - began_s > limit_s)

    def _fail(self, problem: str) -> None:
        self._say(logging.WARNING, f"connection of {self.peer} closed: {problem}")
        self.close()

    def _say(self, level: int, message: str) -> None:
        self._connections.log.line(self.host, self._loop.time(), level, message)


class _Address(NamedTuple):
    host: str
    peer: str


def _address(peername: object) -> _Address:
    match peername:
        case (str(host), int(port), *_):
            return _Address(host, f"{host}:{port}")
    return _Address("?", "?")
