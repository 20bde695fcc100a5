"""Encode and decode the bodies of answers and of smaller requests. Registrations are in `registration_request.py`.

Classes have the names and, in camelCase, the fields of RocketMQ's classes. A field that is None is left out of the
JSON if its class omits defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_args

import javaproperties
import msgspec

from namesrv_stream.errors import malformed_body
from namesrv_stream.rules.lookup import ClusterInfo, TopicRouteData
from namesrv_stream.rules.record_types import DataVersion, QueueData
from namesrv_stream.wire.json_text import decode_json, encode_json, encode_json_with_bare_keys


class TopicList(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Names of topics (M7). `broker_addr`: the address of any one broker, in the list of system topics only."""

    topic_list: list[str]
    broker_addr: str | None = None


class KVTable(msgspec.Struct, frozen=True):
    """One namespace of the KV configuration (K4)."""

    table: dict[str, str]


class BrokerMemberGroup(msgspec.Struct, frozen=True, rename="camel"):
    """The addresses of one broker name by id. `cluster`: the cluster in the request, which is not checked (M6)."""

    cluster: str | None
    broker_name: str | None
    broker_addrs: dict[int, str]


class GetBrokerMemberGroupResponseBody(msgspec.Struct, frozen=True, rename="camel"):
    """The body of an answer to GET_BROKER_MEMBER_GROUP."""

    broker_member_group: BrokerMemberGroup


class _QueueDatas(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a TopicRouteData that REGISTER_TOPIC_IN_NAMESRV uses."""

    queue_datas: list[QueueData] = []


JsonBody = TopicRouteData | ClusterInfo | TopicList | KVTable | GetBrokerMemberGroupResponseBody | DataVersion
Body = TypeVar("Body", bound=JsonBody)

_decoders: dict[type, msgspec.json.Decoder[Any]] = {
    body: msgspec.json.Decoder(body, strict=False) for body in get_args(JsonBody)
}
_FLAG = re.compile(rb'"topicSysFlag":(-?[0-9]+)')  # in a string each quote has a \\ before it
_queue_datas_decoder = msgspec.json.Decoder(_QueueDatas, strict=False)


def encode_body(body: JsonBody, *, bare_integer_keys: bool = False) -> bytes:
    """Encode as standard JSON or, with `bare_integer_keys`, in the form that clients before 4.9.4 expect.

    The Go client of those releases reads every broker id in quotes as 0, and so sends to a slave. Java clients read
    both.
    """
    return encode_json_with_bare_keys(body) if bare_integer_keys else encode_json(body)


def with_former_flag(route: bytes) -> bytes:
    """Return an encoded route in which clients from before 4.9.0 find the flag of each queue under its former name."""
    return _FLAG.sub(rb'"topicSynFlag":\1,\g<0>', route)


def decode_body(text: bytes, body: type[Body]) -> Body:
    """Decode `text` as one of this module's classes or as DataVersion. Raises BadRequestError."""
    decoder: msgspec.json.Decoder[Body] = _decoders[body]
    return decode_json(text, decoder, body.__name__)


def decode_queue_datas(text: bytes) -> list[QueueData]:
    """Decode the queue data in the body of a REGISTER_TOPIC_IN_NAMESRV. Raises BadRequestError."""
    return decode_json(text, _queue_datas_decoder, "TopicRouteData").queue_datas


def encode_properties(settings: Mapping[str, str]) -> bytes:
    """Encode settings as Java properties text: one `key=value` a line, sorted by key (A6)."""
    lines = (javaproperties.join_key_value(key, settings[key]) for key in sorted(settings))
    return "".join(f"{line}\n" for line in lines).encode()


MAX_PROPERTIES_BYTES = 16 * 1024
"""Limit of a text of settings. The event loop reads it in up to 5 ms. All settings take 2 KB."""

_MAX_LINES = 256
_MAX_CONTINUED_LINES = 16
"""Limit of lines that end with a backslash. At each of them javaproperties searches all joined lines again."""


def decode_properties(text: bytes) -> dict[str, str]:
    """Decode settings from Java properties text, which is UTF-8 here (A5). Raises BadRequestError."""
    try:
        _check_size(text)
        return dict(_loaded(text.decode()))
    except ValueError as error:  # also of javaproperties
        raise malformed_body("properties", error, "string2Properties error") from error


def _check_size(text: bytes) -> None:
    lines, continued = (text.count(end + b"\n") + text.count(end + b"\r") for end in (b"", b"\\"))
    sizes = (
        (len(text), MAX_PROPERTIES_BYTES, "bytes"),
        (lines - text.count(b"\r\n"), _MAX_LINES, "lines"),
        (continued, _MAX_CONTINUED_LINES, "continued lines"),
    )
    for size, limit, what in sizes:
        if size > limit:
            raise ValueError(f"{size} {what}, over the limit of {limit}")


@lru_cache(maxsize=4)  # a request's settings are read to check the sender's right, and again to change them
def _loaded(text: str) -> Mapping[str, str]:
    return javaproperties.loads(text)
