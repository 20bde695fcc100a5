"""What the reading requests are answered, out of one snapshot and the settings that were in force with it.

Every answer is encoded once and kept: the same request, from whomever, gets the same bytes with its own opaque. What is
kept belongs to its snapshot and goes with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final

from namesrv_stream.config import NamesrvSettings, to_properties_text
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE, RouteTables
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire import bodies
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.command import PreparedAnswer, RemotingCommand
from namesrv_stream.wire.errors import BadRequestError
from namesrv_stream.wire.headers import (
    BrokerMemberGroupHeader,
    ClusterHeader,
    GetKvConfigResponseHeader,
    GetKvHeader,
    GetRouteInfoHeader,
    NamespaceHeader,
    header_fields,
    read_header,
)

FAQ_ADDRESS = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"
MAX_KEPT_ANSWERS = 50_000
"""Peers may ask for any number of topics that do not exist: what is kept of it starts anew beyond this."""

Reader = Callable[["Answers", RemotingCommand], RemotingCommand]


class KeptAnswer:
    """An encoded answer, and what metrics call it."""

    __slots__ = ("code", "prepared", "result")

    def __init__(self, code: int, answer: RemotingCommand) -> None:
        self.code = code
        self.result = answer.code
        self.prepared = PreparedAnswer(answer)


class Answers:
    """Answers of one snapshot, for the event loop alone.

    `epoch` is its number, 0 where nothing is published yet; `offsets`: how far it has read the log, by partition.
    """

    def __init__(
        self,
        tables: RouteTables,
        settings: NamesrvSettings,
        epoch: int = 0,
        offsets: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self.tables = tables
        self.settings = settings
        self.epoch = epoch
        self.offsets = offsets
        self._kept: dict[object, KeptAnswer] = {}

    @property
    def live(self) -> Mapping[str, LiveRow]:
        """The leases by broker address."""
        return self.tables.live

    def take_over(self, former: Answers) -> None:
        """Keeps what `former` has encoded: for a snapshot that differs in signs of life alone, which no answer here
        speaks of."""
        self._kept = former._kept

    def answer(self, command: RemotingCommand) -> KeptAnswer | None:
        """The answer to a reading request; None for a request code that is no such."""
        fields = command.ext_fields
        key = (command.code, *fields.items()) if fields else command.code
        kept = self._kept.get(key)
        return kept if kept is not None else self._answer_anew(key, command)

    def topic_count(self, broker_name: str) -> int:
        """How many topics have queues on a broker name: what 205 and 327 report."""
        return self._topic_counts[broker_name]

    @cached_property
    def order_table(self) -> bytes:
        """The body of a registration's answer (R13)."""
        table = self.tables.kv.get(ORDER_TOPIC_NAMESPACE)
        if table is None or not self.settings.return_order_topic_config_to_broker:
            return b""
        return bodies.encode_body(bodies.KVTable(dict(table)))

    @cached_property
    def to_master(self) -> KeptAnswer:
        """What a registration without a master above it is answered."""
        request = RemotingCommand(code=RequestCode.REGISTER_BROKER)
        return KeptAnswer(request.code, request.answer(ext_fields={}, body=self.order_table))

    @cached_property
    def _topic_counts(self) -> Counter[str]:
        return Counter(row.broker_name for rows in self.tables.queues.values() for row in rows)

    def _answer_anew(self, key: object, command: RemotingCommand) -> KeptAnswer | None:
        read = READERS.get(command.code)
        if read is None:
            return None
        try:
            answer = read(self, command)
        except BadRequestError as error:
            answer = command.answer(ResponseCode.SYSTEM_ERROR, error.remark)
        if len(self._kept) >= MAX_KEPT_ANSWERS:
            self._kept.clear()
        kept = self._kept[key] = KeptAnswer(command.code, answer)
        return kept


# --- one reader a request code


def _route(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    header = read_header(command, GetRouteInfoHeader)
    settings = answers.settings
    if settings.cluster_test:  # M9
        settings = settings.model_copy(update={"order_message_enable": True})
    found = lookup.route(answers.tables, str(header.topic), settings, header.own_zone)
    if found is None:
        return no_route(command, str(header.topic))
    return command.answer(body=bodies.encode_body(bodies.topic_route_data(found)))


def no_route(command: RemotingCommand, topic: str) -> RemotingCommand:
    """TOPIC_NOT_EXIST, in RocketMQ's words, which some clients look at."""
    remark = f"No topic route info in name server for the topic: {topic}\nSee {FAQ_ADDRESS} for further details."
    return command.answer(ResponseCode.TOPIC_NOT_EXIST, remark)


def _cluster_info(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    return command.answer(body=bodies.encode_body(bodies.cluster_info(lookup.cluster_info(answers.tables))))


def _member_group(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    header = read_header(command, BrokerMemberGroupHeader)
    name = str(header.broker_name)
    group = bodies.BrokerMemberGroup(str(header.cluster_name), name, lookup.member_group(answers.tables, name))
    body = bodies.encode_body(bodies.GetBrokerMemberGroupResponseBody(group))
    return command.answer(remark="not set any response code", body=body)  # RocketMQ's remark; readers go by the code


def _kv(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    header = read_header(command, GetKvHeader)
    value = answers.tables.kv.get(str(header.namespace), {}).get(str(header.key))
    if value is None:
        remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
        return command.answer(ResponseCode.QUERY_NOT_FOUND, remark, ext_fields={})
    return command.answer(ext_fields=header_fields(GetKvConfigResponseHeader(value=value)))


def _kv_list(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    namespace = read_header(command, NamespaceHeader).namespace
    table = answers.tables.kv.get(str(namespace))
    if table is None:
        return command.answer(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace}")
    return command.answer(body=bodies.encode_body(bodies.KVTable(dict(table))))


def _config(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    return command.answer(body=to_properties_text(answers.settings).encode())


def _topic_list(topics: list[str], command: RemotingCommand, broker_addr: str | None = None) -> RemotingCommand:
    return command.answer(body=bodies.encode_body(bodies.TopicList(topics, broker_addr)))


def _all_topics(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    if not answers.settings.enable_all_topic_list:
        return command.answer(ResponseCode.SYSTEM_ERROR, "disable")
    return _topic_list(lookup.topic_list(answers.tables), command)


def _topics_by_cluster(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    if not answers.settings.enable_topic_list:
        return command.answer(ResponseCode.SYSTEM_ERROR, "disable")
    cluster = str(read_header(command, ClusterHeader).cluster)
    return _topic_list(lookup.topics_by_cluster(answers.tables, cluster), command)


def _system_topics(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    holders = (row for group in answers.tables.brokers.values() for row in group.values())
    some = next(holders, None)
    return _topic_list(lookup.system_topics(answers.tables), command, some.broker_addr if some else None)


def _flagged(topics: Callable[[RouteTables], list[str]]) -> Reader:
    def read(answers: Answers, command: RemotingCommand) -> RemotingCommand:
        if not answers.settings.enable_topic_list:
            return command.answer(ResponseCode.SYSTEM_ERROR, "disable")
        return _topic_list(topics(answers.tables), command)

    return read


READERS: Final[Mapping[int, Reader]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route,
    RequestCode.GET_BROKER_CLUSTER_INFO: _cluster_info,
    RequestCode.GET_BROKER_MEMBER_GROUP: _member_group,
    RequestCode.GET_KV_CONFIG: _kv,
    RequestCode.GET_KVLIST_BY_NAMESPACE: _kv_list,
    RequestCode.GET_NAMESRV_CONFIG: _config,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _all_topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: _topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: _flagged(lookup.unit_topics),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _flagged(lookup.unit_sub_topics),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _flagged(lookup.unit_sub_ununit_topics),
}
