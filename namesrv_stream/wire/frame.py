"""Where a frame ends: cuts a connection's bytes into commands."""

from __future__ import annotations

from collections.abc import Iterator

from namesrv_stream.wire.command import RemotingCommand, decode_command
from namesrv_stream.wire.errors import FrameError, FrameLengthError, FrameTooLargeError
from namesrv_stream.wire.opening import Opening, opening_of

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""RocketMQ's limit (`com.rocketmq.remoting.frameMaxLength`), the length word included."""

_LENGTH_BYTES = 4
_HEADER_WORD_BYTES = 4


class FrameDecoder:
    """Owns a buffer and no socket; what is incomplete waits for the next bytes.

    The buffer holds what was fed and not yet taken: with every command taken, less than one frame of the limit.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._broken: FrameError | None = None

    @property
    def buffered_bytes(self) -> int:
        """How much waits for the rest of its frame, or to be taken."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[RemotingCommand]:
        """Takes the bytes at once, and gives the commands that are complete one by one.

        Commands ahead of a break in the stream come before the FrameError, which then comes again at every feed.
        What is not taken from the iterator is given by the next feed.
        """
        if self._broken is None:
            self._buffer += data
        return self._commands()

    def _commands(self) -> Iterator[RemotingCommand]:
        if self._broken is not None:
            raise self._broken
        try:
            while (content := self._take_frame()) is not None:
                yield decode_command(content)
        except FrameError as error:
            self._broken = error
            self._buffer = bytearray()
            raise

    def _take_frame(self) -> bytes | None:
        """The next frame without its length word; None while it is incomplete."""
        if len(self._buffer) < _LENGTH_BYTES:
            return None
        end = _LENGTH_BYTES + self._checked_length(bytes(self._buffer[:_LENGTH_BYTES]))
        if len(self._buffer) < end:
            return None
        with memoryview(self._buffer) as view:
            content = bytes(view[_LENGTH_BYTES:end])
        del self._buffer[:end]  # moves no bytes: a bytearray gives up its front in place
        return content

    def _checked_length(self, word: bytes) -> int:
        length = int.from_bytes(word, signed=True)
        if length < _HEADER_WORD_BYTES:
            raise FrameLengthError(length)
        if length + _LENGTH_BYTES > self._max_frame_bytes:
            spoken = _other_protocol(bytes(self._buffer[:16]))
            raise FrameTooLargeError(length + _LENGTH_BYTES, self._max_frame_bytes, spoken)
        return length


def _other_protocol(first: bytes) -> str | None:
    opening = opening_of(first)
    return opening.value if opening and opening is not Opening.REMOTING else None
