"""Readers of lookups, one for each reading request code: it decodes the request, looks up the answer and encodes it.

`READERS` also names the fields and the tables on which each answer depends. The rules of the answers (M1 to M9) are in
`rules/lookup.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from namesrv_stream.config import NamesrvSettings, to_properties_text
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import ClusterInfo, RouteTables, TopicRouteData
from namesrv_stream.wire import bodies
from namesrv_stream.wire.codes import RequestCode, ResponseCode, Version
from namesrv_stream.wire.headers import GetRouteInfoHeader, read_header
from namesrv_stream.wire.remoting_command import RemotingCommand

FAQ_ADDRESS = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"


Asked = tuple[str | None, ...]
"""The values of a request's fields on which its answer depends."""


class Source(NamedTuple):
    """The basis of an answer: the tables of one snapshot, and the settings that were in force with it."""

    tables: RouteTables
    settings: NamesrvSettings


Reader = Callable[[Source, RemotingCommand], RemotingCommand]


def _route(source: Source, command: RemotingCommand) -> RemotingCommand:
    header = read_header(command, GetRouteInfoHeader)
    settings = source.settings
    if settings.cluster_test:  # M9
        settings = settings.model_copy(update={"order_message_enable": True})
    found = None if header.topic is None else lookup.route(source.tables, header.topic, settings, header.own_zone)
    if found is None:
        return no_route(command, header.topic)
    return command.answer(body=_with_ids(found, command))


def no_route(command: RemotingCommand, topic: str | None) -> RemotingCommand:
    """Return the answer TOPIC_NOT_EXIST, with RocketMQ's own remark, which some clients read."""
    remark = (
        f"No topic route info in name server for the topic: {_in_java(topic)}\nSee {FAQ_ADDRESS} for further details."
    )
    return command.answer(ResponseCode.TOPIC_NOT_EXIST, remark)


def _cluster_info(source: Source, command: RemotingCommand) -> RemotingCommand:
    return command.answer(body=_with_ids(lookup.cluster_info(source.tables), command))


def _member_group(source: Source, command: RemotingCommand) -> RemotingCommand:
    name = _field(command, "brokerName")
    members = {} if name is None else lookup.member_group(source.tables, name)
    group = bodies.BrokerMemberGroup(_field(command, "clusterName"), name, members)
    body = _with_ids(bodies.GetBrokerMemberGroupResponseBody(group), command)
    return command.answer(remark="not set any response code", body=body)  # RocketMQ's remark; clients look at the code


def _with_ids(
    body: TopicRouteData | ClusterInfo | bodies.GetBrokerMemberGroupResponseBody, command: RemotingCommand
) -> bytes:
    """Encode a body whose keys are broker ids, in the form that the asking client reads."""
    text = bodies.encode_body(body, bare_integer_keys=not _takes_standard_json(command))
    return bodies.with_former_flag(text) if command.version < Version.V4_9_0 else text


def _takes_standard_json(command: RemotingCommand) -> bool:
    """Return whether the client reads integer keys in quotes: from 4.9.4 on, or if its request states it."""
    accepts = (command.ext_fields or {}).get("acceptStandardJsonOnly", "")
    return command.version >= Version.V4_9_4 or accepts.lower() == "true"


def _kv(source: Source, command: RemotingCommand) -> RemotingCommand:
    namespace, key = _field(command, "namespace"), _field(command, "key")
    table = {} if namespace is None else source.tables.kv.get(namespace, {})
    value = None if key is None else table.get(key)
    if value is None:
        remark = f"No config item, Namespace: {_in_java(namespace)} Key: {_in_java(key)}"
        return command.answer(ResponseCode.QUERY_NOT_FOUND, remark, ext_fields={})
    return command.answer(ext_fields={"value": value})


def _kv_list(source: Source, command: RemotingCommand) -> RemotingCommand:
    namespace = _field(command, "namespace")
    table = None if namespace is None else source.tables.kv.get(namespace)
    if table is None:
        return command.answer(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {_in_java(namespace)}")
    return command.answer(body=bodies.encode_body(bodies.KVTable(dict(table))))


def _field(command: RemotingCommand, name: str) -> str | None:
    return (command.ext_fields or {}).get(name)


def _in_java(field: str | None) -> str:
    """Return a field as Java formats it in a text."""
    return "null" if field is None else field


def _config(source: Source, command: RemotingCommand) -> RemotingCommand:
    return command.answer(body=to_properties_text(source.settings).encode())


def _topic_list(topics: list[str], command: RemotingCommand, broker_addr: str | None = None) -> RemotingCommand:
    return command.answer(body=bodies.encode_body(bodies.TopicList(topics, broker_addr)))


def _all_topics(source: Source, command: RemotingCommand) -> RemotingCommand:
    if not source.settings.enable_all_topic_list:
        return command.answer(ResponseCode.SYSTEM_ERROR, "disable")
    return _topic_list(lookup.topic_list(source.tables), command)


def _topics_by_cluster(source: Source, command: RemotingCommand) -> RemotingCommand:
    if not source.settings.enable_topic_list:
        return command.answer(ResponseCode.SYSTEM_ERROR, "disable")
    cluster = _field(command, "cluster")
    is_known = cluster is not None and cluster in source.tables.clusters  # an unknown cluster needs no search of topics
    return _topic_list(lookup.topics_by_cluster(source.tables, cluster or "") if is_known else [], command)


def _system_topics(source: Source, command: RemotingCommand) -> RemotingCommand:
    holders = (row for group in source.tables.brokers.values() for row in group.values())
    some = next(holders, None)
    return _topic_list(lookup.system_topics(source.tables), command, some.broker_addr if some else None)


def _flagged(topics: Callable[[RouteTables], list[str]]) -> Reader:
    def read(source: Source, command: RemotingCommand) -> RemotingCommand:
        if not source.settings.enable_topic_list:
            return command.answer(ResponseCode.SYSTEM_ERROR, "disable")
        return _topic_list(topics(source.tables), command)

    return read


class Reading(NamedTuple):
    """The function that answers a request code, and the fields and tables on which the answer depends.

    Other fields of a request, such as a trace's, do not change its answer. `has_integer_keys`: the answer also depends
    on the client's release, which decides how broker ids are written.
    """

    read: Reader
    fields: tuple[str, ...]
    tables: frozenset[str]
    has_integer_keys: bool = False

    def asked(self, command: RemotingCommand) -> Asked:
        """Return the values that two requests of this code share if they get the same answer."""
        fields = command.ext_fields or {}
        texts = [fields.get(name) for name in self.fields]
        if self.has_integer_keys and not _takes_standard_json(command):
            texts.append("integer keys without quotes")
        if self.has_integer_keys and command.version < Version.V4_9_0:
            texts.append("topicSynFlag")
        return tuple(texts)


def _reading(read: Reader, tables: str = "", fields: str = "", *, has_integer_keys: bool = False) -> Reading:
    """Return a Reading. A changed setting may change any answer."""
    return Reading(read, tuple(fields.split()), frozenset({"namesrv_config", *tables.split()}), has_integer_keys)


_ROUTE_FIELDS = " ".join(field.encode_name for field in msgspec.structs.fields(GetRouteInfoHeader))
_ROUTE_TABLES = "topic broker filter kv_config topic_mapping"

READERS: Final[Mapping[int, Reading]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _reading(_route, _ROUTE_TABLES, _ROUTE_FIELDS, has_integer_keys=True),
    RequestCode.GET_BROKER_CLUSTER_INFO: _reading(_cluster_info, "broker cluster", has_integer_keys=True),
    RequestCode.GET_BROKER_MEMBER_GROUP: _reading(
        _member_group, "broker", "clusterName brokerName", has_integer_keys=True
    ),
    RequestCode.GET_KV_CONFIG: _reading(_kv, "kv_config", "namespace key"),
    RequestCode.GET_KVLIST_BY_NAMESPACE: _reading(_kv_list, "kv_config", "namespace"),
    RequestCode.GET_NAMESRV_CONFIG: _reading(_config),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _reading(_all_topics, "topic"),
    RequestCode.GET_TOPICS_BY_CLUSTER: _reading(_topics_by_cluster, "topic cluster", "cluster"),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _reading(_system_topics, "broker cluster"),
    RequestCode.GET_UNIT_TOPIC_LIST: _reading(_flagged(lookup.unit_topics), "topic"),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _reading(_flagged(lookup.unit_sub_topics), "topic"),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _reading(_flagged(lookup.unit_sub_ununit_topics), "topic"),
}

SCANS = frozenset(
    {
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    }
)
"""Request codes whose answers read all topics."""
