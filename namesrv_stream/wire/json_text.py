"""Decode and encode JSON as RocketMQ's peers write it: standard, or with fastjson's integer keys without quotes."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from namesrv_stream.errors import malformed_body

T = TypeVar("T")

MAX_VALUES = 1_000_000
"""Limit of the values in one text. A decoded value takes fifty bytes or more, so 16 MiB of `[],[],` take 300 MB."""

_MAX_ESCAPES = 65_536
"""Limit of one string's escapes in a text that is searched for keys without quotes."""

# Matches the text up to the next bare key, and that key. Strings are matched whole, so `{0:` inside one stays as it is.
# It matches wherever it starts, and its repetitions are possessive: it reads no byte more than twice, whatever a peer
# sends. They are bounded too, because no other thread runs during a match.
_UP_TO_BARE_KEY = re.compile(
    rb"""((?:[^"{,]{1,65536}+
          | "[^"\\]*+(?:\\.[^"\\]*+){0,%d}+(?:"|\\?\Z)     # a string, which may lack its end
          | [{,]\s*+(?!-?[0-9]++\s*+:)
        ){0,64}+
        (?:[{,]\s*+(?=-?[0-9]++\s*+:))?)
        (-?[0-9]++(?=\s*+:))?"""
    % _MAX_ESCAPES,
    re.DOTALL | re.VERBOSE,
)

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]*)?")
_encoder = msgspec.json.Encoder()


def count_values(text: bytes) -> int:
    """Return an upper bound of the number of values: the count of bytes with which a value may begin."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def with_quoted_keys(text: bytes) -> bytes:
    """Return the JSON with its integer keys in quotes: `{0:"a"}` becomes `{"0":"a"}`.

    Raises ValueError for a string with too many escapes.
    """
    quoted = bytearray()
    at = 0
    while at < len(text):
        found = _UP_TO_BARE_KEY.match(text, at)
        if found is None or found.end() == at:
            raise ValueError(f"a string at byte {at} has over {_MAX_ESCAPES} escapes")
        passed, key = found.groups()
        quoted += passed if key is None else b'%s"%s"' % (passed, key)
        at = found.end()
    return bytes(quoted)


def decode_json(text: bytes, decoder: msgspec.json.Decoder[T], body: str, *, bare_keys: bool = True) -> T:
    """Decode `text`. Raises BadRequestError, which names `body`, a class of RocketMQ.

    `bare_keys`: integer keys may lack their quotes. The search for them can take many times as long as decoding.
    """
    values = count_values(text) if len(text) > 2 * MAX_VALUES else 0  # a value and what parts it are two bytes or more
    if values > MAX_VALUES:
        raise malformed_body(body, f"{values} values, over the limit of {MAX_VALUES}")
    try:
        try:
            return decoder.decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if not bare_keys:
                raise
            return decoder.decode(with_quoted_keys(text))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise malformed_body(body, error) from error


def as_int(value: object) -> int:
    """Return a number as RocketMQ's reader takes it from a value of any type. Raises ValueError.

    A fraction is cut off, true is 1, nothing, an empty text and an object are 0, a list of one value is that value.
    """
    match value:
        case msgspec.Raw():
            return as_int(msgspec.json.decode(value))
        case None | "" | "null" | dict():
            return 0
        case bool() | int() | float():
            return int(value)
        case str() if _NUMBER.fullmatch(value):
            return int(value.partition(".")[0])
        case [one]:
            return as_int(one)
    raise ValueError(f"{str(value)[:100]!r} is no number")


def as_text(value: msgspec.Raw) -> str | None:
    """Return a JSON value as RocketMQ's reader takes it for a text: a number as it is written, an object as JSON."""
    match bytes(value)[:1]:
        case b"n":
            return None
        case b'"':
            return msgspec.json.decode(value, type=str)
        case b"{" | b"[":
            return msgspec.json.format(bytes(value), indent=-1).decode()
    text = bytes(value).decode()
    return repr(float(text)) if text[:1] not in "tf" and "e" in text.lower() else text


def encode_json(value: object) -> bytes:
    """Encode as standard JSON with keys sorted by name, as RocketMQ does, so that equal values give equal bytes."""
    return _encoder.encode(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,), str_keys=True, order="sorted"))


def encode_json_with_bare_keys(value: object) -> bytes:
    """Encode as fastjson does by default: like `encode_json`, but with integer keys without quotes."""
    return _encoder.encode(_with_bare_keys(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,), order="sorted")))


def _with_bare_keys(value: object) -> object:
    """Replace each map that has integer keys by its text, because the encoder itself cannot write `{0:`."""
    match value:
        case list():
            return [_with_bare_keys(each) for each in value]
        case dict():
            plain = {key: _with_bare_keys(each) for key, each in value.items()}
            return _text_of(plain) if any(isinstance(key, int) for key in plain) else plain
    return value


def _text_of(integer_map: dict[int, object]) -> msgspec.Raw:
    entries = (b"%d:%s" % (key, _encoder.encode(each)) for key, each in integer_map.items())
    return msgspec.Raw(b"{%s}" % b",".join(entries))
