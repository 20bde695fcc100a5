"""One peer's connection: turns bytes into requests and answers into bytes, within the limits of a connection."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from typing import cast

from namesrv_stream.access.users import Origin
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.admission import TooManyConnectionsError, peer_address
from namesrv_stream.gateway.connection_limits import Turn, Unanswered
from namesrv_stream.gateway.connections import Connections, Requests
from namesrv_stream.gateway.handshake import Handshake, HandshakeRefusedError, Stage
from namesrv_stream.gateway.tls import TlsSession
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand

log = logging.getLogger(__name__)

LONG_READ_BYTES = 128 * 1024
"""A read of so many bytes ends a connection's turn: other connections are read from before it is read from again."""

_SHORTEST_REST_S = 0.001
"""The event loop's clock counts milliseconds: a shorter timer is called again and again until the next one."""

WHOLE_LIMIT_S = 10.0
"""Limit for what a peer has begun to become whole: a PROXY header, a TLS handshake or a frame."""

_SLOWEST_BYTES_A_S = 64 * 1024
"""A large frame has longer, if it comes so fast at least."""


class Connection(asyncio.Protocol):
    """Cuts received bytes into requests, has them answered and sends the answers. Lives in the event loop.

    `host`: the peer's address without its port. `order`: a lock that is held while a request is handed to Kafka, so
    that the records have the order of the connection's requests.
    """

    def __init__(self, requests: Requests, connections: Connections) -> None:
        self._requests = requests
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._handshake: Handshake
        self._tls: TlsSession | None = None
        # A function and no method, which would keep this object until the next garbage collection.
        self._take: Callable[[Connection, bytes], None] = Connection._take_opening
        self._counted_for: str | None = None
        self._is_admitted = False
        self._decoder = FrameDecoder()
        self._received = b""  # bytes that wait for the host's turn
        self._unread = b""  # frames that wait because the connection is held
        self._held_bytes = 0
        self._unanswered = Unanswered()
        self._turn = Turn()
        self._will_go_on = False
        self._is_held_by_peer = False
        self._is_resting = False
        self._is_reading = True
        self._opened_s = self._active_s = self._loop.time()
        self._began_s: float | None = None  # when the first byte came of what is not whole yet
        self.number = connections.next_number()
        self.host = self.peer = "?"
        self.order = asyncio.Lock()
        self.is_lost = False
        self.loss = ""
        """The reason why this connection is lost, or will be; empty until that is known."""
        self.ends_leases = True
        """False if the gateway closes it because it is idle or Kafka is away: then it is not lost (D13)."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or refuse it at once. asyncio calls this once, first."""
        self._transport = cast(asyncio.Transport, transport)
        self.host, self.peer = peer_address(transport.get_extra_info("peername"))
        self._handshake = Handshake(self._connections.terms(self.host))
        self._is_from_proxy = self.host in self._connections.trusted_proxies
        counted_for = None if self._is_from_proxy else self.host
        try:
            self._connections.enter(self, counted_for)
        except TooManyConnectionsError as error:
            self._log_line(logging.WARNING, f"connection of {self.peer} refused: {error}")
            self._transport.abort()
            return
        self._is_admitted, self._counted_for = True, counted_for
        self._connections.open.add(self)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes, and rest if the host's time is over. An error closes this connection and no other."""
        if self._active_s == self._opened_s:
            self._connections.silent.discard(self, self._counted_for)
        self._active_s = self._loop.time()
        rest_s = self._wait_s()
        if rest_s is None and (self._received or self._connections.is_heavy(self.host)):
            rest_s = 0
        if rest_s is not None:
            self._received += data
            self.count_held()
        else:
            rest_s = self._charged(self._take, data)
        if rest_s is not None:
            self._rest(rest_s)
        elif len(data) >= LONG_READ_BYTES:
            self._rest(0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release all that is counted for this connection. asyncio calls this once, last."""
        self.is_lost = True
        self.loss = self.loss or (str(exc) if exc else "the peer closed it")
        self._drop_input()
        self.count_held()
        if self._is_admitted:
            self._leave()
            self._requests.connection_lost(self)

    def make_room(self) -> None:
        """Close this connection, which has sent nothing, and count it no more: a new one needs its place."""
        self._log_line(logging.INFO, f"connection of {self.peer} closed: it has sent nothing, and a new one needs room")
        self._transport.abort()
        self._leave()

    def _leave(self) -> None:
        self._is_admitted = False
        self._connections.open.discard(self)
        self._connections.silent.discard(self, self._counted_for)
        self._connections.admission.leave(self._counted_for)

    def eof_received(self) -> None:
        """Forget what was received: asyncio closes the connection, which takes as long as the peer takes answers."""
        self._drop_input()
        self.count_held()

    def pause_writing(self) -> None:
        """Read no more requests, because the peer does not take its answers."""
        self._is_held_by_peer = True
        self._read_or_wait()

    def resume_writing(self) -> None:
        """Read requests again, because the peer has taken the answers that waited."""
        self._active_s = self._loop.time()
        self._is_held_by_peer = False
        self._read_or_wait()

    def reply_frame(self, request: RemotingCommand, frame: bytes | None) -> None:
        """Answer a request that `await_answer` has counted; None sends no answer."""
        self._unanswered.remove(request)
        if frame is not None and not request.is_oneway:
            self._write(frame)
        self._read_or_wait()
        self.count_held()

    def await_answer(self, request: RemotingCommand, *, later_s: float = 0.0, alone: bool = False) -> None:
        """Count a request that `reply_frame` will answer, and charge the host with `later_s` of the loop for that.

        `alone`: no other request of this connection is answered before.
        """
        self._unanswered.add(request, alone=alone)
        self._turn.later_s += later_s
        if self._is_held:
            self._set_reading()

    def count_held(self) -> None:
        """Record in the budget of all peers how many bytes this connection holds now."""
        held_bytes = 0 if self.is_lost else self.held_bytes
        if held_bytes != self._held_bytes:
            self._held_bytes = held_bytes
            self._connections.hold(self, held_bytes, self._loop.time())

    def give_up(self, all_bytes: int) -> None:
        """Close this connection at once, because all peers together hold too much and this one was picked to pay."""
        self._log_line(
            logging.WARNING,
            f"connection of {self.peer} closed: it holds {self._held_bytes} bytes of unfinished frames and answers not "
            f"taken, and all peers hold {all_bytes}, over peerBufferMaxBytes",
        )
        self._held_bytes = 0
        self.loss = "it held too many bytes"
        self._transport.abort()

    def complain(self, problem: str) -> None:
        """Log that a request of this peer was refused, and why. The request itself is answered."""
        self._log_line(logging.INFO, f"request of {self.peer} refused: {problem}")

    def note_left_out(self, address: str, topics: str) -> None:
        """Log which topics of this peer's registration cannot be taken, although the registration is (R1a)."""
        self._log_line(logging.WARNING, f"topics of {address} at {self.peer} are left out: {topics}")

    def close_if_overdue(self, now_s: float, idle_limit_s: float) -> None:
        """Close this connection if it is idle, or takes too long to send a whole frame. No lease ends (D13)."""
        if self._is_answering:
            return
        whole_limit_s = min(WHOLE_LIMIT_S + self._decoder.buffered_bytes / _SLOWEST_BYTES_A_S, idle_limit_s)
        if self._began_s is not None and now_s - self._began_s > whole_limit_s:
            self.close_by_itself(f"nothing whole came within {whole_limit_s:.3g} s")
        elif now_s - self._active_s > idle_limit_s:
            self.close_by_itself(f"idle for {idle_limit_s:g} s")

    def close_by_itself(self, why: str) -> None:
        """Close this connection, which its peer has not lost: no lease ends (D13)."""
        if not self.is_closing:
            self.loss, self.ends_leases = why, False
            self._log_line(logging.INFO, f"connection of {self.peer} closed: {why}")
        self.close()

    def close(self) -> None:
        """Close once all written bytes are sent; at once if the peer takes nothing, or if this is called again."""
        self.loss = self.loss or "this gateway closed it"
        if self._is_held_by_peer or self.is_closing:
            self._transport.abort()
        else:
            self._transport.close()

    @property
    def age_s(self) -> float:
        """Seconds since this connection was opened."""
        return self._loop.time() - self._opened_s

    @property
    def silent_s(self) -> float:
        """Seconds since this peer has sent anything, or taken answers that waited."""
        return self._loop.time() - self._active_s

    @property
    def held_bytes(self) -> int:
        """Bytes of the unfinished frame, of unanswered requests and of answers that the peer has not taken."""
        unfinished = self._decoder.buffered_bytes + len(self._unread) + len(self._received)
        return unfinished + self._unanswered.held_bytes + self._transport.get_write_buffer_size()

    @property
    def is_closing(self) -> bool:
        """True if the connection is closed, or will be once all written bytes are sent."""
        return self._transport.is_closing()

    @property
    def origin(self) -> Origin:
        """The identity that the connection proves. A load balancer's address and a PROXY header prove no address."""
        address = None if self._is_from_proxy else self.host
        return Origin(address, self._tls.certificate_names if self._tls else frozenset())

    @property
    def is_answered(self) -> bool:
        """True if no request of this connection waits for its answer."""
        return not self._unanswered

    def _charged(self, take: Callable[[Connection, bytes], None], data: bytes) -> float | None:
        """Take bytes and charge the host with the time. Return the time that this connection has to rest, or None."""
        read_bytes = len(self._unread) + len(data) + self._decoder.buffered_bytes
        self._turn = Turn()
        self._guard(take, data)
        spent_s = self._turn.charged_s(read_bytes)
        rest_s = self._connections.loop_time.spend(self.host, self._loop.time(), spent_s)
        if rest_s is None:
            self._set_reading()
            if self._turn.has_more:
                self._go_on_soon()
        return rest_s

    def _wait_s(self) -> float | None:
        """Return the time that requests of this connection have to wait, because its host has had its share."""
        return self._connections.loop_time.wait_s(self.host, self._loop.time())

    def _guard(self, take: Callable[[Connection, bytes], None], data: bytes) -> None:
        try:
            take(self, data)
        except (NamesrvError, ssl.SSLError) as error:
            self._log_line(logging.WARNING, f"connection of {self.peer} closed: {error}")
            self.close()
        except Exception:
            log.exception("connection of %s closed: an error of ours", self.peer)
            self.close()
        self._began_s = (self._began_s or self._active_s) if self._is_unfinished else None
        self.count_held()

    def _take_opening(self, data: bytes) -> None:
        """Feed the handshake: with plain text, and again with the plain text inside TLS."""
        rest = self._handshake.feed(data)
        if self._handshake.source is not None and self._counted_for is None:
            self._count_for_source(self._handshake.source)
        if rest is None:
            return
        if self._handshake.stage is Stage.TLS:
            self._start_tls(rest)
            return
        if self._tls is None:
            self._take = Connection._take_frames
        self._take_frames(rest)

    def _count_for_source(self, source: str) -> None:
        """Count this connection for the peer that the PROXY header names, not for the load balancer."""
        host = source.rpartition(":")[0]
        self.peer = f"{source} (through {self.peer})"
        self._connections.admission.move(None, host)
        self.host = self._counted_for = host

    def _start_tls(self, first: bytes) -> None:
        context = self._connections.certificates.context()
        if context is None:
            raise HandshakeRefusedError("the TLS certificate cannot be read: see the log of this gateway's start")
        self._tls = TlsSession(context)
        self._take = Connection._take_tls
        self._take_tls(first)

    def _take_tls(self, data: bytes) -> None:
        assert self._tls is not None, "this state is entered with a session"
        plain = self._tls.received(data, self._transport.write)
        if self._handshake.stage is Stage.FRAMES:
            self._take_frames(plain)  # also if it is empty: frames may wait
        elif plain:
            self._take_opening(plain)

    def _take_frames(self, data: bytes) -> None:
        """Answer the received requests until this connection is held; the rest waits for `_go_on`."""
        data = self._unread + data if self._unread else data
        at = 0 if self._decoder.buffered_bytes else self._answer_lookups(data)
        self._unread = data[at:] if at else data
        if at and self._turn.is_over:
            self._turn.has_more = bool(self._unread)
        elif not self._is_held:
            data, self._unread = self._unread, b""
            self._answer_commands(data)

    def _answer_lookups(self, data: bytes) -> int:
        """Answer the lookups that are known by their bytes. Return the position where the rest begins."""
        lookups = self._requests.lookups
        at = 0
        while lookups is not None and at < len(data) and not (self._is_held or self._turn.is_over):
            started_s = time.perf_counter()
            pieces, at, given = lookups.take(data, at)
            if not given:
                break
            self._began_s = None
            self._write(b"".join(pieces))
            self._requests.count_lookups(given, time.perf_counter() - started_s)
        return at

    def _answer_commands(self, data: bytes) -> None:
        for command in self._decoder.feed(data):
            self._began_s = None
            self._handle(command)
            self._turn.has_more = self._turn.is_over
            if self._is_held or self._turn.has_more:
                return  # the decoder yields the rest when it is fed again

    def _handle(self, command: RemotingCommand) -> None:
        if command.is_response:
            return  # the gateway sends no requests over this connection
        frame = self._requests.answer(command, self)
        if frame is not None:
            self._write(frame)

    def _go_on_soon(self) -> None:
        if not self._will_go_on:
            self._will_go_on = True
            self._connections.soon(self.host, self._go_on)

    def _go_on(self) -> None:
        """Answer the requests that came while this connection was held or rested, or that its last turn left."""
        self._will_go_on = False
        if self._is_held or self._is_resting or self.is_lost or self.is_closing:
            return
        if (rest_s := self._wait_s()) is None:
            data, self._received = self._received, b""
            rest_s = self._charged(self._take if data else Connection._take_frames, data)
        if rest_s is not None:
            self._rest(rest_s)

    def _write(self, data: bytes) -> None:
        if self.is_lost:
            return
        try:
            self._transport.write(self._tls.encrypted(data) if self._tls else data)
        except ssl.SSLError:  # the peer has violated the protocol, which is logged, and an answer came after that
            self._transport.abort()

    @property
    def _is_held(self) -> bool:
        """True while no more requests are answered (back pressure): the peer has to take answers, or wait for Kafka."""
        return self._is_held_by_peer or self._unanswered.is_full or self.is_closing

    def _rest(self, seconds: float) -> None:
        """Read nothing for `seconds`, so that others get the event loop; 0: for one turn of the loop."""
        if not self._is_resting and not self.is_closing:
            self._is_resting = True
            self._read_or_wait()
            self._loop.call_later(seconds, self._end_rest)

    def _end_rest(self) -> None:
        """Go on soon, unless the host's other connections have used its share meanwhile."""
        if self.is_lost:
            return
        rest_s = self._wait_s()
        if rest_s is not None:
            self._loop.call_later(max(rest_s, _SHORTEST_REST_S), self._end_rest)
        else:
            self._connections.soon(self.host, self._on_rested)

    def _on_rested(self) -> None:
        self._is_resting = False
        self._go_on()
        self._set_reading()

    def _read_or_wait(self) -> None:
        """Pause reading while this connection is held or rests, and resume it and all else afterwards."""
        was_reading = self._is_reading
        self._set_reading()
        if not (was_reading or self._is_held or self._is_resting):
            self._go_on_soon()

    def _set_reading(self) -> None:
        """Pause reading while this connection is held, rests or has requests that it goes on with; or resume it."""
        should_read = not (self._is_held or self._is_resting or self._turn.has_more)
        if should_read != self._is_reading and not self._transport.is_closing():
            self._is_reading = should_read
            (self._transport.resume_reading if should_read else self._transport.pause_reading)()

    def _drop_input(self) -> None:
        self._received, self._unread, self._decoder = b"", b"", FrameDecoder()

    @property
    def _is_answering(self) -> bool:
        waits_for_us = (self._received or self._turn.has_more) and not self._is_held_by_peer
        return bool(self._unanswered or waits_for_us)

    @property
    def _is_unfinished(self) -> bool:
        """True while a part of a frame, or of what comes before the first one, has come."""
        if self._handshake.stage is Stage.FRAMES:
            return self._decoder.buffered_bytes > 0 and not self._is_held
        return self._handshake.is_unfinished or (self._tls is not None and not self._tls.is_shaken)

    def _log_line(self, level: int, message: str) -> None:
        self._connections.log.line(self.host, self._loop.time(), level, message)
