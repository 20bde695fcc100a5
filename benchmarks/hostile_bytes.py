"""Bytes of hostile peers that a gateway must refuse at once, for the soak and for tests of codec and server."""

from __future__ import annotations

import struct

from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.frame import MAX_HEADER_BYTES
from namesrv_stream.wire.remoting_command import RemotingCommand

MIB = 1024 * 1024
_FIELDS = b'{"code":105,"opaque":7,"extFields":{'


def filled(start: bytes, repeated: bytes, end: bytes = b"") -> bytes:
    """Return a header of the largest allowed size, give or take a repetition."""
    return start + repeated * ((MAX_HEADER_BYTES - len(start) - len(end)) // len(repeated)) + end


def framed(header: bytes) -> bytes:
    """Return a frame with this header and no body."""
    return struct.pack(">iI", 4 + len(header), len(header)) + header


def unfinished(sent: int) -> bytes:
    """Return the first bytes of a frame of almost 16 MiB."""
    return struct.pack(">iI", 16 * MIB - 100, 12) + b'{"code":105}' + bytes(sent)


HEADERS = {
    "lists without end": filled(_FIELDS + b'"a":', b"["),
    "objects without end": filled(b"", b'{"a":'),
    "spaces without end": filled(b'{"code":105,', b" "),
    "fields without end": filled(_FIELDS, b'"a":"b",'),
    "keys without quotes": filled(_FIELDS, b'0:"b",', b"0:0}}"),
    "escapes without end": filled(_FIELDS + b'"a":"', b'\\"'),
    "escapes without end after many commas": filled(_FIELDS + b'"a":"' + b"," * 1025, b'\\"'),
    "texts that end with the header": filled(_FIELDS + b'"a":"' + b"," * 1025, b'\\"', b"\\"),
    "halves of characters": filled(_FIELDS + b'"a":"', b"\\ud83d", b'"}}'),
    "no text": filled(_FIELDS + b'"a":"', b"\xff", b'"}}'),
    "many digits for a code": filled(b'{"code":', b"9", b"}"),
}
"""Headers within the limit of bytes that a decoder would have to read to their end."""

LONG_SETTINGS = (b"a=" + b"b\\\n" * 5_000, b"a=" + b"b\\\n" * 20_000, b"\n" * 60_000)
"""Each would take the event loop 0.1 to 8 s, also if only to find out whether its sender may send it."""

BODIES = (
    (RequestCode.REGISTER_TOPIC_IN_NAMESRV, b'{"a":"b"' * MIB),
    (RequestCode.REGISTER_BROKER, b'{"unknown":[' + b'"12345678",' * 180_000),
    *((RequestCode.UPDATE_NAMESRV_CONFIG, each) for each in LONG_SETTINGS),
)
"""Request code and body: JSON that a decoder has to read to its end, and many settings."""


def requests(broker: dict[str, str]) -> list[RemotingCommand]:
    """Return a request with each of BODIES, in the name of a broker that is known by these fields."""
    fields = broker | {"bodyCrc32": "0", "topic": "T"}
    return [RemotingCommand(code=code, ext_fields=fields, body=body) for code, body in BODIES]
