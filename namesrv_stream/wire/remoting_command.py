"""A remoting command: a request or an answer, with its header in JSON or in RocketMQ's binary form.

length (4 B, counts all that follows) | header word (4 B: serialize type, header length) | header | body

A signature proves the sender: clients, mqadmin and brokers put the fields AccessKey and Signature into extFields. It is
the base64 of an HMAC-SHA1 with the secret key that belongs to the AccessKey. It covers the values of all fields except
Signature, in the order of their keys, and then the body. It covers neither the request code nor a time, so only TLS
keeps others from reading a signed request and sending it again.
"""

from __future__ import annotations

import base64
import hmac
import struct
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from namesrv_stream.errors import FrameError, malformed_header
from namesrv_stream.wire.codes import Flag, ResponseCode, SerializeType, Version
from namesrv_stream.wire.json_text import as_int, as_text, standard_json

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_WORD = struct.Struct(">I")
_LENGTH_AND_HEADER_WORD = struct.Struct(">II")
_MAX_HEADER_BYTES = 2**24 - 1
MAX_HEADER_FIELDS = 1_024
"""Limit of a header's extFields. RocketMQ's requests have 30 at most."""

_BEFORE_OPAQUE = b'"opaque":'
_ZERO, _MAX_DIGITS = ord("0"), 9

_RESPONSE, _ONEWAY = int(Flag.RESPONSE), int(Flag.ONEWAY)  # a flag's own & takes 2 µs


class RemotingCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one frame.

    `ext_fields`: the header fields of the request or answer; their values are always text. `opaque`: the number that
    an answer has in common with its request on one connection. `version`: the ordinal of the sender's release.
    `serialize_type`: the form in which the header came. `sender`: the user and address that the server has
    authenticated; not a part of the frame.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    version: int = int(Version.V5_4_0)
    language: str = "JAVA"
    remark: str | None = None
    ext_fields: dict[str, str] | None = None
    body: bytes = b""
    serialize_type: SerializeType = SerializeType.JSON
    sender: str | None = None

    @property
    def is_response(self) -> bool:
        """True if the sender answers a request with this command."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """True if the sender expects no answer, not even an error."""
        return bool(self.flag & _ONEWAY)

    def answer(
        self,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> RemotingCommand:
        """Return an answer to this request. Its header is always JSON, as in RocketMQ's server."""
        return RemotingCommand(
            code=code, opaque=self.opaque, flag=Flag.RESPONSE, remark=remark, ext_fields=ext_fields, body=body
        )


class PreparedAnswer:
    """An answer that is encoded once and sent many times. Only the opaque differs from frame to frame."""

    def __init__(self, answer: RemotingCommand) -> None:
        header = _encode_json_header(msgspec.structs.replace(answer, opaque=0))
        before, _, header_end = header.partition(b'"opaque":0')  # a quote inside a string has a \ before it
        self._header_start = before + b'"opaque":'
        self._rest = header_end + answer.body
        self._fixed_header_bytes = len(self._header_start) + len(header_end)
        self._fixed_bytes = 4 + len(answer.body)

    @property
    def size_bytes(self) -> int:
        """Bytes of a frame, without the opaque's digits."""
        return 4 + self._fixed_bytes + self._fixed_header_bytes

    def frame(self, opaque: int) -> bytes:
        """Return the whole frame that answers the request with this opaque."""
        digits = b"%d" % opaque
        header_bytes = self._fixed_header_bytes + len(digits)
        words = _LENGTH_AND_HEADER_WORD.pack(self._fixed_bytes + header_bytes, header_bytes)
        return b"".join((words, self._header_start, digits, self._rest))


def encode_command(command: RemotingCommand) -> bytes:
    """Encode a command as a whole frame, its length word included. Its header is JSON. Raises FrameError."""
    header = _encode_json_header(command)
    if len(header) > _MAX_HEADER_BYTES:
        raise header_beyond_frame(len(header), _MAX_HEADER_BYTES)
    words = _LENGTH_AND_HEADER_WORD.pack(4 + len(header) + len(command.body), len(header))
    return b"".join((words, header, command.body))


def decode_command(content: bytes | memoryview) -> RemotingCommand:
    """Decode a frame. Raises FrameError.

    `content`: the frame after its length word, at least four bytes. The command holds copies of them.
    """
    (word,) = _WORD.unpack_from(content)
    serialize_type, header_end = word >> 24, 4 + (word & _MAX_HEADER_BYTES)
    if header_end > len(content):
        raise header_beyond_frame(header_end - 4, len(content) - 4)
    if serialize_type == SerializeType.JSON:
        return _decode_json_header(bytes(content[4:header_end]), bytes(content[header_end:]))
    if serialize_type == SerializeType.ROCKETMQ:
        return _decode_binary_header(bytes(content[4:header_end]), bytes(content[header_end:]))
    raise FrameError(f"serialize type {serialize_type} is unknown: set the peer to JSON (0) or ROCKETMQ (1)")


def split_opaque(content: bytes) -> tuple[bytes, int] | None:
    """Return the header of a frame without its opaque, and the opaque, without decoding the header.

    Return None if the frame has a body or no JSON, or if its opaque is not found. `content`: see `decode_command`.
    """
    start = content.rfind(_BEFORE_OPAQUE) + len(_BEFORE_OPAQUE)
    end = content.find(b",", start)
    digits = content[start:end]
    if (
        not digits.isdigit()
        or len(digits) > _MAX_DIGITS
        or digits[0] == _ZERO
        or _WORD.unpack_from(content)[0] != len(content) - 4
    ):
        return None
    return content[4:start] + content[end:], int(digits)


def header_beyond_frame(header_bytes: int, room_bytes: int) -> FrameError:
    """Return the error for a header that would reach beyond the end of its frame."""
    return FrameError(f"header of {header_bytes} bytes in a frame with room for {room_bytes}: check the peer's client")


# --- JSON


class _JsonHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The header's fields sorted by name, as RocketMQ writes them. UNSET fields are left out."""

    code: _Int32
    ext_fields: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    flag: _Int32 = 0
    language: str | None = "JAVA"
    opaque: _Int32 = 0
    remark: str | msgspec.UnsetType | None = msgspec.UNSET
    serialize_type: object = msgspec.field(default=SerializeType.JSON.name, name="serializeTypeCurrentRPC")
    version: _Int32 = 0


_json_header_decoder = msgspec.json.Decoder(_JsonHeader)
_raw_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_json_header_encoder = msgspec.json.Encoder()


_LANGUAGES = tuple("JAVA CPP DOTNET PYTHON DELPHI ERLANG RUBY OTHER HTTP GO PHP OMS RUST NODE_JS".split())  # noqa: SIM905
"""RocketMQ's LanguageCode, each at the number that stands for it."""


def _check_fields(count: int) -> None:
    if count > MAX_HEADER_FIELDS:
        raise FrameError(
            f"header of {count} fields or more is over the limit of {MAX_HEADER_FIELDS}: what is large goes in the body"
        )


def _decode_json_header(header: bytes, body: bytes) -> RemotingCommand:
    try:
        try:
            read = _json_header_decoder.decode(header)
        except (msgspec.DecodeError, UnicodeDecodeError):
            read = _as_java_reads(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise malformed_header(str(error)) from error
    _check_fields(len(read.ext_fields or ()))
    return RemotingCommand(
        code=read.code,
        opaque=read.opaque,
        flag=read.flag,
        version=read.version,
        language=read.language if read.language in _LANGUAGES else _language(read.language),
        remark=read.remark or None,
        ext_fields=None if read.ext_fields is msgspec.UNSET else read.ext_fields,
        body=body,
    )


def _as_java_reads(header: bytes) -> _JsonHeader:
    """Decode a header as RocketMQ does, with values of other types than it writes, or in JSON that is not standard."""
    try:
        raw = _raw_fields_decoder.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raw = _raw_fields_decoder.decode(standard_json(header))
    said = {name: as_text(raw[name]) for name in ("language", "remark") if name in raw}
    said_fields = bytes(raw.get("extFields", b"null"))
    fields = {} if said_fields in (b"null", b'""') else _raw_fields_decoder.decode(said_fields)
    _check_fields(len(fields))
    texts = {name: text for name, value in fields.items() if (text := as_text(value)) is not None}
    read: dict[str, object] = {name: as_int(raw[name]) for name in ("flag", "opaque", "version") if name in raw}
    read |= {"code": as_int(raw.get("code")), "extFields": texts or None, "remark": said.get("remark") or ""}
    return msgspec.convert(read | {"language": _language(said.get("language", "JAVA"))}, _JsonHeader)


def _language(said: str | None) -> str:
    """Return the name of RocketMQ's LanguageCode that a peer sent by name or by number."""
    name = (said or "").strip().upper().removesuffix(".0")
    if name.isdigit() and int(name) < len(_LANGUAGES):
        return _LANGUAGES[int(name)]
    return name if name in _LANGUAGES else "OTHER"


def _encode_json_header(command: RemotingCommand) -> bytes:
    return _json_header_encoder.encode(
        _JsonHeader(
            code=command.code,
            ext_fields=msgspec.UNSET if command.ext_fields is None else command.ext_fields,
            flag=command.flag,
            language=command.language,
            opaque=command.opaque,
            remark=msgspec.UNSET if command.remark is None else command.remark,
            version=command.version,
        )
    )


# --- RocketMQ's binary form. A length of 0 stands for null.

_BINARY_FIXED = struct.Struct(">hbhiii")  # code, language, version, opaque, flag, length of the remark
_LENGTH = struct.Struct(">i")
_KEY_LENGTH = struct.Struct(">h")


def _decode_binary_header(header: bytes, body: bytes) -> RemotingCommand:
    try:
        code, _, version, opaque, flag, _ = _BINARY_FIXED.unpack_from(header)
        remark, at = _take_text(header, _BINARY_FIXED.size - _LENGTH.size, _LENGTH)
        fields = dict(_ext_fields(header, at))
    except (struct.error, UnicodeDecodeError) as error:
        raise malformed_header(str(error)) from error
    return RemotingCommand(
        code=code,
        opaque=opaque,
        flag=flag,
        version=version,
        remark=remark or None,
        ext_fields={name: value for name, value in fields.items() if name and value} or None,
        body=body,
        serialize_type=SerializeType.ROCKETMQ,
    )


def _ext_fields(header: bytes, at: int) -> Iterator[tuple[str, str]]:
    (length,) = _LENGTH.unpack_from(header, at)
    at += _LENGTH.size
    end = at + length
    if length < 0 or end > len(header):
        raise malformed_header(f"extFields of {length} bytes in a header of {len(header)}")
    count = 0
    while at < end:
        count += 1
        _check_fields(count)
        name, at = _take_text(header, at, _KEY_LENGTH)
        value, at = _take_text(header, at, _LENGTH)
        yield name, value


def _take_text(header: bytes, at: int, length_word: struct.Struct) -> tuple[str, int]:
    """Return the text whose length word is at `at`, and the position of its end."""
    (length,) = length_word.unpack_from(header, at)
    start = at + length_word.size
    if length < 0 or start + length > len(header):
        raise malformed_header(f"text of {length} bytes at byte {start} of {len(header)}")
    return header[start : start + length].decode(), start + length


ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
ZONE_FIELDS = frozenset({"__ZONE_NAME", "__ZONE_MODE"})
"""Fields that clients and mqadmin add after signing, and brokers before it. So both forms are tried."""


def access_key_of(command: RemotingCommand) -> str | None:
    """Return the AccessKey of a request; None if the request is not signed."""
    return (command.ext_fields or {}).get(ACCESS_KEY)


def is_signed_with(command: RemotingCommand, secret_key: bytes) -> bool:
    """Return whether the request's signature was made with this secret key."""
    given = (command.ext_fields or {}).get(SIGNATURE, "").encode()
    return any(
        hmac.compare_digest(_signature(fields, command.body, secret_key), given) for fields in _signed_fields(command)
    )


def signed(command: RemotingCommand, access_key: str, secret_key: bytes) -> RemotingCommand:
    """Return the request as a peer with these keys sends it."""
    fields = {**(command.ext_fields or {}), ACCESS_KEY: access_key}
    signature = _signature(fields, command.body, secret_key).decode()
    return msgspec.structs.replace(command, ext_fields=fields | {SIGNATURE: signature})


def _signed_fields(command: RemotingCommand) -> Iterator[Mapping[str, str]]:
    """Yield the fields that the sender may have signed: all, or all but those of the zone."""
    fields = {name: value for name, value in (command.ext_fields or {}).items() if name != SIGNATURE}
    yield fields
    if fields.keys() & ZONE_FIELDS:
        yield {name: value for name, value in fields.items() if name not in ZONE_FIELDS}


def _signature(fields: Mapping[str, str], body: bytes, secret_key: bytes) -> bytes:
    values = "".join(fields[name] for name in sorted(fields))
    digest = hmac.new(secret_key, values.encode(), "sha1")
    digest.update(body)
    return base64.b64encode(digest.digest())
