"""What operators change: permissions, topics, KV and settings (rules A1-A5, K1-K3).

Each function returns the RocketMQ response code and, where the reply has one, the count of rows touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from namesrv_stream.config import ConfigBlackListError, NamesrvSettings
from namesrv_stream.rules.requests import (
    PERM_READ_WRITE,
    AddWritePerm,
    Command,
    DeleteKvConfig,
    DeleteTopic,
    PutKvConfig,
    RegisterTopic,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.rows import KvConfigRow, NamesrvConfigRow, TopicRow
from namesrv_stream.rules.tables import RegistryTables, wipe_write_perm

SUCCESS = 0
NO_PERMISSION = 16


@dataclass(frozen=True, slots=True)
class CommandReply:
    """A response code, and how many rows the command touched where its reply says so (205, 327)."""

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
        case UpdateNamesrvConfig():
            return _update_config(tables, settings, command)


def _put_kv(tables: RegistryTables, command: PutKvConfig) -> CommandReply:
    """K1: makes the namespace, whose row outlives its keys, and replaces the value."""
    tables.kv_config.put(KvConfigRow(command.namespace, "", None))
    tables.kv_config.put(KvConfigRow(command.namespace, command.key, command.value))
    return CommandReply()


def _delete_kv(tables: RegistryTables, command: DeleteKvConfig) -> CommandReply:
    """K3: also what is absent; the emptied namespace remains."""
    tables.kv_config.drop(KvConfigRow(command.namespace, command.key, None))
    return CommandReply()


def _add_write_perm(tables: RegistryTables, command: AddWritePerm) -> CommandReply:
    """A2: the permission becomes exactly read and write."""
    rows = list(tables.topic.of(command.broker_name).values())
    for row in rows:
        tables.topic.put(row._replace(perm=PERM_READ_WRITE))
    return CommandReply(count=len(rows))


def _delete_topic(tables: RegistryTables, command: DeleteTopic) -> CommandReply:
    """A3: everywhere, or on the broker names of one cluster."""
    for broker_name in list(tables.topic.groups()):
        row = tables.topic.of(broker_name).get((command.topic, broker_name))
        clusters = {each.cluster_name for each in tables.cluster.of(broker_name).values()}
        if row is not None and (not command.cluster_name or command.cluster_name in clusters):
            tables.topic.drop(row)
    return CommandReply()


def _register_topic(tables: RegistryTables, command: RegisterTopic) -> CommandReply:
    """A4: a new topic is refused as a whole if one name is unknown; of a known one the entries before it count."""
    names = [queue.broker_name for queue in command.queue_datas]
    unknown = [i for i, name in enumerate(names) if not tables.broker.of(name)]
    is_known = any((command.topic, name) in tables.topic.of(name) for name in tables.topic.groups())
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
    """A5: a black-listed key refuses all; unknown keys are ignored, and so are values that a key cannot take."""
    try:
        changes = settings.live_changes(command.properties)
    except ConfigBlackListError:
        return CommandReply(NO_PERMISSION)
    for key, value in changes.items():
        tables.namesrv_config.put(NamesrvConfigRow(key, value))
    return CommandReply()
