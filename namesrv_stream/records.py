"""The contract of a Kafka record: one JSON object, keyed by broker address.

Gateway, fleet and command line encode with this module and the micro-batch decodes with it, so the contract has one
definition. Field names are RocketMQ's own; unknown fields are ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.rules.requests import BrokerRequest, RegisterBroker, Request, what_is_wrong

DEFAULT_TOPIC = "broker-heartbeats"
MAX_RECORD_BYTES = 17 * 1024 * 1024
"""Largest record that producers, the topic and consumers accept: a frame of 16 MiB, and 1 MiB that JSON adds."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_HEAVY_FIELDS = ("topicConfigTable", "topicQueueMappingInfoMap", "filterServerList")


def encode_record(request: Request) -> bytes:
    """Return the value of the Kafka record for `request`."""
    return _encoder.encode(request)


def record_key(request: Request) -> bytes:
    """Return the broker address as UTF-8, or the empty key for a request that belongs to no broker."""
    address: str = getattr(request, "broker_addr", "")
    return address.encode()


def decode_record(value: bytes | str | None, key: bytes | None = None) -> Request:
    """Decode the value of a record. Raises MalformedRecordError, whose reason names the field and the mistake.

    With the record's `key`, a record of a broker has to have the broker address as its key.
    """
    if value is None:
        raise MalformedRecordError("no value")
    try:
        request = _decoder.decode(value)
    except msgspec.ValidationError as error:
        raise MalformedRecordError(what_is_wrong(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRecordError(f"not JSON: {error}") from error
    _require_key(request, key)
    return request


def decode_lease_only(value: bytes | str | None, key: bytes | None = None) -> RegisterBroker:
    """Decode a registration without its topics, mappings and filter servers, for one whose other fields cannot be read.

    It keeps the broker's filter list (`keepFilterServers`, R11), since the list that the broker sent is unknown. Raises
    MalformedRecordError if the remaining fields cannot be read either.
    """
    try:
        fields: dict[str, Any] = msgspec.json.decode(value or b"")
        light = {name: content for name, content in fields.items() if name not in _HEAVY_FIELDS}
        request = msgspec.convert(light | {"keepFilterServers": True}, RegisterBroker)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, AttributeError) as error:
        raise MalformedRecordError(what_is_wrong(error)) from error
    _require_key(request, key)
    return request


def _require_key(request: Request, key: bytes | None) -> None:
    """Raise MalformedRecordError if a broker's record has another key than its address: another partition's order."""
    if key is not None and isinstance(request, BrokerRequest) and key != request.broker_addr.encode():
        raise MalformedRecordError(f"the record's key is not brokerAddr {request.broker_addr}")
