"""Recognises route lookups by their bytes: a client repeats its lookup of a topic, and only the opaque differs.

The key of an answer is the header without the opaque's digits. So a repeated lookup costs two searches and a dictionary
access, and no decoding of JSON. A header is learned from a request that was decoded in full.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from namesrv_stream.gateway.kept_answers import KeptAnswer, KeptAnswers
from namesrv_stream.wire.codes import RequestCode, SerializeType
from namesrv_stream.wire.remoting_command import RemotingCommand, decode_command
from namesrv_stream.wire.wire_errors import FrameError

_WORDS = struct.Struct(">II")
_OPAQUE = b'"opaque":'
_MAX_DIGITS = 9
_MAX_HEADER_BYTES = 1024
MAX_ANSWER_BYTES = 256 * 1024
"""Limit of the answers that are returned together. Beyond it the connection checks whether the peer takes them."""

Answer = Callable[[RemotingCommand], KeptAnswer | None]


class LookupFrames:
    """The lookups of one snapshot, by their bytes.

    `answer` returns the answer to a decoded lookup; None if it is not in memory. `known`: answers by the bytes of their
    lookups, from an earlier snapshot too. An answer that was dropped since is not used.
    """

    def __init__(self, answer: Answer, known: KeptAnswers[bytes]) -> None:
        self._answer = answer
        self._known = known

    def take(self, data: bytes, at: int = 0) -> tuple[list[bytes], int, list[KeptAnswer]]:
        """Answer the lookups in `data` from byte `at` on, where a frame begins, up to MAX_ANSWER_BYTES of answers.

        Stops at the first frame that is no such lookup. Returns the frames of the answers in pieces, the position where
        the rest begins, and the answers.
        """
        pieces: list[bytes] = []
        given: list[KeptAnswer] = []
        known = self._known
        size, answer_bytes = len(data), 0
        while at + 8 < size and answer_bytes < MAX_ANSWER_BYTES:
            length, header_word = _WORDS.unpack_from(data, at)
            end = at + 4 + length
            if header_word != length - 4 or end > size:  # not JSON alone, or not whole
                break
            opaque = data.find(_OPAQUE, at, end) + 9
            comma = data.find(b",", opaque, end)
            digits = data[opaque:comma]
            if opaque < at + 9 or not digits.isdigit() or len(digits) > _MAX_DIGITS or digits[0] == 48:
                break
            key = data[at + 8 : opaque] + data[comma:end]
            kept = known.get(key)
            if kept is None or kept.is_dropped:
                kept = self._learned(key, digits, data[at + 4 : end])
                if kept is None:
                    break
            pieces += kept.prepared.pieces(digits)
            given.append(kept)
            answer_bytes += kept.prepared.size_bytes
            at = end
        return pieces, at, given

    def _learned(self, key: bytes, digits: bytes, content: bytes) -> KeptAnswer | None:
        """Decode a lookup, and keep and return its answer; None if the frame is no plain lookup, or is broken."""
        if len(content) > _MAX_HEADER_BYTES or content.count(_OPAQUE) != 1:
            return None
        try:
            command = decode_command(content)
        except FrameError:
            return None
        is_plain = command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and command.flag == 0
        if not is_plain or command.serialize_type is not SerializeType.JSON or command.opaque != int(digits):
            return None
        kept = self._answer(command)
        if kept is not None:
            self._known.keep(key, len(key), kept)
        return kept
