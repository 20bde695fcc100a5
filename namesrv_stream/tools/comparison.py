"""Compare a name server's answers with those of this registry, during a migration.

The name server's answers come over a socket. The registry's are those that a gateway gives from one snapshot.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import msgspec

from namesrv_stream.errors import BadRequestError, FrameError, NamesrvError
from namesrv_stream.gateway.readers import READERS, Source
from namesrv_stream.reporting.texts import listed
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.wire.codes import RequestCode, ResponseCode, Version
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.json_text import decode_json
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

_LIMIT_S = 10.0
_CHUNK_BYTES = 1 << 18
_MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Limit of one answer. It is more than a gateway accepts, because one answer has the whole cluster of an
installation."""
_any_decoder = msgspec.json.Decoder()
_ABSENT = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND})
_LISTS = {
    "system topics": RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    "unit topics": RequestCode.GET_UNIT_TOPIC_LIST,
    "topics with unit subscriptions": RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    "topics with unit subscriptions, without the unit flag": RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
}
_ARBITRARY = frozenset({"brokerAddr"})
"""Fields in which any one of several values is right. They are not compared."""
_KEYS = {"queueDatas": "brokerName", "brokerDatas": "brokerName"}
"""Lists of objects whose order has no meaning -> the field by which an object is found in both."""
_SETS = frozenset({"topicList"})


class SideAnswer(NamedTuple):
    """An answer. `value`: its JSON body, None if nothing has that name. `refusal`: the reason of an error."""

    value: Any
    refusal: str = ""


class Tables:
    """The registry's own tables: what a gateway answers from one snapshot."""

    def __init__(self, registry: RegistryAt) -> None:
        self.routes = registry.routes
        self._source = Source(registry.routes, registry.settings)

    def ask(self, code: RequestCode, **fields: str) -> SideAnswer:
        """Return the answer to a reading request."""
        return _answered(READERS[code].read(self._source, _request(code, 0, fields)))


class Namesrv:
    """A name server at `host:port`, over one connection that is open within the `with`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._opaque = 0
        self._decoder = FrameDecoder(_MAX_FRAME_BYTES)

    def __enter__(self) -> Self:
        host, _, port = self.address.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=_LIMIT_S)
        except (OSError, ValueError) as error:
            raise self._silent(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, code: RequestCode, **fields: str) -> SideAnswer:
        """Return the answer to a reading request. Raises NamesrvError."""
        self._opaque += 1
        try:
            self._socket.sendall(encode_command(_request(code, self._opaque, fields)))
            return _answered(self._received())
        except (OSError, EOFError, FrameError, BadRequestError) as error:
            raise self._silent(error) from error

    def _received(self) -> RemotingCommand:
        while True:
            data = self._socket.recv(_CHUNK_BYTES)
            if not data:
                raise EOFError("it closed the connection")
            for command in self._decoder.feed(data):
                if command.opaque == self._opaque:
                    return command

    def _silent(self, problem: Exception) -> NamesrvError:
        return NamesrvError(
            f"cannot reach the NameServer at {self.address}: {problem}. Check -n HOST:PORT. A NameServer that accepts "
            "only TLS cannot be compared."
        )


Side = Tables | Namesrv


def _request(code: RequestCode, opaque: int, fields: dict[str, str]) -> RemotingCommand:
    return RemotingCommand(code=code, opaque=opaque, version=Version.V5_4_0, ext_fields=fields or None)


def _answered(command: RemotingCommand) -> SideAnswer:
    if command.code in _ABSENT:
        return SideAnswer(None)
    if command.code != ResponseCode.SUCCESS:
        return SideAnswer(None, command.remark or f"result code {command.code}")
    return SideAnswer(decode_json(command.body, _any_decoder, "answer") if command.body else None)


class Lookup(NamedTuple):
    """A reading request, and its name in the report."""

    name: str
    code: RequestCode
    fields: dict[str, str] = {}  # noqa: RUF012  # never changed


class AnswerDifference(NamedTuple):
    """One place at which two answers differ. `ours` or `theirs` is None if that side lacks it."""

    question: str
    place: str
    ours: Any
    theirs: Any


class Compared(NamedTuple):
    """Result of a comparison.

    `compared`: how many answers both sides gave. `refused`: the questions that both sides refused, with the reasons.
    """

    compared: int
    differences: list[AnswerDifference]
    refused: dict[str, str]


def compare(ours: Side, theirs: Side, namespaces: Collection[str], topics: Collection[str]) -> Compared:
    """Ask both sides for every cluster and list, the KV namespaces of `namespaces`, and the route of every topic.

    The topics are those of `topics` and those that either side lists, so routes are compared even if both sides refuse
    the lists of topics. If only one side refuses a question, that is a difference. A name server cannot list its
    namespaces, so a namespace that only it has is not found.
    """
    compared, found, refused = 0, list[AnswerDifference](), dict[str, str]()
    for question in _questions(ours, theirs, namespaces, topics):
        mine, yours = (side.ask(question.code, **question.fields) for side in (ours, theirs))
        if mine.refusal and yours.refusal:
            refused[question.name] = listed(list(dict.fromkeys([mine.refusal, yours.refusal])))
            continue
        compared += 1
        if mine.refusal or yours.refusal:
            found.append(
                AnswerDifference(question.name, "answer", _refused_or_answered(mine), _refused_or_answered(yours))
            )
        else:
            found.extend(differences(question.name, _shown(mine.value), _shown(yours.value)))
    return Compared(compared, found, refused)


def _refused_or_answered(answered: SideAnswer) -> str:
    return f"rejected: {answered.refusal}" if answered.refusal else "answered"


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key not in _ARBITRARY}
    return value


def _questions(ours: Side, theirs: Side, namespaces: Iterable[str], topics: Iterable[str]) -> Iterator[Lookup]:
    all_topics = Lookup("topics", RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    clusters = Lookup("clusters", RequestCode.GET_BROKER_CLUSTER_INFO)
    of_clusters = [
        Lookup(f"topics of {cluster}", RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
        for cluster in _names(ours, theirs, [clusters], "clusterAddrTable")
    ]
    yield from (all_topics, clusters, *(Lookup(name, code) for name, code in _LISTS.items()), *of_clusters)
    for namespace in sorted({ORDER_TOPIC_NAMESPACE, *namespaces}):
        yield Lookup(f"KV {namespace}", RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
    for topic in sorted({*topics, *_names(ours, theirs, [all_topics, *of_clusters], "topicList")}):
        yield Lookup(f"route of {topic}", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})


def _names(ours: Side, theirs: Side, lists: Iterable[Lookup], field: str) -> list[str]:
    """Return the names in the answers of both sides to `lists`. A side that refuses adds none."""
    answers = [side.ask(each.code, **each.fields).value or {} for each in lists for side in (ours, theirs)]
    return sorted({name for answer in answers for name in answer.get(field) or ()})


def differences(question: str, ours: Any, theirs: Any) -> Iterator[AnswerDifference]:
    """Yield the places at which two answers, as JSON values, differ. The order of queues and groups does not count."""
    yield from _compared(question, "", _normal("", ours), _normal("", theirs))


def _compared(question: str, place: str, ours: Any, theirs: Any) -> Iterator[AnswerDifference]:
    if ours == theirs:
        return
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from _compared(question, f"{place}.{key}".lstrip("."), ours.get(key), theirs.get(key))
        return
    yield AnswerDifference(question, place, ours, theirs)


def _normal(name: str, value: Any) -> Any:
    """Return the value with lists that have no order as dicts by their key, and without empty fields."""
    if isinstance(value, Mapping):
        named = {str(key): _normal(str(key), each) for key, each in value.items()}
        return {key: each for key, each in named.items() if not _may_be_left_out(each)}
    if isinstance(value, list) and name in _KEYS:
        by_key = {each[_KEYS[name]]: each for each in value}
        return {key: _normal("", {k: v for k, v in each.items() if k != _KEYS[name]}) for key, each in by_key.items()}
    if isinstance(value, list) and name in _SETS:
        return dict.fromkeys(sorted(value), "listed")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return sorted(value)
    return value


def _may_be_left_out(value: Any) -> bool:
    """Return whether one release of RocketMQ writes this value and another one leaves the field out."""
    return value is False or value in (None, "", {}, [])
