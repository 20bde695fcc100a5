"""Header fields of requests and answers, typed: one class a code, with RocketMQ's field names in camelCase on the wire.

A field is required here where the request means nothing without it; elsewhere a missing one is null, as in RocketMQ.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from namesrv_stream.rules.requests import MAX_HEARTBEAT_TIMEOUT_MS, BrokerAddress, Name, what_is_wrong
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.command import RemotingCommand
from namesrv_stream.wire.errors import FieldError, UnprintableNameError

BrokerId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
TimeoutMs = Annotated[int, msgspec.Meta(ge=1, le=MAX_HEARTBEAT_TIMEOUT_MS)]
H = TypeVar("H", bound="Header")

_FREE_TEXT = frozenset({"value"})
"""Fields that are no names: the value of a KV entry may have lines."""


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Header fields of one request or answer code; they travel as text in `ext_fields`."""


class RegisterBrokerHeader(Header, frozen=True, kw_only=True):
    """103. `enable_acting_master` None: the flag was absent, which R9 tells from false."""

    broker_name: Name
    broker_addr: BrokerAddress
    cluster_name: Name
    ha_server_addr: str = ""
    broker_id: BrokerId
    heartbeat_timeout_millis: TimeoutMs | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: int = 0
    zone_name: str | None = msgspec.field(default=None, name="__ZONE_NAME")


class RegisterBrokerResponseHeader(Header, frozen=True, kw_only=True):
    """103's answer to a slave whose master is known (R12)."""

    master_addr: str | None = None
    ha_server_addr: str | None = None


class BrokerHeader(Header, frozen=True, kw_only=True):
    """104, 322 and 904: which broker speaks. Only the address counts (D4)."""

    broker_addr: BrokerAddress
    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: BrokerId | None = None


class QueryDataVersionResponseHeader(Header, frozen=True, kw_only=True):
    """322's answer (M8)."""

    changed: bool


class GetRouteInfoHeader(Header, frozen=True, kw_only=True):
    """105. Of the zone fields M4 says which client they make see its own zone only."""

    topic: str | None = None
    accept_standard_json_only: bool | None = None
    zone_mode: str | None = msgspec.field(default=None, name="__ZONE_MODE")
    zone_name: str | None = msgspec.field(default=None, name="__ZONE_NAME")

    @property
    def own_zone(self) -> str | None:
        """The zone to which the route is confined, None where it is not (M4)."""
        return self.zone_name if (self.zone_mode or "").lower() == "true" else None


class BrokerNameHeader(Header, frozen=True, kw_only=True):
    """205 and 327."""

    broker_name: str


class WipeWritePermResponseHeader(Header, frozen=True, kw_only=True):
    """205's answer (A1)."""

    wipe_topic_count: int


class AddWritePermResponseHeader(Header, frozen=True, kw_only=True):
    """327's answer (A2)."""

    add_topic_count: int


class TopicHeader(Header, frozen=True, kw_only=True):
    """216 and 217; `cluster_name` only with 216."""

    topic: Name
    cluster_name: str | None = None


class GetKvHeader(Header, frozen=True, kw_only=True):
    """101: one entry of the KV configuration; nothing is found under a name that is missing."""

    namespace: str | None = None
    key: str | None = None


class PutKvHeader(Header, frozen=True, kw_only=True):
    """100. The empty key is the registry's own mark of a namespace (K3)."""

    namespace: str
    key: Name
    value: str


class DeleteKvHeader(Header, frozen=True, kw_only=True):
    """102."""

    namespace: str
    key: Name


class GetKvConfigResponseHeader(Header, frozen=True, kw_only=True):
    """101's answer (K2)."""

    value: str


class NamespaceHeader(Header, frozen=True, kw_only=True):
    """219."""

    namespace: str | None = None


class ClusterHeader(Header, frozen=True, kw_only=True):
    """224."""

    cluster: str | None = None


class BrokerMemberGroupHeader(Header, frozen=True, kw_only=True):
    """901. The cluster is echoed, not checked."""

    cluster_name: str | None = None
    broker_name: str | None = None


class NotifyMinBrokerIdChangeHeader(Header, frozen=True, kw_only=True):
    """905, which a name server sends to the brokers of a group, oneway (R14). RocketMQ names no group in it."""

    min_broker_id: int
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


def read_header(command: RemotingCommand, header: type[H]) -> H:
    """The command's fields as `header`. Raises FieldError, which names the field that is missing or no such value."""
    try:
        return msgspec.convert(command.ext_fields or {}, header, strict=False)
    except msgspec.ValidationError as error:
        raise FieldError(request_name(command.code), what_is_wrong(error)) from error


def read_names(command: RemotingCommand, header: type[H]) -> H:
    """As `read_header`, for what gets into the registry. Raises UnprintableNameError for a name that may not."""
    read = read_header(command, header)
    for field, said in zip(header.__struct_fields__, msgspec.structs.astuple(read), strict=True):
        if isinstance(said, str) and field not in _FREE_TEXT:
            check_names(command, field, said)
    return read


def check_names(command: RemotingCommand, field: str, *names: str) -> None:
    """Raises UnprintableNameError for a control character, or one that turns or hides text, in a name."""
    if not "".join(names).isprintable():
        name = next(name for name in names if not name.isprintable())
        raise UnprintableNameError(request_name(command.code), field, name)


def header_fields(header: Header) -> dict[str, str]:
    """The `ext_fields` that say `header`: text, and without what is not set."""
    fields: dict[str, object] = msgspec.to_builtins(header)
    return {name: said if isinstance(said, str) else str(said).lower() for name, said in fields.items()}


def request_name(code: int) -> str:
    """RocketMQ's name of a request code, or the number of one that we do not know."""
    return RequestCode(code).name if code in RequestCode.__members__.values() else f"request code {code}"
