"""Ask two sides the same questions, and collect what differs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from namesrv_stream.comparison.difference import Difference, differences
from namesrv_stream.comparison.sides import Side
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE
from namesrv_stream.wire.codes import RequestCode

_LISTS = {
    "system topics": RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    "unit topics": RequestCode.GET_UNIT_TOPIC_LIST,
    "topics with unit subscriptions": RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    "topics with unit subscriptions, without the unit flag": RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
}
_ARBITRARY = frozenset({"brokerAddr"})
"""Fields that a name server fills with any one of several right values."""


class Question(NamedTuple):
    """A reading request, and its name in the report."""

    name: str
    code: RequestCode
    fields: dict[str, str] = {}  # noqa: RUF012  # never changed


class Compared(NamedTuple):
    """Result of a comparison. `refused`: questions that one side did not answer, with its reason."""

    asked: int
    differences: list[Difference]
    refused: dict[str, str]


def compare(ours: Side, theirs: Side, namespaces: Collection[str]) -> Compared:
    """Ask both sides for every topic, cluster and list, and for the KV namespaces of `namespaces`.

    A name server cannot list its namespaces, so a namespace that it alone has is not found.
    """
    result = Compared(0, [], {})
    for question in _questions(ours, theirs, namespaces):
        result = result._replace(asked=result.asked + 1)
        mine, yours = (side.ask(question.code, **question.fields) for side in (ours, theirs))
        if mine.refusal or yours.refusal:
            if mine.refusal != yours.refusal:
                result.refused[question.name] = mine.refusal or yours.refusal
            continue
        result.differences.extend(differences(question.name, _shown(mine.value), _shown(yours.value)))
    return result


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key not in _ARBITRARY}
    return value


def _questions(ours: Side, theirs: Side, namespaces: Iterable[str]) -> Iterator[Question]:
    yield Question("topics", RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    yield Question("clusters", RequestCode.GET_BROKER_CLUSTER_INFO)
    yield from (Question(name, code) for name, code in _LISTS.items())
    for cluster in _names(ours, theirs, RequestCode.GET_BROKER_CLUSTER_INFO, "clusterAddrTable"):
        yield Question(f"topics of {cluster}", RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
    for namespace in sorted({ORDER_TOPIC_NAMESPACE, *namespaces}):
        yield Question(f"KV {namespace}", RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
    for topic in _names(ours, theirs, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, "topicList"):
        yield Question(f"route of {topic}", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})


def _names(ours: Side, theirs: Side, code: RequestCode, field: str) -> list[str]:
    """Return the names that either side lists. A side that does not answer has none."""
    return sorted({name for side in (ours, theirs) for name in (side.ask(code).value or {}).get(field) or ()})
