"""Ask two sides the same questions, and collect what differs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE
from namesrv_stream.tools.comparison.difference import Difference, differences
from namesrv_stream.tools.comparison.sides import Answered, Side
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
    """Result of a comparison.

    `compared`: how many answers both sides gave. `refused`: the questions that both sides refused, with the reasons.
    """

    compared: int
    differences: list[Difference]
    refused: dict[str, str]


def compare(ours: Side, theirs: Side, namespaces: Collection[str], topics: Collection[str]) -> Compared:
    """Ask both sides for every cluster and list, the KV namespaces of `namespaces`, and the route of every topic.

    The topics are those of `topics` and those that either side lists, so routes are compared even if both sides refuse
    the lists of topics. A question that one side alone refuses is a difference. A name server cannot list its
    namespaces, so a namespace that it alone has is not found.
    """
    compared, found, refused = 0, list[Difference](), dict[str, str]()
    for question in _questions(ours, theirs, namespaces, topics):
        mine, yours = (side.ask(question.code, **question.fields) for side in (ours, theirs))
        if mine.refusal and yours.refusal:
            refused[question.name] = " and ".join(dict.fromkeys([mine.refusal, yours.refusal]))
            continue
        compared += 1
        if mine.refusal or yours.refusal:
            found.append(Difference(question.name, "answer", _refused_or_answered(mine), _refused_or_answered(yours)))
        else:
            found.extend(differences(question.name, _shown(mine.value), _shown(yours.value)))
    return Compared(compared, found, refused)


def _refused_or_answered(answered: Answered) -> str:
    return f"refused: {answered.refusal}" if answered.refusal else "answered"


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key not in _ARBITRARY}
    return value


def _questions(ours: Side, theirs: Side, namespaces: Iterable[str], topics: Iterable[str]) -> Iterator[Question]:
    all_topics = Question("topics", RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    clusters = Question("clusters", RequestCode.GET_BROKER_CLUSTER_INFO)
    of_clusters = [
        Question(f"topics of {cluster}", RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
        for cluster in _names(ours, theirs, [clusters], "clusterAddrTable")
    ]
    yield from (all_topics, clusters, *(Question(name, code) for name, code in _LISTS.items()), *of_clusters)
    for namespace in sorted({ORDER_TOPIC_NAMESPACE, *namespaces}):
        yield Question(f"KV {namespace}", RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": namespace})
    for topic in sorted({*topics, *_names(ours, theirs, [all_topics, *of_clusters], "topicList")}):
        yield Question(f"route of {topic}", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})


def _names(ours: Side, theirs: Side, lists: Iterable[Question], field: str) -> list[str]:
    """Return the names in the answers of both sides to `lists`. A side that refuses adds none."""
    answers = [side.ask(each.code, **each.fields).value or {} for each in lists for side in (ours, theirs)]
    return sorted({name for answer in answers for name in answer.get(field) or ()})
