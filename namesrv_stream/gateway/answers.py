"""Answers to reading requests, from one snapshot and the settings that were in force with it.

Each answer is encoded once and kept. Every request that asks for the same, from any peer, gets the same bytes with its
own opaque. The answers of the next snapshot take over each kept answer that the change does not affect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import msgspec

from namesrv_stream.config import NamesrvSettings, to_properties_text
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.registration import order_topic_config
from namesrv_stream.rules.requests import DataVersion
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire import bodies
from namesrv_stream.wire.codes import RequestCode, ResponseCode, Version
from namesrv_stream.wire.command import PreparedAnswer, RemotingCommand
from namesrv_stream.wire.errors import BadRequestError
from namesrv_stream.wire.headers import (
    BrokerHeader,
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
"""Memory of the objects around an answer's bytes."""

K = TypeVar("K")
Asked = tuple[str | None, ...]
"""The values of a request's fields on which its answer depends."""
Reader = Callable[["Answers", RemotingCommand], RemotingCommand]


class KeptAnswer:
    """An encoded answer, with its request code and its result for the metrics.

    `is_dropped`: a newer snapshot may give another answer, so this one must not be sent any more.
    """

    __slots__ = ("code", "is_dropped", "prepared", "result")

    def __init__(self, code: int, answer: RemotingCommand) -> None:
        self.code = code
        self.result = answer.code
        self.prepared = PreparedAnswer(answer)
        self.is_dropped = False


class KeptAnswers(dict[K, KeptAnswer]):
    """Answers by what was asked.

    Peers may ask for any number of topics that do not exist. So beyond MAX_KEPT_BYTES all answers are forgotten, and
    each is kept again when it is next asked for.
    """

    size_bytes = 0

    def keep(self, key: K, key_bytes: int, answer: KeptAnswer) -> bool:
        """Keep the answer. Return whether all others were forgotten to make room."""
        if key in self:
            self.drop(key, key_bytes)
        more_bytes = key_bytes + answer.prepared.size_bytes + _BYTES_OF_ANY_ANSWER
        is_full = self.size_bytes + more_bytes > MAX_KEPT_BYTES
        if is_full:
            self.let_go()
        self[key] = answer
        self.size_bytes += more_bytes
        return is_full

    def drop(self, key: K, key_bytes: int) -> None:
        """Forget one answer, and mark it as dropped for other dictionaries that have it."""
        dropped = self.pop(key)
        dropped.is_dropped = True
        self.size_bytes -= key_bytes + dropped.prepared.size_bytes + _BYTES_OF_ANY_ANSWER

    def let_go(self) -> None:
        """Forget all answers."""
        self.clear()
        self.size_bytes = 0


class KeptRoutes:
    """Answers to route lookups: `by_fields` of the request, and `by_frame`, the request's bytes.

    Each answer in `by_frame` is in `by_fields` too, or is marked as dropped. So a change reaches both.
    """

    def __init__(self) -> None:
        self.by_fields: KeptAnswers[Asked] = KeptAnswers()
        self.by_frame: KeptAnswers[bytes] = KeptAnswers()
        self._asked: dict[str | None, list[Asked]] = {}

    def keep(self, asked: Asked, answer: KeptAnswer) -> None:
        """Keep the answer to a lookup; its topic is the first field of `asked`."""
        if self.by_fields.keep(asked, _bytes_of(asked), answer):
            self.by_frame.let_go()
            self._asked.clear()
        self._asked.setdefault(asked[0], []).append(asked)

    def drop(self, topics: frozenset[str]) -> None:
        """Drop the answers to lookups of these topics."""
        for topic in topics & self._asked.keys():
            for asked in self._asked.pop(topic):
                self.by_fields.drop(asked, _bytes_of(asked))


class Answers:
    """Answers of one snapshot. Lives in the event loop.

    `epoch`: the snapshot's number, 0 if nothing is published yet. `offsets`: how far the snapshot has read the log, by
    partition.
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
        self.routes = KeptRoutes()
        self._kept: dict[int, KeptAnswers[Asked]] = {}

    @property
    def live(self) -> Mapping[str, LiveRow]:
        """The leases by broker address."""
        return self.tables.live

    def take_over(self, former: Answers, changed_tables: frozenset[str], changed_routes: frozenset[str] | None) -> None:
        """Take the kept answers of `former`, except those that these changes may affect.

        `changed_routes`: topics, None if any route may have changed. `former` loses all its answers, so that it cannot
        add outdated ones.
        """
        routes, kept = former.routes, former._kept
        former.routes, former._kept = KeptRoutes(), {}
        self._kept = {code: each for code, each in kept.items() if changed_tables.isdisjoint(READERS[code].tables)}
        if changed_routes is not None:
            routes.drop(changed_routes)
            self.routes = routes

    def answer(self, command: RemotingCommand) -> KeptAnswer | None:
        """Return the answer to a reading request; None if the request code is not a reading one."""
        reading = READERS.get(command.code)
        if reading is None:
            return None
        kept = self._kept_of(command.code).get(_asked(reading, command))
        if kept is None:
            kept = self.anew(command)
            self.keep(command, kept)
        return kept

    def is_scan(self, command: RemotingCommand) -> bool:
        """Return whether the answer has to read all topics and is not kept yet. Then `anew` may take a second."""
        if command.code not in SCANS or _asked(READERS[command.code], command) in self._kept_of(command.code):
            return False
        fields = command.ext_fields or {}
        return command.code != RequestCode.GET_TOPICS_BY_CLUSTER or fields.get("cluster") in self.tables.clusters

    def anew(self, command: RemotingCommand) -> KeptAnswer:
        """Return a newly encoded answer to a reading request, even if one is kept. Safe in any thread."""
        return KeptAnswer(command.code, self._answer_anew(READERS[command.code].read, command))

    def keep(self, command: RemotingCommand, answer: KeptAnswer) -> None:
        """Keep the answer for this request and for all requests that ask for the same."""
        asked = _asked(READERS[command.code], command)
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            self.routes.keep(asked, answer)
        else:
            self._kept_of(command.code).keep(asked, _bytes_of(asked), answer)

    def _kept_of(self, code: int) -> KeptAnswers[Asked]:
        if code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self.routes.by_fields
        return self._kept.setdefault(code, KeptAnswers())

    @property
    def topics_go(self) -> bool:
        """True if a registration removes the broker's topics that it does not name (T5)."""
        return self.settings.delete_topic_with_broker_registration

    def is_changed(self, asking: BrokerHeader, version: DataVersion) -> bool:
        """Return whether the broker has to register, which QUERY_DATA_VERSION answers as `changed` (M8).

        It also has to register if its lease has another name, id or cluster than the request.
        """
        lease = self.live.get(asking.broker_addr)
        if lease is None or lookup.is_version_changed(self.tables, asking.broker_addr, version):
            return True
        named = (asking.cluster_name, asking.broker_name, asking.broker_id)
        return any(each not in (None, own) for each, own in zip(named, lease[1:4], strict=True))

    def topic_count(self, broker_name: str) -> int:
        """Return the number of topics that have queues on a broker name. 205 and 327 report it."""
        return self.tables.queues.topic_counts.get(broker_name, 0)

    @cached_property
    def order_table(self) -> bytes:
        """The body of a registration's answer (R13)."""
        table = order_topic_config(self.tables, self.settings)
        return b"" if table is None else bodies.encode_body(bodies.KVTable(dict(table)))

    @cached_property
    def to_master(self) -> KeptAnswer:
        """The answer to a master's registration: it names no master."""
        request = RemotingCommand(code=RequestCode.REGISTER_BROKER)
        return KeptAnswer(request.code, request.answer(ext_fields={}, body=self.order_table))

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
    return command.answer(body=_with_ids(bodies.topic_route_data(found), command))


def no_route(command: RemotingCommand, topic: str | None) -> RemotingCommand:
    """Return the answer TOPIC_NOT_EXIST, with RocketMQ's own remark, which some clients read."""
    remark = (
        f"No topic route info in name server for the topic: {_in_java(topic)}\nSee {FAQ_ADDRESS} for further details."
    )
    return command.answer(ResponseCode.TOPIC_NOT_EXIST, remark)


def _cluster_info(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    return command.answer(body=_with_ids(bodies.cluster_info(lookup.cluster_info(answers.tables)), command))


def _member_group(answers: Answers, command: RemotingCommand) -> RemotingCommand:
    header = read_header(command, BrokerMemberGroupHeader)
    members = {} if header.broker_name is None else lookup.member_group(answers.tables, header.broker_name)
    group = bodies.BrokerMemberGroup(header.cluster_name, header.broker_name, members)
    body = _with_ids(bodies.GetBrokerMemberGroupResponseBody(group), command)
    return command.answer(remark="not set any response code", body=body)  # RocketMQ's remark; clients look at the code


def _with_ids(
    body: bodies.TopicRouteData | bodies.ClusterInfo | bodies.GetBrokerMemberGroupResponseBody, command: RemotingCommand
) -> bytes:
    """Encode a body whose keys are broker ids, in the form that the asking client reads."""
    return bodies.encode_body(body, bare_integer_keys=not _takes_standard_json(command))


def _takes_standard_json(command: RemotingCommand) -> bool:
    """Return whether the client reads integer keys in quotes: from 4.9.4 on, or if its request states it."""
    accepts = (command.ext_fields or {}).get("acceptStandardJsonOnly", "")
    return command.version >= Version.V4_9_4 or accepts.lower() == "true"


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


def _in_java(field: str | None) -> str:
    """Return a field as Java formats it in a text."""
    return "null" if field is None else field


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
    is_known = cluster is not None and cluster in answers.tables.clusters  # an unknown one costs no search of topics
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
    """The function that answers a request code, and the fields and tables on which the answer depends.

    Other fields of a request, such as a trace's, do not change its answer. `has_integer_keys`: the answer depends on
    the client's release too, which decides how broker ids are written.
    """

    read: Reader
    fields: tuple[str, ...]
    tables: frozenset[str]
    has_integer_keys: bool = False


def _by(header: type[Header], read: Reader, tables: str, *, has_integer_keys: bool = False) -> Reading:
    fields = tuple(field.encode_name for field in msgspec.structs.fields(header))
    return Reading(read, fields, _SETTINGS | {*tables.split()}, has_integer_keys)


def _whole(read: Reader, tables: str = "", *, has_integer_keys: bool = False) -> Reading:
    return Reading(read, (), _SETTINGS | {*tables.split()}, has_integer_keys)


_SETTINGS = frozenset({"namesrv_config"})
"""A changed setting may change any answer."""

READERS: Final[Mapping[int, Reading]] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _by(
        GetRouteInfoHeader, _route, "topic broker filter kv_config topic_mapping", has_integer_keys=True
    ),
    RequestCode.GET_BROKER_CLUSTER_INFO: _whole(_cluster_info, "broker cluster", has_integer_keys=True),
    RequestCode.GET_BROKER_MEMBER_GROUP: _by(BrokerMemberGroupHeader, _member_group, "broker", has_integer_keys=True),
    RequestCode.GET_KV_CONFIG: _by(GetKvHeader, _kv, "kv_config"),
    RequestCode.GET_KVLIST_BY_NAMESPACE: _by(NamespaceHeader, _kv_list, "kv_config"),
    RequestCode.GET_NAMESRV_CONFIG: _whole(_config),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _whole(_all_topics, "topic"),
    RequestCode.GET_TOPICS_BY_CLUSTER: _by(ClusterHeader, _topics_by_cluster, "topic cluster"),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _whole(_system_topics, "broker cluster"),
    RequestCode.GET_UNIT_TOPIC_LIST: _whole(_flagged(lookup.unit_topics), "topic"),
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _whole(_flagged(lookup.unit_sub_topics), "topic"),
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _whole(_flagged(lookup.unit_sub_ununit_topics), "topic"),
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


def _asked(reading: Reading, command: RemotingCommand) -> Asked:
    """Return the values that two requests of one code share if they get the same answer."""
    fields = command.ext_fields or {}
    texts = [fields.get(name) for name in reading.fields]
    if reading.has_integer_keys and not _takes_standard_json(command):
        texts.append("integer keys without quotes")
    return tuple(texts)


def _bytes_of(asked: Asked) -> int:
    return sum(len(text) for text in asked if text)
