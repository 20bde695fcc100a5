"""Decode the body of REGISTER_BROKER in all its forms.

The sender's version and the header's `compressed` decide the form, with one exception: 5.4.0 brokers with
compressedRegister=true send a compressed body with `compressed=false`. Such a body is recognised by zlib's first byte,
0x78, with which no JSON starts.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from isal.isal_zlib import crc32

from namesrv_stream.errors import BadRequestError, malformed_body
from namesrv_stream.records import readable_topics, without_nulls
from namesrv_stream.rules.record_types import DataVersion, TopicConfig
from namesrv_stream.wire.codes import Version
from namesrv_stream.wire.json_text import as_int, decode_json

MAX_INFLATED_BYTES = 16 * 1024 * 1024
"""Limit of an inflated body: the size of the largest frame. Kafka would refuse the record of a larger one."""

MAX_TOPICS = 50_000
"""Limit of topics in one registration. A broker with more topics registers in parts."""

_BODY, _WRAPPER = "RegisterBrokerBody", "topicConfigSerializeWrapper"
_ZLIB_FIRST_BYTE = 0x78
_UP_TO_MAPPING_VERSION = re.compile(
    rb'(\{"filterServerList":\[[^]\\]*\],"topicConfigSerializeWrapper":\{"dataVersion":\{[^{}]*\},)'
    rb'"mappingDataVersion":\{"counter":\d{1,18},"stateVersion":\d{1,18},"timestamp":\d{1,18}\},'
)
"""Matches the begin of a body up to `mappingDataVersion` alone: a topic may have that name too."""
_INT32 = struct.Struct(">i")
_NUMBERS_OF_A_TOPIC = frozenset(field.encode_name for field in msgspec.structs.fields(TopicConfig))


class TopicConfigSerializeWrapper(msgspec.Struct, frozen=True, rename="camel"):
    """A broker's topics, their version, and the TopicQueueMappingInfo of its static topics (T7)."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}
    topic_queue_mapping_info_map: dict[str, dict[str, object]] = {}


class RegisterBrokerBody(msgspec.Struct, frozen=True, rename="camel"):
    """The content of a registration's body. `filter_server_list`: None keeps the registered list (R11).

    Decoding keeps only the fields of a topic that the registry uses. `left_out`: the topics whose settings cannot be
    read (R1a).
    """

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = TopicConfigSerializeWrapper()
    filter_server_list: list[str] | None = []
    left_out: tuple[str, ...] = ()


class _QuickWrapper(TopicConfigSerializeWrapper, frozen=True, rename="camel"):
    topic_queue_mapping_info_map: Annotated[dict[Literal[""], None], msgspec.Meta(max_length=0)] = {}  # type: ignore[assignment]  # is empty


class _QuickBody(RegisterBrokerBody, frozen=True, rename="camel"):
    topic_config_serialize_wrapper: _QuickWrapper = _QuickWrapper()


_decoder = msgspec.json.Decoder(RegisterBrokerBody, strict=False)
_quick_decoder: msgspec.json.Decoder[RegisterBrokerBody] = msgspec.json.Decoder(_QuickBody, strict=False)
_any_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_version_decoder = msgspec.json.Decoder(DataVersion, strict=False)
_mapping_decoder = msgspec.json.Decoder(dict[str, object])
_filter_servers_decoder = msgspec.json.Decoder(list[str] | None)


def body_crc32(body: bytes) -> int:
    """Return the value of `bodyCrc32`: the CRC32 of the body as sent, without the top bit."""
    return crc32(body) & 0x7FFFFFFF


def without_mapping_version(body: bytes) -> tuple[bytes, bytes]:
    """Return a registration's body in two parts, before and after `mappingDataVersion`, which no rule reads (T7).

    Brokers of 5.x with uncompressed bodies set its time anew in each registration. A body without it, or in another
    form than theirs, is the first part.
    """
    found = _UP_TO_MAPPING_VERSION.match(body)
    return (body, b"") if found is None else (found[1], body[found.end() :])


def check_crc32(body: bytes, expected: int) -> None:
    """Raise BadRequestError if `expected` is not the body's checksum. A value of 0 is not checked (R1)."""
    if expected and expected != (actual := body_crc32(body)):
        raise BadRequestError(
            f"crc32 of the body is {actual}, the header has {expected}: damaged on its way, register again",
            "crc32 not match",
        )


def decode_registration(
    body: bytes, version: int, *, compressed: bool = False, only_quick: bool = False
) -> RegisterBrokerBody:
    """Decode the body of a registration, whose header has `version` and `compressed`. Raises BadRequestError.

    An empty body registers only the address. A null counts as an absent field, and a topic that cannot be read is left
    out alone (R1a). `only_quick`: refuse content that takes far longer to decode than topics: JSON with integer keys
    without quotes, and TopicQueueMappingInfo, which may hold any values.
    """
    read, left_out = _decode(body, version, compressed, only_quick)
    wrapper = read.topic_config_serialize_wrapper
    _check_topics(len(wrapper.topic_config_table))
    _check_topics(len(wrapper.topic_queue_mapping_info_map))
    return RegisterBrokerBody(wrapper, read.filter_server_list, tuple(left_out))


def _decode(body: bytes, version: int, compressed: bool, only_quick: bool) -> tuple[RegisterBrokerBody, list[str]]:
    """Return the content of a body, and the topics that are left out for their settings, not for their names."""
    if version < Version.V3_0_11:  # only the wrapper: without a list of filter servers the registered one stays
        return _decode_plain(b'{"%s":%s,"filterServerList":null}' % (_WRAPPER.encode(), body or b"{}"), only_quick)
    if not body:
        return RegisterBrokerBody(), []
    if compressed or body[0] == _ZLIB_FIRST_BYTE:
        return _decode_sections(inflate(body), has_mappings=version >= Version.V5_0_0)
    return _decode_plain(body, only_quick)


def _decode_plain(text: bytes, only_quick: bool) -> tuple[RegisterBrokerBody, list[str]]:
    try:
        return decode_json(text, _quick_decoder if only_quick else _decoder, _BODY, bare_keys=not only_quick), []
    except BadRequestError as error:
        if only_quick or not isinstance(error.__cause__, msgspec.ValidationError):
            raise
    return _decode_with_defaults(text)


def _decode_with_defaults(text: bytes) -> tuple[RegisterBrokerBody, list[str]]:
    """Decode a body with nulls, or with topics that cannot be read. Only these topics are left out (R1a)."""
    try:
        said = decode_json(text, _any_decoder, _BODY)
        fields: dict[str, Any] = without_nulls(said)
        if said.get("filterServerList", ()) is None:
            fields["filterServerList"] = None  # keeps the list (R11)
        fields.pop("leftOut", None)
        wrapper = fields.get(_WRAPPER, {})
        if "dataVersion" in wrapper:
            wrapper["dataVersion"] = {name: as_int(value) for name, value in wrapper["dataVersion"].items()}
        servers = fields.get("filterServerList")
        if servers is not None:
            fields["filterServerList"] = list(map(str, servers)) if isinstance(servers, list) else [servers]
        configs = {name: _with_numbers(config) for name, config in wrapper.get("topicConfigTable", {}).items()}
        table = readable_topics(configs, strict=False)
        wrapper["topicConfigTable"] = table
        left_out = [name for name in (said.get(_WRAPPER) or {}).get("topicConfigTable") or () if name not in table]
        return msgspec.convert(fields, RegisterBrokerBody, strict=False), left_out
    except (msgspec.ValidationError, AttributeError, TypeError, RecursionError, ValueError) as error:
        raise malformed_body(_BODY, error) from error


def _with_numbers(config: Any) -> Any:
    """Return a topic's settings with its numbers as RocketMQ's reader takes them."""
    if isinstance(config, dict):
        for name in config.keys() & _NUMBERS_OF_A_TOPIC:
            with suppress(ValueError):  # the topic is left out
                config[name] = as_int(config[name])
    return config


def _check_topics(topics: int) -> None:
    if topics > MAX_TOPICS:
        raise BadRequestError(
            f"{topics} topics in one registration, over the limit of {MAX_TOPICS}: set enableSplitRegistration on the "
            "broker"
        )


def inflate(body: bytes) -> bytes:
    """Return the content of one zlib stream. At most MAX_INFLATED_BYTES and one byte are inflated.

    Raises BadRequestError if the content is longer, or if the body is no complete zlib stream.
    """
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(body, MAX_INFLATED_BYTES + 1)
    except zlib.error as error:
        raise malformed_body(_BODY, f"not a zlib stream: {error}") from error
    if len(text) > MAX_INFLATED_BYTES:
        raise BadRequestError(
            f"compressed body inflates to more than {MAX_INFLATED_BYTES} bytes: set enableSplitRegistration on the "
            "broker"
        )
    if not stream.eof:
        raise malformed_body(_BODY, f"zlib stream ends early, after {len(text)} inflated bytes")
    return text


class _Sections:
    """Reader of the inflated form: numbers, and blocks of bytes after their length."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0

    def number(self) -> int:
        try:
            (number,) = _INT32.unpack_from(self._text, self._at)
        except struct.error:
            raise malformed_body(_BODY, f"ends at byte {len(self._text)} where a number should be") from None
        self._at += _INT32.size
        if number < 0:
            raise malformed_body(_BODY, f"negative length {number} before byte {self._at}")
        return int(number)

    def block(self) -> bytes:
        end = self.number() + self._at
        if end > len(self._text):
            raise malformed_body(_BODY, f"block to byte {end} of {len(self._text)}")
        block = self._text[self._at : end]
        self._at = end
        return block

    def blocks(self) -> Iterator[bytes]:
        """Yield the blocks, one for each topic. Raises BadRequestError before the first if there are too many."""
        count = self.number()
        _check_topics(count)
        return (self.block() for _ in range(count))


def _decode_sections(text: bytes, *, has_mappings: bool) -> tuple[RegisterBrokerBody, list[str]]:
    sections = _Sections(text)
    version = _decode_version(sections.block())
    said = dict(_decode_topic(block) for block in sections.blocks())
    topics = {name: config for name, config in said.items() if config is not None}
    filter_servers = decode_json(sections.block(), _filter_servers_decoder, "filterServerList")
    mappings = dict(_decode_mapping(block) for block in sections.blocks()) if has_mappings else {}
    body = RegisterBrokerBody(TopicConfigSerializeWrapper(version, topics, mappings), filter_servers)
    return body, [name for name in said if name not in topics]


_TOPIC = re.compile(r"(.*) (-?\d+) (-?\d+) (-?\d+) [A-Z_]+(?: \{.*)?", re.DOTALL | re.ASCII)
"""A topic's text. The name may have blanks, so the last three numbers before a filter type are the topic's."""


def _decode_version(block: bytes) -> DataVersion:
    try:
        return decode_json(block, _version_decoder, "DataVersion")
    except BadRequestError:
        said = without_nulls(decode_json(block, _any_decoder, "DataVersion")) or {}
    try:
        return msgspec.convert({name: as_int(value) for name, value in said.items()}, DataVersion)
    except (msgspec.ValidationError, AttributeError, ValueError) as error:
        raise malformed_body("DataVersion", error) from error


def _decode_topic(block: bytes) -> tuple[str, TopicConfig | None]:
    """Decode `NAME READ WRITE PERM FILTER`. From 5.0.0 on attributes follow; flag and order are not in this form.

    A text without the numbers is no topic: its settings are None, and the whole text is its name (R1a).
    """
    text = block.decode(errors="replace")  # as Java does
    found = _TOPIC.fullmatch(text)
    if found is None:
        return text, None
    name, read, write, perm = found.groups()
    try:
        fields = {"readQueueNums": read, "writeQueueNums": write, "perm": perm}
        return name, msgspec.convert(fields, TopicConfig, strict=False)
    except msgspec.ValidationError:
        return name, None


def _decode_mapping(block: bytes) -> tuple[str, dict[str, object]]:
    mapping = decode_json(block, _mapping_decoder, "TopicQueueMappingInfo")
    match mapping.get("topic"):
        case str(topic):
            return topic, mapping
        case topic:
            raise malformed_body("TopicQueueMappingInfo", f"topic {topic!r} is not a string")
