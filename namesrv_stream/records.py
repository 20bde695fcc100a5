"""The Kafka record contract: one JSON object a record, keyed by broker address.

Producers (gateway, fleet, command line) encode with this module and the micro-batch decodes with it, so there is
one definition of what a record may be. Field names are RocketMQ's own; unknown fields are ignored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from namesrv_stream.errors import MalformedRecordError
from namesrv_stream.rules.requests import RegisterBroker, Request, what_is_wrong

DEFAULT_TOPIC = "broker-heartbeats"
MAX_RECORD_BYTES = 17 * 1024 * 1024
"""What producers, the topic and consumers are set to: a frame of 16 MiB and what JSON adds to it."""

NO_BROKER_KEY = b""
"""Key of ticks and commands, which belong to no broker."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_HEAVY_FIELDS = ("topicConfigTable", "topicQueueMappingInfoMap", "filterServerList")


def encode_record(request: Request) -> bytes:
    """The value of the Kafka record that says `request`."""
    return _encoder.encode(request)


def record_key(request: Request) -> bytes:
    """The broker address as UTF-8, or the empty key for what belongs to no broker."""
    address: str = getattr(request, "broker_addr", "")
    return address.encode()


def decode_record(value: bytes | str) -> Request:
    """What a record says. Raises MalformedRecordError, whose reason names the field and what is wrong with it."""
    try:
        return _decoder.decode(value)
    except msgspec.ValidationError as error:
        raise MalformedRecordError(what_is_wrong(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRecordError(f"not JSON: {error}") from error


def decode_lease_only(value: bytes | str) -> RegisterBroker:
    """A registration without its topics, mappings and filter servers: what still counts when those are unreadable.

    The filter list is kept as it was (R11's null), since what the broker meant is unknown.
    """
    try:
        fields: dict[str, Any] = msgspec.json.decode(value)
        light = {name: content for name, content in fields.items() if name not in _HEAVY_FIELDS}
        return msgspec.convert(light | {"keepFilterServers": True}, RegisterBroker)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, AttributeError) as error:
        raise MalformedRecordError(what_is_wrong(error)) from error
