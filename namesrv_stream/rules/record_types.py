"""The records of brokers and operators: one class for each `type` of the Kafka record contract.

Field names are RocketMQ's own, in snake_case here and in camelCase on the wire. The classes decide nothing:
`rules.registry` decides what a record changes, with the modules that it calls. Beside them: which topics brokers make
by themselves.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated

import msgspec

_PREFIXES = ("rmq_sys_", "%RETRY%", "%DLQ%")
_OF_CLUSTER = "_REPLY_TOPIC"
# RocketMQ's TopicValidator of 5.4.0, and the topic of its proxies
_NAMES = frozenset(
    {
        "TBW102",
        "SELF_TEST_TOPIC",
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",
        "SCHEDULE_TOPIC_XXXX",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    }
)

MAX_NAME_CHARS = 1_000
"""Longest address, cluster name, broker name and connection id. Spark keeps addresses in its state and `live`
connection ids, so they must be small. Those of real brokers have fewer than 100 characters."""

BROKER_ADDRESS = r"^(\[[^\s\[\]]+\]|[^\s\[\]]+):[0-9]{1,5}(?![\s\S])"
"""`host:port`, a regular expression for Python and Java.

As in RocketMQ, the port follows the last colon, so an IPv6 address may have brackets or not. The expression does not
end with `$`, because `$` also matches before a line feed at the end.
"""

MAX_TOKEN_CHARS = 100

DEFAULT_HEARTBEAT_TIMEOUT_MS = 120_000
"""Timeout of a broker whose registration names none (L1)."""

MAX_HEARTBEAT_TIMEOUT_MS = 366 * 24 * 3_600_000
"""Longest timeout. A longer one is most likely a mistake of units, so the record is rejected."""

MASTER_ID = 0
PERM_WRITE = 2
PERM_READ = 4
PERM_READ_WRITE = 6


def is_system_topic(name: str, brokers: Container[str], clusters: Container[str]) -> bool:
    """Return whether brokers make a topic of this name by themselves. A user's topic may have a name much like these.

    Each broker makes a topic named like itself, one like its cluster, and one for replies to producers of its cluster.
    """
    if name in _NAMES or name.startswith(_PREFIXES) or name in brokers or name in clusters:
        return True
    return name.endswith(_OF_CLUSTER) and name.removesuffix(_OF_CLUSTER) in clusters


Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


GroupName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARS)]
BrokerId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
ChannelId = Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]


Token = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TOKEN_CHARS)]

BrokerAddress = Annotated[str, msgspec.Meta(pattern=BROKER_ADDRESS, max_length=MAX_NAME_CHARS)]


class _TaggedRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", omit_defaults=True):
    pass


class DataVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The version of a broker's topic table. Compared for equality, never for order (T2)."""

    state_version: Int64 = 0
    timestamp: Int64 = 0
    counter: Int64 = 0


class TopicConfig(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The settings of one topic that a broker registers; filter type, order and attributes are dropped (T1).

    It holds only numbers, so the garbage collector need not visit the thousands in one registration (`gc=False`).
    """

    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32 = 0


class RegisterBroker(_TaggedRecord, frozen=True, kw_only=True, tag="REGISTER_BROKER"):
    """REGISTER_BROKER (103) with all topics or a part of them.

    `enable_acting_master` is None if the flag was absent, which R9 distinguishes from false. `keep_filter_servers`: the
    list was null (R11). `topic_queue_mapping_info_map`: topic -> TopicQueueMappingInfo as JSON (T7). `requested_by`:
    the sender, for the history alone. `token` identifies this registration: the sender chooses it, and the lease keeps
    it as long as the tables show everything in the registration (E10). `broker_version`: the release of the broker.
    """

    cluster_name: GroupName
    broker_name: GroupName
    broker_id: BrokerId
    broker_addr: BrokerAddress
    ha_server_addr: str = ""
    heartbeat_timeout_millis: Annotated[int, msgspec.Meta(ge=1, le=MAX_HEARTBEAT_TIMEOUT_MS)] | None = None
    enable_acting_master: bool | None = None
    zone_name: str | None = None
    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}
    topic_queue_mapping_info_map: dict[str, dict[str, object]] = {}
    filter_server_list: list[str] = []
    keep_filter_servers: bool = False
    channel_id: ChannelId | None = None
    requested_by: str | None = None
    token: Token | None = None
    broker_version: str | None = None

    @property
    def timeout_ms(self) -> int:
        """The header's timeout, else the default; never the timeout of an earlier registration (R10)."""
        return self.heartbeat_timeout_millis or DEFAULT_HEARTBEAT_TIMEOUT_MS


class BrokerHeartbeat(_TaggedRecord, frozen=True, kw_only=True, tag="BROKER_HEARTBEAT"):
    """A heartbeat without topics: it prolongs a known lease and creates none (L2)."""

    broker_addr: BrokerAddress
    channel_id: ChannelId | None = None


class UnregisterBroker(_TaggedRecord, frozen=True, kw_only=True, tag="UNREGISTER_BROKER"):
    """UNREGISTER_BROKER (104). Only the address counts (D4); the other fields may have any value."""

    broker_addr: BrokerAddress
    cluster_name: object = None
    broker_name: object = None
    broker_id: object = None


class ChannelClosed(_TaggedRecord, frozen=True, kw_only=True, tag="CHANNEL_CLOSED"):
    """The loss of a connection over which the broker sent signs of life: closed or failed (L6, D13)."""

    broker_addr: BrokerAddress
    channel_id: ChannelId


class Scan(_TaggedRecord, frozen=True, kw_only=True, tag="SCAN"):
    """A tick: it moves the log's clock and event time on while no broker sends anything (D9, E7)."""


class RequestRefused(_TaggedRecord, frozen=True, kw_only=True, tag="REQUEST_REFUSED"):
    """Requests of one sender that a gateway refused, `count` of them, because of a `missing` right.

    It changes nothing: the table `rejected` keeps it.
    """

    request: str
    requested_by: str
    missing: str
    count: int = 1

    @property
    def reason(self) -> str:
        """The reason of its line in `rejected`."""
        times = f", {self.count} times" if self.count > 1 else ""
        return f"refused: {self.request} of {self.requested_by} needs {self.missing}{times}"


class _OperatorCommand(_TaggedRecord, frozen=True, kw_only=True):
    """An operator's command.

    `requested_by`: its sender; `reason`: why it was sent, if known. Only the history uses them.
    """

    requested_by: str | None = None
    reason: str | None = None


class PutKvConfig(_OperatorCommand, frozen=True, kw_only=True, tag="PUT_KV_CONFIG"):
    """Create the namespace and set or replace the value (K1).

    An empty key, which would name the namespace itself, is rejected.
    """

    namespace: str
    key: Name
    value: str


class DeleteKvConfig(_OperatorCommand, frozen=True, kw_only=True, tag="DELETE_KV_CONFIG"):
    """Delete a key, which need not be there (K3)."""

    namespace: str
    key: Name


class WipeWritePerm(_OperatorCommand, frozen=True, kw_only=True, tag="WIPE_WRITE_PERM_OF_BROKER"):
    """Clear the write bit of all topics of a broker name (A1)."""

    broker_name: str


class AddWritePerm(_OperatorCommand, frozen=True, kw_only=True, tag="ADD_WRITE_PERM_OF_BROKER"):
    """Set read and write for all topics of a broker name (A2)."""

    broker_name: str


class DeleteTopic(_OperatorCommand, frozen=True, kw_only=True, tag="DELETE_TOPIC_IN_NAMESRV"):
    """Delete all rows of the topic, or those of one cluster's broker names (A3). None or empty: all clusters."""

    topic: str
    cluster_name: str | None = None


class QueueData(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of REGISTER_TOPIC_IN_NAMESRV: the topic's queues on one broker name."""

    broker_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32 = 0


class RegisterTopic(_OperatorCommand, frozen=True, kw_only=True, tag="REGISTER_TOPIC_IN_NAMESRV"):
    """Register the queues of one topic on known broker names (A4)."""

    topic: str
    queue_datas: list[QueueData]


class UpdateNamesrvConfig(_OperatorCommand, frozen=True, kw_only=True, tag="UPDATE_NAMESRV_CONFIG"):
    """Change settings at run time; values are texts (A5)."""

    properties: dict[str, str]


class LiftExpiryGuard(_OperatorCommand, frozen=True, kw_only=True, tag="LIFT_EXPIRY_GUARD"):
    """End all leases that the guard against mass expiry holds (D11)."""


class RetireBroker(_OperatorCommand, frozen=True, kw_only=True, tag="RETIRE_BROKER"):
    """Expect a broker no more that is down for good. Without effect while an address holds its id (A7)."""

    cluster_name: Name
    broker_name: Name
    broker_id: BrokerId
    reason: Name


BrokerRequest = RegisterBroker | BrokerHeartbeat | UnregisterBroker | ChannelClosed
Command = (
    PutKvConfig
    | DeleteKvConfig
    | WipeWritePerm
    | AddWritePerm
    | DeleteTopic
    | RegisterTopic
    | UpdateNamesrvConfig
    | LiftExpiryGuard
    | RetireBroker
)
Request = BrokerRequest | Scan | RequestRefused | Command


def what_is_wrong(error: Exception) -> str:
    """Return msgspec's message, which names the field and what is wrong, with `host:port` for an address's pattern."""
    return str(error).replace(f"`str` matching regex {BROKER_ADDRESS!r}", "host:port")
