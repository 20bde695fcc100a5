"""The contract of a Kafka record: one JSON object, keyed by broker address.

Gateway, fleet and command line encode with this module and the micro-batch decodes with it, so the contract has one
definition. Field names are RocketMQ's own; unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.rules.record_types import (
    PERM_READ_WRITE,
    BrokerRequest,
    RegisterBroker,
    Request,
    TopicConfig,
    what_is_wrong,
)
from namesrv_stream.rules.registration import valid_topics

DEFAULT_TOPIC = "broker-heartbeats"
MAX_RECORD_BYTES = 17 * 1024 * 1024
"""Largest record that producers, the topic and consumers accept: a frame of 16 MiB, and 1 MiB that JSON adds."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, AttributeError)
_HEAVY_FIELDS = ("topicConfigTable", "topicQueueMappingInfoMap", "filterServerList")


def encode_record(request: Request) -> bytes:
    """Return the value of the Kafka record for `request`."""
    return _encoder.encode(request)


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a record's value, for programs that do not use this module.

    It has a condition for each type instead of a choice of all types, so that a validator names the field at fault.
    """
    (choice,), parts = msgspec.json.schema_components(
        [Request], schema_hook=lambda _any: {"description": "any value"}, ref_template="#/$defs/{name}"
    )
    parts_by_type = choice["discriminator"]["mapping"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": list(parts_by_type)}},
        "allOf": [
            {"if": {"required": ["type"], "properties": {"type": {"const": name}}}, "then": {"$ref": part}}
            for name, part in parts_by_type.items()
        ],
        "$defs": parts,
    }


def record_key(request: Request) -> bytes:
    """Return the broker address as UTF-8, or the empty key for a request that belongs to no broker."""
    address: str = getattr(request, "broker_addr", "")
    return address.encode()


_UTF_16 = "it is UTF-16: encode it as UTF-8"
_OTHER_BYTES = {
    b"\xff\xfe": _UTF_16,
    b"\xfe\xff": _UTF_16,
    b"{\0": _UTF_16,
    b"\0{": _UTF_16,
    b"\xef\xbb": "it begins with a byte order mark: encode it as UTF-8 without one (not utf-8-sig)",
    b"\x1f\x8b": "it is compressed by gzip: let the producer compress (compression.type)",
    b"\0": "it begins with the 0 and the number of a schema (4 bytes) of a serializer for a schema registry: use "
    "one for plain text or bytes",
}
"""First bytes of a value -> what has written it, and what to do."""


def decode_record(value: bytes | str | None, key: bytes | None = None) -> Request:
    """Decode the value of a record. Raises MalformedRecordError, whose reason names the field and the mistake.

    A null field of a registration counts as absent (R1a). If `key`, the record's key, is given, a broker's record must
    have the broker address as its key.
    """
    if value is None:
        raise MalformedRecordError("no value")
    try:
        request = _decoder.decode(value)
    except msgspec.ValidationError as error:
        request = _decode_with_defaults(value, error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRecordError(f"not JSON: {_of_other_bytes(value) or error}") from error
    _require_key(request, key)
    if isinstance(request, RegisterBroker):
        _require_all_topics(valid_topics(request)[1])
    return request


def _of_other_bytes(value: bytes | str) -> str | None:
    """Return what a value is whose first bytes show that a program has encoded it otherwise, None if they do not."""
    begins = value[:2].encode() if isinstance(value, str) else value[:2]
    return next((reason for start, reason in _OTHER_BYTES.items() if begins.startswith(start)), None)


def _decode_with_defaults(value: bytes | str, error: msgspec.ValidationError) -> RegisterBroker:
    try:
        request, left_out = _registration(value)
    except _UNREADABLE:
        raise MalformedRecordError(what_is_wrong(error)) from error
    _require_all_topics(left_out)
    return request


def _require_all_topics(left_out: Sequence[str]) -> None:
    if left_out:
        names = ", ".join(ascii(name[:100]) for name in left_out)
        raise MalformedRecordError(f"topics that cannot be read: {names}")


def decode_readable(value: bytes | str | None, key: bytes | None = None) -> tuple[RegisterBroker, bool]:
    """Decode a registration that `decode_record` rejects, and return whether only its lease could be read.

    Topics that cannot be read are left out alone (R1a). If anything else cannot be read, topics, mappings and filter
    servers are all left out, and the broker keeps its filter list (`keepFilterServers`, R11). Raises
    MalformedRecordError if the remaining fields cannot be read either.
    """
    try:
        request, is_lease_only = valid_topics(_registration(value or b"")[0])[0], False
    except _UNREADABLE:
        request, is_lease_only = _decode_lease(value), True
    _require_key(request, key)
    return request, is_lease_only


def _registration(value: bytes | str) -> tuple[RegisterBroker, list[str]]:
    """Return a registration with nulls as absent fields, and the names of topics that cannot be read."""
    said = msgspec.json.decode(value)
    _require_type(said)
    fields = without_nulls(said)
    if said.get("filterServerList", ()) is None:
        fields["keepFilterServers"] = True  # R11
    table = readable_topics(fields.get("topicConfigTable", {}), strict=True)
    left_out = [name for name in said.get("topicConfigTable") or () if name not in table]
    return msgspec.convert(fields | {"topicConfigTable": table}, RegisterBroker), left_out


def _decode_lease(value: bytes | str | None) -> RegisterBroker:
    try:
        fields: dict[str, Any] = msgspec.json.decode(value or b"")
        _require_type(fields)
        light = {name: content for name, content in fields.items() if name not in _HEAVY_FIELDS}
        return msgspec.convert(light | {"keepFilterServers": True}, RegisterBroker)
    except _UNREADABLE as error:
        raise MalformedRecordError(what_is_wrong(error)) from error


def _require_type(fields: dict[str, Any]) -> None:
    """Raise an error for a record that does not say that it is a registration: msgspec takes an absent type for one."""
    if fields.get("type") != "REGISTER_BROKER":
        raise msgspec.ValidationError("Object missing required field `type`")


def _require_key(request: Request, key: bytes | None) -> None:
    """Raise MalformedRecordError if a broker's record has another key than its address, which decides the partition."""
    if key is not None and isinstance(request, BrokerRequest) and key != request.broker_addr.encode():
        raise MalformedRecordError(f"the record's key is not brokerAddr {request.broker_addr}")


def without_nulls(value: Any) -> Any:
    """Return parsed JSON without the fields and items that are null, at any depth."""
    match value:
        case dict():
            return {key: without_nulls(each) for key, each in value.items() if each is not None}
        case list():
            return [without_nulls(each) for each in value if each is not None]
    return value


def readable_topics(table: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    """Return the topics whose settings can all be read. If `strict`, a text where a number belongs cannot be read.

    A topic without a permission gets RocketMQ's.
    """
    return {name: config for name, config in table.items() if _is_readable(config, strict)}


def _is_readable(config: Any, strict: bool) -> bool:
    try:
        config.setdefault("perm", PERM_READ_WRITE)
        msgspec.convert(config, TopicConfig, strict=strict)
    except (msgspec.ValidationError, AttributeError):
        return False
    return True
