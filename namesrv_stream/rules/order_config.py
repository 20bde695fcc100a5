"""Check the order configuration of a topic: the values in the KV namespace ORDER_TOPIC_CONFIG.

RocketMQ's clients split a value at `;` and `:` and take the second part for a number, without a check: a value of
another form ends their sending with an exception. A NameServer stores any text, so the wire does too.
"""

from __future__ import annotations

import re
from collections.abc import Container

from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE
from namesrv_stream.rules.record_types import PutKvConfig

_ENTRY = re.compile(r"[^:;\s]+:[0-9]{1,9}")


def order_problem(value: str) -> str:
    """Return what is wrong with a value, empty text if clients can read it."""
    wrong = next((entry for entry in value.split(";") if not _ENTRY.fullmatch(entry)), None)
    if wrong is None:
        return ""
    return f"{wrong!a} is no broker name with a number of queues, and clients fail at it; write name:queues;name:queues"


def problem_of_put(command: object) -> str:
    """Return what is wrong with the order configuration that a command puts; empty text if it puts none."""
    if isinstance(command, PutKvConfig) and command.namespace == ORDER_TOPIC_NAMESPACE:
        return order_problem(command.value)
    return ""


def unknown_brokers(command: object, brokers: Container[str]) -> list[str]:
    """Return the broker names in the order configuration that a command puts which are not in `brokers`."""
    if not (isinstance(command, PutKvConfig) and command.namespace == ORDER_TOPIC_NAMESPACE):
        return []
    return [name for entry in command.value.split(";") if (name := entry.partition(":")[0]) not in brokers]
