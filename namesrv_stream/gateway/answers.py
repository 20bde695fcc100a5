"""What the reading requests are answered, out of one snapshot and the settings that were in force with it.

Every answer is encoded once and kept: the same request, from whomever, gets the same bytes with its own opaque. What is
kept belongs to its snapshot and goes with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import msgspec

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
    Header,
    NamespaceHeader,
    header_fields,
    read_header,
)

FAQ_ADDRESS = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"
MAX_KEPT_BYTES = 256 * 1024 * 1024
_BYTES_OF_ANY_ANSWER = 500
"""What the objects around an answer's bytes take."""

K = TypeVar("K")
Reader = Callable[["Answers", RemotingCommand], RemotingCommand]


class KeptAnswer:
    """An encoded answer, and what metrics call it."""

    __slots__ = ("code", "prepared", "result")

    def __init__(self, code: int, answer: RemotingCommand) -> None:
        self.code = code
        self.result = answer.code
        self.prepared = PreparedAnswer(answer)


class KeptAnswers(dict[K, KeptAnswer]):
    """Answers by what was asked. Peers may ask for any number of topics that do not exist: beyond MAX_KEPT_BYTES all
    are let go, and are kept anew as they are asked for."""

    size_bytes = 0

    def keep(self, key: K, key_bytes: int, answer: KeptAnswer) -> None:
        """The answer from now on."""
        more_bytes = key_bytes + answer.prepared.size_bytes + _BYTES_OF_ANY_ANSWER
        if self.size_bytes + more_bytes > MAX_KEPT_BYTES:
            self.clear()
            self.size_bytes = 0
        self[key] = answer
        self.size_bytes += more_bytes


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
        self._kept: KeptAnswers[tuple[int | str | None, ...]] = KeptAnswers()

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
        reading = READERS.get(command.code)
        if reading is None:
            return None
        key = _key(reading, command)
        kept = self._kept.get(key)
        if kept is None:
            kept = self.anew(command)
            self.keep(command, kept)
        return kept

    def is_scan(self, command: RemotingCommand) -> bool:
        """Whether the answer goes through all topics and is not kept yet: `anew` may take a second then."""
        if command.code not in SCANS or _key(READERS[command.code], command) in self._kept:
            return False
        fields = command.ext_fields or {}
        return command.code != RequestCode.GET_TOPICS_BY_CLUSTER or fields.get("cluster") in self.tables.clusters

    def anew(self, command: RemotingCommand) -> KeptAnswer:
        """The answer to a reading request, whether it is kept or not; safe in any thread."""
        return KeptAnswer(command.code, self._answer_anew(READERS[command.code].read, command))

    def keep(self, command: RemotingCommand, answer: KeptAnswer) -> None:
        """Answer this request, and all that ask for the same, with it from now on."""
        key = _key(READERS[command.code], command)
        self._kept.keep(key, sum(len(text) for text in key if isinstance(text, str)), answer)

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

    def _answer_anew(self, read: Reader, command: RemotingCommand) -> RemotingCommand:
        try:
            return read(self, command)
        except BadRequestError as error:
            return command.answer(ResponseCode.SYSTEM_ERROR, error.remark)


# --- one reader a request code


def _route(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    header = read_header(command, GetRouteInfoHeader)
    settings = answers.settings
    if settings.cluster_test:  # M9
        settings = settings.model_copy(update={"order_message_enable": True})
    found = None if header.topic is None else lookup.route(answers.tables, header.topic, settings, header.own_zone)
    if found is None:
        return no_route(command, header.topic)
    return command.answer(body=bodies.encode_body(bodies.topic_route_data(found)))


def no_route(command: RemotingCommand, topic: str | None) -> RemotingCommand:
    """TOPIC_NOT_EXIST, in RocketMQ's words, which some clients look at."""
    remark = (
        f"No topic route info in name server for the topic: {_in_java(topic)}\nSee {FAQ_ADDRESS} for further details."
    )
    return command.answer(ResponseCode.TOPIC_NOT_EXIST, remark)


def _cluster_info(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    return command.answer(body=bodies.encode_body(bodies.cluster_info(lookup.cluster_info(answers.tables))))


def _member_group(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    header = read_header(command, BrokerMemberGroupHeader)
    members = {} if header.broker_name is None else lookup.member_group(answers.tables, header.broker_name)
    group = bodies.BrokerMemberGroup(header.cluster_name, header.broker_name, members)
    body = bodies.encode_body(bodies.GetBrokerMemberGroupResponseBody(group))
    return command.answer(remark="not set any response code", body=body)  # RocketMQ's remark; readers go by the code


def _kv(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    header = read_header(command, GetKvHeader)
    table = _kv_table(answers, header.namespace)
    value = None if table is None or header.key is None else table.get(header.key)
    if value is None:
        remark = f"No config item, Namespace: {_in_java(header.namespace)} Key: {_in_java(header.key)}"
        return command.answer(ResponseCode.QUERY_NOT_FOUND, remark, ext_fields={})
    return command.answer(ext_fields=header_fields(GetKvConfigResponseHeader(value=value)))


def _kv_list(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    namespace = read_header(command, NamespaceHeader).namespace
    table = _kv_table(answers, namespace)
    if table is None:
        return command.answer(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {_in_java(namespace)}")
    return command.answer(body=bodies.encode_body(bodies.KVTable(dict(table))))


def _kv_table(answers: Answers, namespace: str | None) -> Mapping[str, str] | None:
    return None if namespace is None else answers.tables.kv.get(namespace)


def _in_java(said: str | None) -> str:
    """A field as Java puts it into a text."""
    return "null" if said is None else said


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
    cluster = read_header(command, ClusterHeader).cluster
    is_known = cluster is not None and cluster in answers.tables.clusters  # others cost no look at all topics
    return _topic_list(lookup.topics_by_cluster(answers.tables, cluster or "") if is_known else [], command)


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


class Reading(NamedTuple):
    """Who reads a request, and the fields on which its answer depends: others, such as a trace's, do not count."""

    read: Reader
    fields: tuple[str, ...] = ()


def _key(reading: Reading, command: RemotingCommand) -> tuple[int | str | None, ...]:
    """What makes two requests the same."""
    said = command.ext_fields or {}
    return (command.code, *(said.get(name) for name in reading.fields))


def _by(header: type[Header], read: Reader) -> Reading:
    return Reading(read, tuple(field.encode_name for field in msgspec.structs.fields(header)))


READERS: Final[Mapping[int, Reading]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _by(GetRouteInfoHeader, _route),
    RequestCode.GET_BROKER_CLUSTER_INFO: Reading(_cluster_info),
    RequestCode.GET_BROKER_MEMBER_GROUP: _by(BrokerMemberGroupHeader, _member_group),
    RequestCode.GET_KV_CONFIG: _by(GetKvHeader, _kv),
    RequestCode.GET_KVLIST_BY_NAMESPACE: _by(NamespaceHeader, _kv_list),
    RequestCode.GET_NAMESRV_CONFIG: Reading(_config),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Reading(_all_topics),
    RequestCode.GET_TOPICS_BY_CLUSTER: _by(ClusterHeader, _topics_by_cluster),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: Reading(_system_topics),
    RequestCode.GET_UNIT_TOPIC_LIST: Reading(_flagged(lookup.unit_topics)),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: Reading(_flagged(lookup.unit_sub_topics)),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Reading(_flagged(lookup.unit_sub_ununit_topics)),
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
"""What goes through all topics."""
