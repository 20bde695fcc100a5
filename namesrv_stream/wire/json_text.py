"""JSON as RocketMQ's peers write it: standard, or with fastjson's integer keys that stand without quotes."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from namesrv_stream.wire.errors import MalformedBodyError

T = TypeVar("T")

# A string is passed over whole, so that `{0:` inside it stays as it is; one without an end reaches to the end of the
# text, and repetitions are possessive: each byte is looked at once, whatever the text.
_STRING_OR_BARE_KEY = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|'
    rb"(?<=[{,])(\s*+)(-?[0-9]++)(?=\s*+:)",
    re.DOTALL,
)

_encoder = msgspec.json.Encoder(order="sorted")


def with_quoted_keys(text: bytes) -> bytes:
    """The same JSON with integer keys in quotes: `{0:"a"}` becomes `{"0":"a"}`."""
    return _STRING_OR_BARE_KEY.sub(_quoted, text)


def _quoted(found: re.Match[bytes]) -> bytes:
    blanks, key = found.groups()
    return found.group() if key is None else b'%s"%s"' % (blanks, key)


def decode_json(text: bytes, decoder: msgspec.json.Decoder[T], body: str) -> T:
    """What `text` says. Raises MalformedBodyError, which names `body`, a class of RocketMQ."""
    try:
        try:
            return decoder.decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return decoder.decode(with_quoted_keys(text))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBodyError(body, str(error)) from error


def encode_json(value: object) -> bytes:
    """Standard JSON, keys sorted by name as RocketMQ's are, so that equal values are equal bytes."""
    return _encoder.encode(value)
