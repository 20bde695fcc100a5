"""Decode and encode JSON as RocketMQ's peers write it: standard, or as fastjson takes and writes it besides."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
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

MAX_TOKENS = 8_192
"""Limit of the tokens, and of the backslashes, that `standard_json` reads: no other peer is served meanwhile."""

# What may stand before and behind a value that fastjson reads. All repetitions are possessive.
_AROUND = rb"(?:[ \t\n\r\f\b\0]|//[^\n]*+(?:\n|\Z)%s)*+"
_BEFORE_VALUE = re.compile(_AROUND % rb"|/\*(?:[^*]|\*(?!/))*+\*/")
_BEHIND_VALUE = re.compile(_AROUND % b"")

_TOKEN = re.compile(
    rb"""[ \t\n\r\f\b]*+(?:
        (?P<opening>[{\[]) | (?P<closing>[}\]]) | (?P<comma>,) | (?P<colon>:) | (?P<literal>true|false|null)
        | "(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)" | '(?P<quoted>[^'\\]*+(?:\\.[^'\\]*+)*+)'
        | (?=[+-]?\.?[0-9])(?P<sign>[+-]?)0*+(?P<whole>[0-9]*+)(?P<fraction>\.[0-9]*+)?+(?P<power>[eE][+-]?[0-9]++)?+
          (?P<kind>[LSBFD]?)
    )""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = dict(zip("btnvfFr01234567\"\\'/.&#()@[]_", "\b\t\n\v\f\f\r\0\1\2\3\4\5\6\7\"\\'/.&#()@[]_", strict=True))

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?")
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


def standard_json(text: bytes) -> bytes:
    """Return as standard JSON a text that RocketMQ 5.4.0's reader takes, and that may be none.

    It takes texts in single quotes, with raw control characters, with escapes such as `\\x41` and with half a surrogate
    pair, of which it writes `?`; a comma before a closing bracket, or none between two values; numbers such as `+007.`
    or `7L`; comments before the value and, to the end of a line, behind it. Raises ValueError, also for bytes that are
    no UTF-8. The decoder of the result finds what else is wrong.
    """
    if text.count(b"\\") > MAX_TOKENS:
        raise ValueError(f"JSON that is not standard has over {MAX_TOKENS} escapes")
    at, standard, before = _end_of(_BEFORE_VALUE, text, 0), bytearray(), "opening"
    for _ in range(MAX_TOKENS):
        if (token := _TOKEN.match(text, at)) is None:
            break
        at, kind = token.end(), token.lastgroup or ""
        if kind != "comma":
            if before not in ("opening", "colon") and kind not in ("closing", "colon"):
                standard += b","
            standard += _standard_token(token)
        elif before in ("opening", "colon", "comma"):
            raise ValueError(f"no value before the comma at byte {at - 1}")
        before = kind
    if (end := _end_of(_BEHIND_VALUE, text, at)) != len(text) or before == "comma":
        raise ValueError(f"JSON cannot be read from byte {end} on")
    return bytes(standard)


def _end_of(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _standard_token(token: re.Match[bytes]) -> bytes:
    content = token["text"] if token["quoted"] is None else token["quoted"]
    if content is not None:
        text = _ESCAPE.sub(_unescaped, content.decode())
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return _encoder.encode(joined.encode(errors="replace").decode())
    if token["sign"] is None:
        return token[token.lastgroup or 0]
    sign, whole, fraction = token["sign"].strip(b"+"), token["whole"] or b"0", (token["fraction"] or b"").rstrip(b".")
    power = token["power"] or (b"e0" if token["kind"] in (b"F", b"D") else b"")  # a float, whatever its digits
    return sign + whole + fraction + power


def _unescaped(escape: re.Match[str]) -> str:
    four, two, one = escape.groups()
    if one is None:
        return chr(int(four or two, 16))
    if one not in _ESCAPED:
        raise ValueError(f"unknown escape {escape[0]!r}")
    return _ESCAPED[one]


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
            return int(Decimal(value))
        case [one]:
            return as_int(one)
    raise ValueError(f"{str(value)[:100]!r} is not a number")


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


def encode_json(value: object, plain: Callable[[object], object] | None = None) -> bytes:
    """Encode as standard JSON with keys sorted by name, as RocketMQ does, so that equal values give equal bytes.

    `plain` returns a value of a type that JSON does not have as one that it has.
    """
    return _encoder.encode(
        msgspec.to_builtins(value, builtin_types=(msgspec.Raw,), str_keys=True, order="sorted", enc_hook=plain)
    )


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
