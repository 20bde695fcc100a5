"""Decode the header fields of requests into types. On the wire they have RocketMQ's camelCase names.

A field is required if the request has no meaning without it. Any other missing field is null, as in RocketMQ.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from namesrv_stream.errors import bad_field, unprintable_name
from namesrv_stream.rules.record_types import (
    MAX_HEARTBEAT_TIMEOUT_MS,
    BrokerAddress,
    BrokerId,
    GroupName,
    Name,
    what_is_wrong,
)
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand

TimeoutMs = Annotated[int, msgspec.Meta(ge=1, le=MAX_HEARTBEAT_TIMEOUT_MS)]
H = TypeVar("H", bound=msgspec.Struct)

_FREE_TEXT = frozenset({"value", "topic"})
"""Fields that may have unprintable characters: a KV value may have several lines, and for topics see R1a."""


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Header fields of one request or answer code. They are sent as text in `ext_fields`."""


class RegisterBrokerHeader(Header, frozen=True, kw_only=True):
    """Request 103. `enable_acting_master`: None if the flag is absent, which R9 treats differently from false."""

    broker_name: GroupName
    broker_addr: BrokerAddress
    cluster_name: GroupName
    ha_server_addr: str = ""
    broker_id: BrokerId
    heartbeat_timeout_millis: TimeoutMs | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: int = 0
    zone_name: str | None = msgspec.field(default=None, name="__ZONE_NAME")


class BrokerHeader(Header, frozen=True, kw_only=True):
    """Requests 104, 322 and 904: the broker that sends them. Only its address counts (D4), but see D14."""

    broker_addr: BrokerAddress
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: BrokerId | None = None


class GetRouteInfoHeader(Header, frozen=True, kw_only=True):
    """Request 105. The zone fields limit the route to the client's own zone, as M4 describes."""

    topic: str | None = None
    accept_standard_json_only: bool | None = None
    zone_mode: str | None = msgspec.field(default=None, name="__ZONE_MODE")
    zone_name: str | None = msgspec.field(default=None, name="__ZONE_NAME")

    @property
    def own_zone(self) -> str | None:
        """The zone to which the route is limited (M4); None if it is not limited."""
        return self.zone_name if (self.zone_mode or "").lower() == "true" else None


class TopicHeader(Header, frozen=True, kw_only=True):
    """Requests 216 and 217: a topic. `cluster_name`: only in 216."""

    topic: Name
    cluster_name: str | None = None


class NotifyMinBrokerIdChangeHeader(Header, frozen=True, kw_only=True):
    """Notice 905, which a name server sends to the brokers of a group, oneway (R14). RocketMQ leaves the name unset."""

    min_broker_id: int
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


def read_header(command: RemotingCommand, header: type[H]) -> H:
    """Return the command's fields as `header`. Raises BadRequestError, which names a missing or bad field."""
    try:
        return msgspec.convert(command.ext_fields or {}, header, strict=False)
    except msgspec.ValidationError as error:
        raise bad_field(request_name(command.code), what_is_wrong(error)) from error


def read_names(command: RemotingCommand, header: type[H]) -> H:
    """Return the same as `read_header`, for a request whose names get into the registry.

    It also raises BadRequestError for a name that cannot be printed.
    """
    read = read_header(command, header)
    fields = zip(header.__struct_fields__, msgspec.structs.astuple(read), strict=True)
    names = {field: value for field, value in fields if isinstance(value, str) and field not in _FREE_TEXT}
    if not "".join(names.values()).isprintable():
        for field, name in names.items():
            check_names(command, field, name)
    return read


def check_names(command: RemotingCommand, field: str, *names: str) -> None:
    """Raise BadRequestError if a name has a control character, or one that turns or hides text."""
    if not "".join(names).isprintable():
        name = next(name for name in names if not name.isprintable())
        raise unprintable_name(request_name(command.code), field, name)


def header_fields(header: Header) -> dict[str, str]:
    """Return `header` as `ext_fields`: its values as text, without fields that are not set."""
    fields: dict[str, object] = msgspec.to_builtins(header)
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in fields.items()}


def request_name(code: int) -> str:
    """Return RocketMQ's name of a request code; for an unknown code its number."""
    return RequestCode(code).name if code in RequestCode.__members__.values() else f"request code {code}"
