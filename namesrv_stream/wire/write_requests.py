"""Translate writing requests, which are remoting commands, into the content of records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from namesrv_stream.errors import BadRequestError, bad_field, unprintable_name
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    Command,
    DeleteKvConfig,
    DeleteTopic,
    PutKvConfig,
    RegisterBroker,
    RegisterTopic,
    RetireBroker,
    UnregisterBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.registration import is_topic_name, valid_topics
from namesrv_stream.wire.bodies import decode_properties, decode_queue_datas
from namesrv_stream.wire.codes import RequestCode, release_name
from namesrv_stream.wire.headers import (
    BrokerHeader,
    RegisterBrokerHeader,
    TopicHeader,
    check_names,
    read_names,
    request_name,
)
from namesrv_stream.wire.registration_request import (
    check_crc32,
    decode_registration,
)
from namesrv_stream.wire.remoting_command import RemotingCommand

C = TypeVar("C", PutKvConfig, DeleteKvConfig, WipeWritePerm, AddWritePerm, RetireBroker)

_FIELDS = frozenset({"namespace", "key", "value", "brokerName"})
_FIELDS_OF_RETIREMENT = frozenset({"clusterName", "brokerName", "brokerId", "reason"})


def register_broker(
    command: RemotingCommand, channel_id: str | None = None, *, only_quick: bool = False
) -> RegisterBroker:
    """Translate a registration as `read_registration` does, without the names of topics that are left out."""
    return read_registration(command, channel_id, only_quick=only_quick)[0]


def read_registration(
    command: RemotingCommand, channel_id: str | None = None, *, only_quick: bool = False
) -> tuple[RegisterBroker, tuple[str, ...]]:
    """Translate a registration: check its checksum (R1), and decode its body in the form of the sender's version.

    Return also the names of the topics that are left out (R1a). `only_quick`: see `decode_registration`. Raises
    BadRequestError.
    """
    header = read_names(command, RegisterBrokerHeader)
    check_crc32(command.body, header.body_crc32)
    body = decode_registration(command.body, command.version, compressed=header.compressed, only_quick=only_quick)
    wrapper = body.topic_config_serialize_wrapper
    check_names(command, "filterServerList", *(body.filter_server_list or ()))
    request = RegisterBroker(
        cluster_name=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        broker_addr=header.broker_addr,
        ha_server_addr=header.ha_server_addr,
        heartbeat_timeout_millis=header.heartbeat_timeout_millis,
        enable_acting_master=header.enable_acting_master,
        zone_name=header.zone_name,
        data_version=wrapper.data_version,
        topic_config_table=wrapper.topic_config_table,
        topic_queue_mapping_info_map=wrapper.topic_queue_mapping_info_map,
        filter_server_list=body.filter_server_list or [],
        keep_filter_servers=body.filter_server_list is None,
        channel_id=channel_id,
        requested_by=command.sender,
        broker_version=release_name(command.version),
    )
    request, left_out = valid_topics(request)
    return request, (*body.left_out, *left_out)


def unregister_broker(command: RemotingCommand) -> UnregisterBroker:
    """Translate the unregistration of a broker. Raises BadRequestError."""
    header = read_names(command, BrokerHeader)
    return UnregisterBroker(
        broker_addr=header.broker_addr,
        cluster_name=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
    )


def operator_command(command: RemotingCommand, requested_by: str | None = None) -> Command:
    """Translate an operator's 100, 102, 205, 216, 217, 318, 327 or 10001. Raises BadRequestError.

    `requested_by`: the name of a sender whom the server does not know. Whether 318 may change a setting is not checked
    here (A5).
    """
    reader = _OPERATOR_COMMANDS.get(command.code)
    if reader is None:
        raise BadRequestError(f"request code {command.code} changes nothing in the registry: answer it from a snapshot")
    return msgspec.structs.replace(reader(command), requested_by=command.sender or requested_by)


def _put_kv_config(command: RemotingCommand) -> PutKvConfig:
    fields = command.ext_fields or {}
    if "namespace" not in fields or "key" not in fields:
        raise bad_field(request_name(command.code), "no namespace or no key", remark="namespace or key is null")  # K1
    return _of_fields(PutKvConfig, command)


def _of_fields(kind: type[C], command: RemotingCommand, fields: frozenset[str] = _FIELDS) -> C:
    """Return a command whose fields are those of its request. Other fields, such as `requestedBy`, are ignored."""
    said = {name: value for name, value in (command.ext_fields or {}).items() if name in fields}
    return read_names(msgspec.structs.replace(command, ext_fields=said), kind)


def _delete_topic(command: RemotingCommand) -> DeleteTopic:
    header = _topic_header(command)
    return DeleteTopic(topic=header.topic, cluster_name=header.cluster_name)


def _register_topic(command: RemotingCommand) -> RegisterTopic:
    return RegisterTopic(topic=_topic_header(command).topic, queue_datas=decode_queue_datas(command.body))


def _topic_header(command: RemotingCommand) -> TopicHeader:
    """Return the header of a command on a topic. The topic may have any name that a registration may have (R1a)."""
    header = read_names(command, TopicHeader)
    if not is_topic_name(header.topic):
        raise unprintable_name(request_name(command.code), "topic", header.topic)
    return header


def _update_namesrv_config(command: RemotingCommand) -> UpdateNamesrvConfig:
    return UpdateNamesrvConfig(properties=decode_properties(command.body))


_OPERATOR_COMMANDS: dict[int, Callable[[RemotingCommand], Command]] = {
    RequestCode.PUT_KV_CONFIG: _put_kv_config,
    RequestCode.DELETE_KV_CONFIG: partial(_of_fields, DeleteKvConfig),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: partial(_of_fields, WipeWritePerm),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: partial(_of_fields, AddWritePerm),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _delete_topic,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: _register_topic,
    RequestCode.RETIRE_BROKER: partial(_of_fields, RetireBroker, fields=_FIELDS_OF_RETIREMENT),
    RequestCode.UPDATE_NAMESRV_CONFIG: _update_namesrv_config,
}
