"""Which topics brokers make by themselves, so that lists of a user's topics can leave them out."""

from __future__ import annotations

from collections.abc import Container

_PREFIXES = ("RMQ_SYS_", "rmq_sys_", "%RETRY%", "%DLQ%")
_SUFFIX = "_REPLY_TOPIC"
_NAMES = frozenset(
    {
        "TBW102",
        "SELF_TEST_TOPIC",
        "BenchmarkTest",
        "OFFSET_MOVED_EVENT",
        "SCHEDULE_TOPIC_XXXX",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)


def is_system_topic(name: str, of_brokers: Container[str] = ()) -> bool:
    """Return whether brokers make a topic of this name by themselves.

    `of_brokers`: the names of brokers and clusters. Each broker makes a topic of its own name and one of its cluster's.
    """
    return name in _NAMES or name.startswith(_PREFIXES) or name.endswith(_SUFFIX) or name in of_brokers
