"""Which topics brokers make by themselves, and which names people take for the same one."""

from __future__ import annotations

from collections.abc import Container

_PREFIXES = ("RMQ_SYS_", "rmq_sys_", "%RETRY%", "%DLQ%")
_SUFFIX = "_REPLY_TOPIC"
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
    }
)


def is_system_topic(name: str, of_brokers: Container[str] = ()) -> bool:
    """Return whether brokers make a topic of this name by themselves.

    `of_brokers`: the names of brokers and clusters. Each broker makes a topic named like itself and one like its
    cluster.
    """
    return name in _NAMES or name.startswith(_PREFIXES) or name.endswith(_SUFFIX) or name in of_brokers
