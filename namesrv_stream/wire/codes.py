"""The protocol's numbers: of requests, answers, flags, header forms and versions."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class RequestCode(IntEnum):
    """The requests that a name server answers, and the one notice that it sends to brokers."""

    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    WIPE_WRITE_PERM_OF_BROKER = 205
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_TOPIC_IN_NAMESRV = 216
    REGISTER_TOPIC_IN_NAMESRV = 217
    GET_KVLIST_BY_NAMESPACE = 219
    GET_TOPICS_BY_CLUSTER = 224
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304
    GET_UNIT_TOPIC_LIST = 311
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313
    UPDATE_NAMESRV_CONFIG = 318
    GET_NAMESRV_CONFIG = 319
    QUERY_DATA_VERSION = 322
    ADD_WRITE_PERM_OF_BROKER = 327
    GET_BROKER_MEMBER_GROUP = 901
    BROKER_HEARTBEAT = 904
    NOTIFY_MIN_BROKER_ID_CHANGE = 905
    RETIRE_BROKER = 10_001  # not RocketMQ's


class ResponseCode(IntEnum):
    """The result codes in a name server's answers."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    QUERY_NOT_FOUND = 22


class Flag(IntFlag):
    """Bits of a command's `flag`."""

    RESPONSE = 1
    ONEWAY = 2


class SerializeType(IntEnum):
    """The form of a header: the top byte of the header word."""

    JSON = 0
    ROCKETMQ = 1


class Version(IntEnum):
    """Releases with a change of the protocol, by their ordinal in a header's `version`.

    The last one is the version in the gateway's own answers.
    """

    V3_0_11 = 37
    """The first release whose registration is a RegisterBrokerBody; before it, the bare topicConfigSerializeWrapper."""
    V4_9_0 = 393
    """The first release that reads `topicSysFlag` in a route; those before it read `topicSynFlag`."""
    V4_9_4 = 401
    """The first release whose route has its integer keys in quotes, as standard JSON requires."""
    V5_0_0 = 413
    """The first release whose compressed registration ends with the mappings of static topics."""
    V5_4_0 = 493


_FIRST_REGULAR = 212
"""The ordinal of 4.0.0-SNAPSHOT. From there on each release has two: one for its snapshot, one for itself."""


def release_name(version: int) -> str:
    """Return the release of RocketMQ that sends this version in its headers, such as 5.4.0."""
    if version < _FIRST_REGULAR:
        return "3.x"
    number, is_release = divmod(version - _FIRST_REGULAR, 2)
    name = ".".join(str(number + 400))
    return name if is_release else f"{name}-SNAPSHOT"
