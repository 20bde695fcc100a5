"""Cut the bytes of a connection into frames, and decode them into commands.

Before the first frame the protocol is recognised and PROXY headers are read. A remoting frame starts with a zero byte,
because its length is under 16 MiB. So it cannot be mistaken for any other protocol.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from namesrv_stream.errors import FrameError
from namesrv_stream.wire.remoting_command import RemotingCommand, decode_command, header_beyond_frame

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""RocketMQ's limit (`com.rocketmq.remoting.frameMaxLength`), the length word included."""

MAX_HEADER_BYTES = 128 * 1024
"""Limit of a header. The event loop reads it, so a header of 16 MiB would stop all other peers for seconds."""

LARGE_FRAME_BYTES = 64 * 1024
"""The size from which a frame's body is kept in pieces until it is whole, instead of growing a buffer."""

LARGE_BODY_BYTES = 16 * 1024
"""The size above which a body takes too long to be read in an event loop.

Registrations that are quick to decode may have more.
"""

_PIECE_BYTES = 16 * 1024
"""Pieces smaller than this are joined, because an object for each would take many times their memory."""

_MAX_ANSWERED_BYTES = 1_024
"""Frames above this are decoded in any case."""

_LENGTH = struct.Struct(">i")
_LENGTH_BYTES = 4
_HEADER_WORD_BYTES = 4


class Opening(Enum):
    """The protocol with which a peer begins."""

    REMOTING = "RocketMQ remoting"
    TLS = "TLS"
    HTTP = "HTTP"
    PROXY_V1 = "PROXY v1"
    PROXY_V2 = "PROXY v2"


_PROXY_V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_HTTP_METHODS = b"GET POST PUT HEAD DELETE OPTIONS PATCH CONNECT TRACE PRI".split()
_SIGNATURES = (
    (b"\x16", Opening.TLS),
    (b"PROXY ", Opening.PROXY_V1),
    (_PROXY_V2_SIGNATURE, Opening.PROXY_V2),
    *((method + b" ", Opening.HTTP) for method in _HTTP_METHODS),
)
_PROXY_V1_MAX_BYTES = 107
_PROXY_V2_FIXED_BYTES = 16
_PROXY_V2_ADDRESSES = {0x11: struct.Struct(">4s4sHH"), 0x21: struct.Struct(">16s16sHH")}


def opening_of(first: bytes) -> Opening | None:
    """Return the protocol of a connection that starts with `first`; None if more bytes are needed (12 are enough)."""
    if not first or any(len(first) < len(mark) and mark.startswith(first) for mark, _ in _SIGNATURES):
        return None
    return next((opening for mark, opening in _SIGNATURES if first.startswith(mark)), Opening.REMOTING)


class ProxyHeader(NamedTuple):
    """A load balancer's header. `length_bytes`: bytes to skip. `source`: the peer behind it, None if it names none."""

    length_bytes: int
    source: str | None


def _malformed(reason: str) -> FrameError:
    return FrameError(f"cannot read PROXY header: {reason}. Check the PROXY protocol setting of the load balancer")


def proxy_header(first: bytes) -> ProxyHeader | None:
    """Return the PROXY header (v1 or v2) at the start of `first`; None while it is incomplete.

    After the header the connection has another opening. Raises FrameError.
    """
    return _proxy_v2(first) if first.startswith(b"\r") else _proxy_v1(first)


def _proxy_v1(first: bytes) -> ProxyHeader | None:
    line, end, _ = first[:_PROXY_V1_MAX_BYTES].partition(b"\r\n")
    if not end:
        if len(first) >= _PROXY_V1_MAX_BYTES:
            raise _malformed(f"no end of line within {_PROXY_V1_MAX_BYTES} bytes")
        return None
    match line.decode("ascii", "replace").split(" "):
        case ["PROXY", "UNKNOWN", *_]:
            source = None
        case ["PROXY", "TCP4" | "TCP6", host, _, port, _]:
            source = _source(host, port)
        case _:
            raise _malformed(f"line {line!r}")
    return ProxyHeader(len(line) + 2, source)


def _source(host: str, port: str) -> str:
    """Return the address in a text header.

    It is checked, because no free text of a peer may get into logs and tables.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise _malformed(f"source {host!r} is not an address") from None
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise _malformed(f"source port {port!r} is not a port")
    return f"{address}:{int(port)}"


def _proxy_v2(first: bytes) -> ProxyHeader | None:
    if len(first) < _PROXY_V2_FIXED_BYTES:
        return None
    version_and_command, family, length = struct.unpack_from(">BBH", first, len(_PROXY_V2_SIGNATURE))
    if not first.startswith(_PROXY_V2_SIGNATURE) or version_and_command not in (0x20, 0x21):
        raise _malformed(f"version and command {version_and_command:#04x}")
    if len(first) < _PROXY_V2_FIXED_BYTES + length:
        return None
    addresses = _PROXY_V2_ADDRESSES.get(family) if version_and_command == 0x21 else None
    if addresses is None:
        return ProxyHeader(_PROXY_V2_FIXED_BYTES + length, None)
    if length < addresses.size:
        raise _malformed(f"{length} bytes hold no addresses of family {family:#04x}")
    host, _, port, _ = addresses.unpack_from(first, _PROXY_V2_FIXED_BYTES)
    return ProxyHeader(_PROXY_V2_FIXED_BYTES + length, f"{ipaddress.ip_address(host)}:{port}")


class _LargeFrame:
    """A command whose body is received in pieces. They are joined once all have come."""

    def __init__(self, head: RemotingCommand, head_bytes: int, body_bytes: int) -> None:
        self._head = head
        self._pieces: list[bytes | bytearray] = []
        self._missing_bytes = body_bytes
        self.buffered_bytes = head_bytes

    def take(self, data: bytes) -> bytes:
        """Take the bytes that belong to this frame, and return the rest."""
        piece = data[: self._missing_bytes]
        last = self._pieces[-1] if self._pieces else b""
        if isinstance(last, bytearray) and len(last) < _PIECE_BYTES:
            last += piece
        else:
            self._pieces.append(piece if len(piece) >= _PIECE_BYTES else bytearray(piece))
        self._missing_bytes -= len(piece)
        self.buffered_bytes += len(piece)
        return data[len(piece) :]

    def command(self) -> RemotingCommand | None:
        """Return the command; None while a part of its body is missing."""
        if self._missing_bytes:
            return None
        return msgspec.structs.replace(self._head, body=b"".join(self._pieces))


class FrameDecoder:
    """Decodes the frames of one connection. Owns a buffer and no socket; an incomplete frame waits for more bytes.

    The buffer holds the bytes that were fed and not yet taken as commands. Once every complete command is taken, that
    is less than one frame of the limit.

    `answer_if_known` is called with the content of each small frame that is complete; if it returns true, the frame is
    taken and not decoded. `content`: that of the command that was yielded last, empty if its frame was not small.
    """

    def __init__(
        self,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        large_frame_bytes: int = LARGE_FRAME_BYTES,
        answer_if_known: Callable[[bytes], bool] = lambda _content: False,
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._large_frame_bytes = large_frame_bytes
        self._large: _LargeFrame | None = None
        self._buffer = bytearray()
        self._broken: FrameError | None = None
        self._answer_if_known = answer_if_known
        self.content = b""

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes that wait for the rest of their frame, or to be taken."""
        return len(self._buffer) + (self._large.buffered_bytes if self._large else 0)

    def feed(self, data: bytes) -> Iterator[RemotingCommand]:
        """Take the bytes at once, and yield the complete commands one by one.

        Raises FrameError after the commands before the broken frame, and again at every later feed. The next feed
        yields the commands that are not taken from the iterator.
        """
        if self._broken is None:
            self._buffer += data if self._large is None else self._large.take(data)
        return self._commands()

    def _commands(self) -> Iterator[RemotingCommand]:
        if self._broken is not None:
            raise self._broken
        try:
            while (command := self._take_command()) is not None:
                yield command
        except FrameError as error:
            self._broken = error
            self._buffer = bytearray()
            self._large = None
            raise

    def _take_command(self) -> RemotingCommand | None:
        """Take the next command out of the buffer; None while its frame is incomplete."""
        if self._large is not None:
            if (whole := self._large.command()) is not None:
                self._large, self.content = None, b""
            return whole
        while (end := self._end_of_frame()) is not None:
            with memoryview(self._buffer) as view, view[_LENGTH_BYTES:end] as content:
                small = self.content = bytes(content) if end <= _MAX_ANSWERED_BYTES else b""
                command = None if small and self._answer_if_known(small) else decode_command(small or content)
            del self._buffer[:end]  # copies nothing: a bytearray drops its front in place
            if command is not None:
                return command
        return None

    def _end_of_frame(self) -> int | None:
        """Return the end of the buffer's first frame; None while it is incomplete."""
        buffered = len(self._buffer)
        if buffered < _LENGTH_BYTES:
            return None
        end = _LENGTH_BYTES + self._checked_length()
        if end <= buffered and end <= _MAX_ANSWERED_BYTES:
            return end  # decoding checks the length of its header
        self._check_header_length(end)
        if end <= buffered:
            return end
        if end >= self._large_frame_bytes:
            self._begin_large(end)
        return None

    def _begin_large(self, end: int) -> None:
        """Decode the header of a large frame once it is complete. From then on its body is taken in pieces."""
        words = _LENGTH_BYTES + _HEADER_WORD_BYTES
        header_end = words + int.from_bytes(self._buffer[_LENGTH_BYTES + 1 : words])
        if words <= len(self._buffer) and header_end <= len(self._buffer):
            head = decode_command(bytes(self._buffer[_LENGTH_BYTES:header_end]))
            self._large = _LargeFrame(head, header_end, end - header_end)
            self._large.take(bytes(self._buffer[header_end:]))
            self._buffer.clear()

    def _check_header_length(self, end: int) -> None:
        """Check the header's length once its length word has come, before the header itself is buffered."""
        words = _LENGTH_BYTES + _HEADER_WORD_BYTES
        if len(self._buffer) < words:
            return
        header_bytes = int.from_bytes(self._buffer[_LENGTH_BYTES + 1 : words])
        if words + header_bytes > end:
            raise header_beyond_frame(header_bytes, end - words)
        if header_bytes > MAX_HEADER_BYTES:
            limit = f"over the limit of {MAX_HEADER_BYTES}"
            raise FrameError(f"header of {header_bytes} bytes is {limit}: what is large goes in the body")

    def _checked_length(self) -> int:
        length = int(_LENGTH.unpack_from(self._buffer)[0])
        if length < _HEADER_WORD_BYTES:
            raise FrameError(
                f"frame length {length} leaves no room for a header: is the peer a RocketMQ broker or client?"
            )
        if length + _LENGTH_BYTES > self._max_frame_bytes:
            raise self._too_large(length + _LENGTH_BYTES)
        return length

    def _too_large(self, frame_bytes: int) -> FrameError:
        opening, guess = opening_of(bytes(self._buffer[:16])), "does the peer speak TLS or HTTP?"
        if opening not in {None, Opening.REMOTING}:
            guess = f"the peer speaks {opening.value}, not RocketMQ's remoting"
        return FrameError(f"frame of {frame_bytes} bytes is over the limit of {self._max_frame_bytes}: {guess}")
