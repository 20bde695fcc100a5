"""One peer's connection: moves bytes between its socket and the handler of requests, if its state allows."""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
import time
from typing import Protocol, cast

from namesrv_stream.access.certificates import Certificates
from namesrv_stream.access.rights import TrustedProxies, peer_of
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.fair_shares import FairShares
from namesrv_stream.gateway.inbound import ConnectionStates, FlowEvent, Inbound, State, Terms
from namesrv_stream.reporting.logs import PeerLog
from namesrv_stream.wire.remoting_command import RemotingCommand

log = logging.getLogger(__name__)

_TURN_S = 0.001
_LONG_READ_BYTES = 128 * 1024
"""A connection's turn ends after _TURN_S or after a read of this size, so that others are served before it goes on."""

_MAX_ANSWER_BYTES = 256 * 1024
"""Limit of the answers that are written together. After it the transport checks whether the peer takes them."""

_MAX_KNOWN_BYTES = 64 * 1024
"""Answers of a turn after which each frame is decoded, and the time of the turn looked at."""

_SECONDS_OF_ANY_TURN = 0.0001
_SECONDS_OF_A_BYTE = 0.000_001
"""Most time for a byte that a host is charged with, however long its turn took. So no host loses its turn because other
work keeps the machine busy. This thread's CPU time would be exact, but reading it takes a system call."""

PEER_BUFFER_BYTES = 256 * 1024 * 1024
"""Most bytes of unfinished frames, unanswered requests and unread answers, of all peers together."""

WHOLE_LIMIT_S = 10.0
"""Time within which a peer has to complete a PROXY header, a TLS handshake or a frame that it has begun."""

_SLOWEST_BYTES_A_S = 64 * 1024
"""A large frame may take longer than WHOLE_LIMIT_S if it comes at least at this speed."""


class RequestHandler(Protocol):
    """Answers the requests of all connections. `Dispatcher` does it in a gateway."""

    def known(self, content: bytes) -> bytes | None:
        """Return the answer to a frame if it need not be decoded, else None."""

    def answer(self, command: RemotingCommand, connection: Connection) -> bytes | None:
        """Return the answer's frame; None if it follows through `reply_frame`, or never (oneway)."""

    def connection_lost(self, connection: Connection) -> None:
        """Note that no more requests come over a connection."""


class Connection(asyncio.Protocol):
    """Passes received requests to the handler and sends the answers. Lives in the event loop.

    `host`: the peer's address without its port. `order`: a lock that is held while a request is handed to Kafka, so
    that the records have the order of the connection's requests. FairShares sets `counted_for` and the attributes after
    it.
    """

    def __init__(self, requests: RequestHandler, connections: Connections) -> None:
        self._requests = requests
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._inbound: Inbound
        self._states = ConnectionStates()
        self._received = b""  # bytes that wait for the next turn
        self._answers = bytearray()  # those of this turn
        self._later_s = 0.0
        self._is_silent = True
        self._opened_s = self._active_s = self._loop.time()
        self._began_s: float | None = None  # when the first byte of an incomplete frame or opening came
        self.counted_for: str | None = None
        self.counted_bytes = 0
        self.holds_since_s = 0.0
        self.number = next(connections.numbers)
        self.host = self.peer = "?"
        self.order = asyncio.Lock()
        self.is_lost = False
        self.loss = ""
        """The reason why this connection is lost, or will be; empty until that is known."""
        self.ends_leases = True
        """False if the gateway closes the connection because it is idle or Kafka is away: then its leases go on
        (D13)."""

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or refuse it at once. asyncio calls this once, first."""
        self._transport = cast(asyncio.Transport, transport)
        self.host, self.peer = peer_of(transport.get_extra_info("peername"))
        terms = self._connections.terms(self.host)
        context = self._connections.certificates.context
        self._inbound = Inbound(terms, context, self._transport.write, self._answer_if_known)
        self.counted_for = None if terms.is_trusted_proxy else self.host
        try:
            self._connections.shares.enter(self)
        except NamesrvError as error:
            self.log_line(logging.WARNING, f"connection of {self.peer} refused: {error}")
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Answer the received requests, now or in a later turn."""
        if self._is_silent:
            self._is_silent = False
            self._connections.shares.spoke(self)
        self._active_s = self._loop.time()
        self._received += data
        if self._states.state is State.READING and not self._connections.shares.is_heavy(self):
            self._work()
        else:
            self._on(FlowEvent.TURN_ENDS)
            self.count_held()

    def pause_writing(self) -> None:
        """Read no more requests, because the peer does not take its answers."""
        self._on(FlowEvent.ANSWERS_PILE_UP)

    def resume_writing(self) -> None:
        """Read requests again, because the peer has taken the answers that waited."""
        self._active_s = self._loop.time()
        self._on(FlowEvent.ANSWERS_ARE_TAKEN)

    def eof_received(self) -> None:
        """Forget the received bytes. asyncio then closes the connection once the peer has taken all answers."""
        self._drop_input()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release all that is counted for this connection. asyncio calls this once, last."""
        self.is_lost = True
        self.loss = self.loss or (str(exc) if exc else "the peer closed it")
        self._states.on(FlowEvent.CLOSE)
        was_open = self in self._connections.open
        self._connections.shares.leave(self)
        self._drop_input()
        if was_open:
            self._requests.connection_lost(self)

    # --- what FairShares calls

    def on_turn(self) -> None:
        """Go on with the received requests, unless this connection was held or closed meanwhile."""
        if self._on(FlowEvent.TURN_BEGINS):
            self._work()

    def abort(self, why: str) -> None:
        """Close this connection at once, because others need its share."""
        self.loss = why
        self._transport.abort()

    def log_line(self, level: int, message: str, address: str | None = None) -> None:
        """Log a line about this peer, unless the limit of lines of its host or of all hosts is reached.

        `address`: the broker that the line is about.
        """
        self._connections.log.line(self.host, self._loop.time(), level, message, address)

    # --- what those who answer call

    def track_pending(self, request: RemotingCommand, *, later_s: float = 0.0, alone: bool = False) -> None:
        """Count a request that `reply_frame` will answer, and charge the host with `later_s` of the event loop for it.

        `alone`: no later request of this connection is answered before this one.
        """
        self._later_s += later_s
        if self._states.add(request, alone=alone):
            self._follow_state()

    def reply_frame(self, request: RemotingCommand, frame: bytes | None) -> None:
        """Answer a request that `track_pending` has counted; None sends no answer."""
        has_changed = self._states.remove(request)
        if frame is not None and not request.is_oneway:
            self._write(frame)
        if has_changed:
            self._follow_state()
        self.count_held()

    def complain(self, problem: str) -> None:
        """Log that a request of this peer was refused, and why. The request itself is answered."""
        self.log_line(logging.INFO, f"request of {self.peer} rejected: {problem}")

    def note_left_out(self, address: str, topics: str) -> None:
        """Log which topics are left out of this peer's registration, which is accepted without them (R1a)."""
        self.log_line(
            logging.WARNING, f"registration of {address} at {self.peer} accepted without invalid topics: {topics}"
        )

    # --- the end

    def close_if_overdue(self, now_s: float, idle_limit_s: float) -> None:
        """Close this connection if it is idle, or takes too long to send a whole frame. No lease ends (D13)."""
        if self._states.unanswered or self._states.state is State.RESTING:
            return
        whole_limit_s = min(WHOLE_LIMIT_S + self._inbound.buffered_bytes / _SLOWEST_BYTES_A_S, idle_limit_s)
        if self._began_s is not None and now_s - self._began_s > whole_limit_s:
            self.close_by_itself(f"no complete request within {whole_limit_s:.3g} s")
        elif now_s - self._active_s > idle_limit_s:
            self.close_by_itself(f"idle for {idle_limit_s:g} s")

    def close_by_itself(self, why: str, *, is_logged: bool = True) -> None:
        """Close this connection for a reason of the gateway's own, so that no lease ends (D13)."""
        if not self.is_closing:
            self.loss, self.ends_leases = why, False
        if is_logged and not self.is_closing:
            self.log_line(logging.INFO, f"connection of {self.peer} closed: {why}")
        self.close()

    def close(self) -> None:
        """Close once all written bytes are sent; at once if the peer takes nothing or this is the second call."""
        self.loss = self.loss or "this gateway closed it"
        if self._states.is_held_by_peer or self.is_closing:
            self._transport.abort()
        else:
            self._transport.close()
        self._on(FlowEvent.CLOSE)

    # --- facts

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
        received = len(self._received) + self._inbound.buffered_bytes
        return received + self._states.unanswered_bytes + self._transport.get_write_buffer_size()

    @property
    def is_closing(self) -> bool:
        """True if the connection is closed, or will be once all written bytes are sent."""
        return self._transport.is_closing()

    @property
    def certificate_names(self) -> frozenset[str]:
        """The names in the peer's verified certificate, each as `DNS:name`; none without one."""
        return tls.certificate_names if (tls := self._inbound.tls) else frozenset()

    @property
    def content(self) -> bytes:
        """The frame of the request that is being answered, if it is small, else empty."""
        return self._inbound.content

    @property
    def has_no_pending(self) -> bool:
        """True if no request of this connection waits for its answer."""
        return not self._states.unanswered

    def count_held(self) -> None:
        """Record how many bytes this connection holds now."""
        held_bytes = 0 if self.is_lost else self.held_bytes
        if held_bytes != self.counted_bytes:
            self._connections.shares.hold(self, held_bytes)

    # --- a turn

    def _work(self) -> None:
        """Answer requests until all are answered or the turn ends. An error closes this connection and no other."""
        started_s, self._later_s = time.perf_counter(), 0.0
        data, self._received = self._received, b""
        read_bytes = len(data) + self._inbound.buffered_bytes
        try:
            self._answer(data, started_s)
        except (NamesrvError, ssl.SSLError) as error:
            self.log_line(logging.WARNING, f"connection of {self.peer} closed: {error}")
            self.close()
        except Exception:
            log.exception("connection of %s closed: internal error", self.peer)
            self.close()
        if len(data) >= _LONG_READ_BYTES:
            self._on(FlowEvent.TURN_ENDS)
        most_s = _SECONDS_OF_ANY_TURN + read_bytes * _SECONDS_OF_A_BYTE
        self._connections.shares.spend(self, min(time.perf_counter() - started_s, most_s) + self._later_s)
        is_unfinished = self._inbound.is_unfinished and not self._states.is_held
        self._began_s = (self._began_s or self._active_s) if is_unfinished else None
        self.count_held()

    def _answer(self, data: bytes, started_s: float) -> None:
        requests = self._inbound.feed(data)
        if self._inbound.source is not None and self.counted_for is None:
            self._count_for(self._inbound.source)
        try:
            for request in requests:  # the next turn yields those that are not taken here
                self._began_s = None
                if not request.is_response:  # the gateway sends no requests over this connection
                    self._answers += self._requests.answer(request, self) or b""
                if len(self._answers) > _MAX_ANSWER_BYTES:
                    self._write_answers()
                if time.perf_counter() - started_s + self._later_s > _TURN_S:
                    self._on(FlowEvent.TURN_ENDS)
                if self._states.state is not State.READING:
                    return
        finally:
            self._write_answers()

    def _answer_if_known(self, content: bytes) -> bool:
        """Answer a frame if its answer is known, so that it need not be decoded."""
        if len(self._answers) > _MAX_KNOWN_BYTES or (frame := self._requests.known(content)) is None:
            return False
        self._began_s = None
        self._answers += frame
        return True

    def _write_answers(self) -> None:
        answers, self._answers = self._answers, bytearray()
        self._write(answers)

    def _count_for(self, source: str) -> None:
        """Count this connection for the peer that the PROXY header names, not for the load balancer."""
        host = source.rpartition(":")[0]
        self.peer = f"{source} (through {self.peer})"
        self._connections.shares.name(self, host)
        self.host = host

    def _write(self, data: bytes | bytearray) -> None:
        if self.is_lost or not data:
            return
        tls = self._inbound.tls
        try:
            self._transport.write(tls.encrypted(data) if tls else data)
        except ssl.SSLError:  # the peer has violated the protocol, which is logged already
            self._transport.abort()

    def _on(self, event: FlowEvent) -> bool:
        has_changed = self._states.on(event)
        if has_changed:
            self._follow_state()
        return has_changed

    def _follow_state(self) -> None:
        """Read from the peer only in the state READING, and ask for a turn in the state RESTING."""
        state = self._states.state
        if state is State.RESTING:
            self._connections.shares.rest(self)
        if not self._transport.is_closing():
            (self._transport.resume_reading if state is State.READING else self._transport.pause_reading)()

    def _drop_input(self) -> None:
        self._received = b""
        self._inbound.drop()
        self.count_held()


class Connections:
    """All open connections of one server, and their shared limits. Lives in the event loop."""

    def __init__(self, settings: NamesrvSettings, max_connections: int | None = None) -> None:
        self._settings = settings
        self._trusted_proxies = TrustedProxies(settings.proxy_protocol_trusted)
        self.numbers = itertools.count(1)
        self.certificates = Certificates(settings)
        self.log = PeerLog(logging.getLogger(f"{__package__}.connection"))
        self.shares: FairShares[Connection] = FairShares(
            settings.max_connections if max_connections is None else max_connections,
            settings.max_connections_per_address,
            PEER_BUFFER_BYTES,
        )

    @property
    def open(self) -> set[Connection]:
        """The connections that are counted: admitted, and not lost yet."""
        return self.shares.open

    def terms(self, host: str) -> Terms:
        """Return the protocols with which a peer at this address may begin."""
        mode = self._settings.tls_mode
        has_tls = mode != "disabled" and self.certificates.is_set
        return Terms(has_tls, mode != "enforcing", host in self._trusted_proxies)

    def look_around(self) -> None:
        """Close overdue connections, record what each connection holds now, and log how many lines were left out.

        Call it about once a second.
        """
        now_s = asyncio.get_running_loop().time()
        for connection in list(self.open):
            connection.close_if_overdue(now_s, self._settings.server_channel_max_idle_time_seconds)
            connection.count_held()
        self.log.sum_up(now_s)
