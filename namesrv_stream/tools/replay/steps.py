"""The steps of scenario cases, one class for each `op`, and the requests that they make."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from namesrv_stream.rules.record_types import (
    AddWritePerm,
    BrokerAddress,
    BrokerHeartbeat,
    ChannelClosed,
    DataVersion,
    DeleteKvConfig,
    DeleteTopic,
    Int64,
    Name,
    PutKvConfig,
    QueueData,
    RegisterBroker,
    RegisterTopic,
    Request,
    TopicConfig,
    UnregisterBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)


class _Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="op"):
    """A step at time `t`: event time in milliseconds from the case's start."""

    t: Annotated[int, msgspec.Meta(ge=0, le=2**53)]

    def requests(self) -> list[Request]:
        """Return the requests of the step, in order."""
        return []


class ScanStep(_Step, frozen=True, tag="scan"):
    """A tick: event time goes on."""


class RestartStep(_Step, frozen=True, tag="restart"):
    """The registry stops and starts again."""


class _Sign(_Step, frozen=True, kw_only=True):
    """A sign of life. If `channel` is None, it is over a connection that the address has for itself."""

    addr: BrokerAddress
    channel: str | None = None

    @property
    def channel_id(self) -> str:
        return self.channel if self.channel is not None else f"ch:{self.addr}"

    def requests(self) -> list[Request]:
        return [BrokerHeartbeat(broker_addr=self.addr, channel_id=self.channel_id)]


class _Heartbeat(_Sign, frozen=True, tag="heartbeat"):
    """A light sign of life."""


class QueryVersionStep(_Sign, frozen=True, kw_only=True, tag="query_version"):
    """A version query, which is a sign of life too (L2)."""

    version: DataVersion


class _Topic(TopicConfig, frozen=True, kw_only=True):
    topic: str


class _Register(_Sign, frozen=True, kw_only=True, tag="register"):
    """A registration. `filter_servers` None: the null of R11. `enable_acting_master` None: the flag is absent."""

    cluster: Name
    broker: Name
    broker_id: Int64
    ha_server_addr: str
    version: DataVersion
    topics: list[_Topic]
    filter_servers: list[str] | None = []
    zone: str | None = None
    enable_acting_master: bool | None = None
    heartbeat_timeout_millis: Int64 | None = None
    topic_queue_mapping: dict[str, dict[str, Any]] | None = None

    def requests(self) -> list[Request]:
        request = RegisterBroker(
            cluster_name=self.cluster,
            broker_name=self.broker,
            broker_id=self.broker_id,
            broker_addr=self.addr,
            ha_server_addr=self.ha_server_addr,
            heartbeat_timeout_millis=self.heartbeat_timeout_millis,
            enable_acting_master=self.enable_acting_master,
            zone_name=self.zone,
            data_version=self.version,
            topic_config_table={
                each.topic: msgspec.convert(each, TopicConfig, from_attributes=True) for each in self.topics
            },
            topic_queue_mapping_info_map=self.topic_queue_mapping or {},
            filter_server_list=self.filter_servers or [],
            keep_filter_servers=self.filter_servers is None,
            channel_id=self.channel_id,
        )
        return [request]


class _Unregistered(msgspec.Struct, frozen=True, rename="camel"):
    cluster: str
    broker: str
    broker_id: Int64
    addr: BrokerAddress


class _Unregister(_Step, frozen=True, kw_only=True, tag="unregister"):
    """The end of one registration by its fields, or of several in `requests`."""

    cluster: str | None = None
    broker: str | None = None
    broker_id: Int64 | None = None
    addr: BrokerAddress | None = None
    several: list[_Unregistered] | None = msgspec.field(default=None, name="requests")

    def __post_init__(self) -> None:
        try:
            self.requests()
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None  # msgspec adds the place to a ValueError

    def requests(self) -> list[Request]:
        return [
            UnregisterBroker(
                broker_addr=each.addr,
                cluster_name=each.cluster,
                broker_name=each.broker,
                broker_id=each.broker_id,
            )
            for each in (self.several if self.several is not None else [self._one()])
        ]

    def _one(self) -> _Unregistered:
        given = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        return msgspec.convert(given, _Unregistered)


class _ChannelClose(_Step, frozen=True, kw_only=True, tag="channel_close"):
    """The loss of a connection."""

    channel: str
    addr: BrokerAddress

    def requests(self) -> list[Request]:
        return [ChannelClosed(broker_addr=self.addr, channel_id=self.channel)]


class _PutKv(_Step, frozen=True, kw_only=True, tag="put_kv"):
    namespace: str
    key: Name
    value: str

    def requests(self) -> list[Request]:
        return [PutKvConfig(namespace=self.namespace, key=self.key, value=self.value)]


class _DeleteKv(_Step, frozen=True, kw_only=True, tag="delete_kv"):
    namespace: str
    key: Name

    def requests(self) -> list[Request]:
        return [DeleteKvConfig(namespace=self.namespace, key=self.key)]


class _WipeWritePerm(_Step, frozen=True, kw_only=True, tag="wipe_write_perm"):
    broker: str

    def requests(self) -> list[Request]:
        return [WipeWritePerm(broker_name=self.broker)]


class _AddWritePerm(_Step, frozen=True, kw_only=True, tag="add_write_perm"):
    broker: str

    def requests(self) -> list[Request]:
        return [AddWritePerm(broker_name=self.broker)]


class _DeleteTopic(_Step, frozen=True, kw_only=True, tag="delete_topic"):
    topic: str
    cluster: str | None = None

    def requests(self) -> list[Request]:
        return [DeleteTopic(topic=self.topic, cluster_name=self.cluster)]


class _RegisterTopic(_Step, frozen=True, kw_only=True, tag="register_topic"):
    topic: str
    queues: list[QueueData]

    def requests(self) -> list[Request]:
        return [RegisterTopic(topic=self.topic, queue_datas=self.queues)]


class _UpdateConfig(_Step, frozen=True, kw_only=True, tag="update_config"):
    properties: dict[str, str]

    def requests(self) -> list[Request]:
        return [UpdateNamesrvConfig(properties=self.properties)]


Step = (
    ScanStep
    | RestartStep
    | _Heartbeat
    | QueryVersionStep
    | _Register
    | _Unregister
    | _ChannelClose
    | _PutKv
    | _DeleteKv
    | _WipeWritePerm
    | _AddWritePerm
    | _DeleteTopic
    | _RegisterTopic
    | _UpdateConfig
)
