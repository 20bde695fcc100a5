"""Apply operators' commands: permissions, topics, KV and settings (rules A1-A5, A7, K1-K3).

Each function returns the RocketMQ response code and, if the reply has one, the number of rows touched.

The module also checks order configurations, the values in the KV namespace ORDER_TOPIC_CONFIG, before they are sent.
RocketMQ's clients split a value at `;` and `:` and parse the second part as a number. A value of another form makes
their sending fail with an exception. A NameServer stores any text, so the wire accepts any text too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from namesrv_stream.config import ConfigBlackListError, NamesrvSettings
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE
from namesrv_stream.rules.record_types import (
    PERM_READ_WRITE,
    AddWritePerm,
    Command,
    DeleteKvConfig,
    DeleteTopic,
    LiftExpiryGuard,
    PutKvConfig,
    RegisterTopic,
    RetireBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.registry_tables import RegistryTables, drop_topic, wipe_write_perm
from namesrv_stream.rules.rows import BrokerRow, KvConfigRow, NamesrvConfigRow, TopicRow

SUCCESS = 0
NO_PERMISSION = 16

_ORDER_ENTRY = re.compile(r"[^:;\s]+:[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class CommandReply:
    """A response code, and the number of rows touched for the commands whose reply has it (205, 327)."""

    code: int = SUCCESS
    count: int | None = None


def apply_command(tables: RegistryTables, settings: NamesrvSettings, command: Command) -> CommandReply:
    """Apply one operator command."""
    match command:
        case PutKvConfig():
            return _put_kv(tables, command)
        case DeleteKvConfig():
            return _delete_kv(tables, command)
        case WipeWritePerm():
            return CommandReply(count=wipe_write_perm(tables, command.broker_name))  # A1
        case AddWritePerm():
            return _add_write_perm(tables, command)
        case DeleteTopic():
            return _delete_topic(tables, command)
        case RegisterTopic():
            return _register_topic(tables, command)
        case LiftExpiryGuard():
            return CommandReply()  # the registry ends the leases, each in a step of its own
        case RetireBroker():
            return CommandReply()  # the line of the history is all that it changes
        case UpdateNamesrvConfig():
            return _update_config(tables, settings, command)


def _put_kv(tables: RegistryTables, command: PutKvConfig) -> CommandReply:
    """Create the namespace and set or replace the value (K1). The namespace's row outlives its keys."""
    tables.kv_config.put(KvConfigRow(command.namespace, "", None))
    tables.kv_config.put(KvConfigRow(command.namespace, command.key, command.value))
    return CommandReply()


def _delete_kv(tables: RegistryTables, command: DeleteKvConfig) -> CommandReply:
    """Delete a key, if it is there; the emptied namespace remains (K3)."""
    tables.kv_config.drop(KvConfigRow(command.namespace, command.key, None))
    return CommandReply()


def _add_write_perm(tables: RegistryTables, command: AddWritePerm) -> CommandReply:
    """Set the permission to exactly read and write in all rows of a broker name (A2)."""
    rows = tables.topic.of(command.broker_name)
    for row in rows:
        tables.topic.put(row._replace(perm=PERM_READ_WRITE))
    return CommandReply(count=len(rows))


def _delete_topic(tables: RegistryTables, command: DeleteTopic) -> CommandReply:
    """Delete a topic everywhere, or on the broker names of one cluster (A3)."""
    for broker_name in list(tables.topic.groups()):
        row = tables.topic.known(broker_name, (command.topic, broker_name))
        clusters = {each.cluster_name for each in tables.cluster.of(broker_name)}
        if row is not None and (not command.cluster_name or command.cluster_name in clusters):
            drop_topic(tables, row)
    return CommandReply()


def _register_topic(tables: RegistryTables, command: RegisterTopic) -> CommandReply:
    """Register a topic's queues on known broker names (A4).

    If a name is unknown, a new topic is refused as a whole. For a known topic, the entries before that name are
    applied.
    """
    names = [queue.broker_name for queue in command.queue_datas]
    unknown = [i for i, name in enumerate(names) if not tables.broker.of(name)]
    is_known = any(tables.topic.known(name, (command.topic, name)) for name in tables.topic.groups())
    if unknown and not is_known:
        return CommandReply()
    for queue in command.queue_datas[: unknown[0] if unknown else None]:
        row = TopicRow(
            command.topic,
            queue.broker_name,
            queue.read_queue_nums,
            queue.write_queue_nums,
            queue.perm,
            queue.topic_sys_flag,
        )
        tables.topic.put(row)
    return CommandReply()


def _update_config(tables: RegistryTables, settings: NamesrvSettings, command: UpdateNamesrvConfig) -> CommandReply:
    """Change settings (A5).

    If one key is black-listed, the whole command is refused. Unknown keys and values that a key cannot take are
    ignored.
    """
    try:
        changes = settings.live_changes(command.properties)
    except ConfigBlackListError:
        return CommandReply(NO_PERMISSION)
    for key, value in changes.items():
        tables.namesrv_config.put(NamesrvConfigRow(key, value))
    return CommandReply()


def holder_of(command: RetireBroker, row: BrokerRow | None) -> str | None:
    """Return the address that keeps a broker from being retired (A7). `row`: who holds its id, in whatever cluster."""
    return row.broker_addr if row and row.cluster_name == command.cluster_name else None


def order_problem(value: str) -> str:
    """Return what is wrong with an order configuration; empty text if clients can read it."""
    wrong = next((entry for entry in value.split(";") if not _ORDER_ENTRY.fullmatch(entry)), None)
    if wrong is None:
        return ""
    return f"{wrong!a} is not a broker name with a number of queues, so clients would fail. Use name:queues;name:queues"


def problem_of_put(command: object) -> str:
    """Return what is wrong with the order configuration that a command puts; empty text if it puts none."""
    if isinstance(command, PutKvConfig) and command.namespace == ORDER_TOPIC_NAMESPACE:
        return order_problem(command.value)
    return ""


def ordered_brokers(command: object) -> list[str]:
    """Return the broker names in the order configuration that a command puts."""
    if not (isinstance(command, PutKvConfig) and command.namespace == ORDER_TOPIC_NAMESPACE):
        return []
    return [entry.partition(":")[0] for entry in command.value.split(";")]
