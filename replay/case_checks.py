"""Answer the checks of a case: tables and lookups in the columns, names and times of the cases.

The gateway's own code answers the lookups; its frames are decoded into the cases' form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import BrokerData, ClusterInfo, RouteTables, TopicRouteData, waits_for_service
from namesrv_stream.rules.record_types import DataVersion, QueueData
from namesrv_stream.rules.rows import LiveRow, TopicRow
from namesrv_stream.wire import bodies
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.remoting_command import RemotingCommand, decode_command

Json = dict[str, Any]


def queue_json(queue: QueueData | TopicRow) -> Json:
    """Return the queues of a topic on one broker name."""
    return {
        "brokerName": queue.broker_name,
        "readQueueNums": queue.read_queue_nums,
        "writeQueueNums": queue.write_queue_nums,
        "perm": queue.perm,
        "topicSysFlag": queue.topic_sys_flag,
    }


def _group(group: BrokerData) -> Json:
    return {
        "brokerName": group.broker_name,
        "cluster": group.cluster,
        "zoneName": group.zone_name,
        "enableActingMaster": group.enable_acting_master,
        "addrs": {str(broker_id): address for broker_id, address in group.broker_addrs.items()},
    }


def wire_version(version: DataVersion) -> Json:
    """Return a data version."""
    return {"stateVersion": version.state_version, "timestamp": version.timestamp, "counter": version.counter}


def _route(_ask: Json, answer: RemotingCommand) -> Json:
    route = bodies.decode_body(answer.body, TopicRouteData)
    found: Json = {
        "orderTopicConf": route.order_topic_conf,
        "queues": [queue_json(queue) for queue in route.queue_datas],
        "brokers": [_group(group) for group in route.broker_datas],
        "filterServers": route.filter_server_table,
    }
    if route.topic_queue_mapping_by_broker:
        found["topicQueueMapping"] = route.topic_queue_mapping_by_broker
    return found


def _cluster_info(_ask: Json, answer: RemotingCommand) -> Json:
    info = bodies.decode_body(answer.body, ClusterInfo)
    return {"brokers": list(map(_group, info.broker_addr_table.values())), "clusters": info.cluster_addr_table}


def _members(_ask: Json, answer: RemotingCommand) -> Json:
    group = bodies.decode_body(answer.body, bodies.GetBrokerMemberGroupResponseBody).broker_member_group
    return {"addrs": {str(broker_id): address for broker_id, address in group.broker_addrs.items()}}


def _value(_ask: Json, answer: RemotingCommand) -> Json:
    return {"value": (answer.ext_fields or {})["value"]}


def _values(_ask: Json, answer: RemotingCommand) -> Json:
    return {"table": bodies.decode_body(answer.body, bodies.KVTable).table}


def _setting(ask: Json, answer: RemotingCommand) -> Json:
    return {"value": bodies.decode_properties(answer.body).get(ask["key"])}


def _topics(_ask: Json, answer: RemotingCommand) -> Json:
    return {"topics": bodies.decode_body(answer.body, bodies.TopicList).topic_list}


class _Question(NamedTuple):
    """A lookup: its request, the function that shows its answer, and the header's name of each field of `ask`."""

    code: RequestCode
    shown: Callable[[Json, RemotingCommand], Json]
    needs: Mapping[str, str] = {}
    may_have: Mapping[str, str] = {}


_QUESTIONS: Mapping[str, _Question] = {
    "route": _Question(RequestCode.GET_ROUTEINFO_BY_TOPIC, _route, {"topic": "topic"}, {"zoneName": "__ZONE_NAME"}),
    "cluster_info": _Question(RequestCode.GET_BROKER_CLUSTER_INFO, _cluster_info),
    "member_group": _Question(
        RequestCode.GET_BROKER_MEMBER_GROUP, _members, {"broker": "brokerName"}, {"cluster": "clusterName"}
    ),
    "get_kv": _Question(RequestCode.GET_KV_CONFIG, _value, {"namespace": "namespace", "key": "key"}),
    "list_kv": _Question(RequestCode.GET_KVLIST_BY_NAMESPACE, _values, {"namespace": "namespace"}),
    "get_config": _Question(RequestCode.GET_NAMESRV_CONFIG, _setting, {"key": "key"}),
    "topic_list": _Question(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, _topics),
    "topics_by_cluster": _Question(RequestCode.GET_TOPICS_BY_CLUSTER, _topics, {"cluster": "cluster"}),
    "system_topics": _Question(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, _topics),
    "unit_topics": _Question(RequestCode.GET_UNIT_TOPIC_LIST, _topics),
    "unit_sub_topics": _Question(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, _topics),
    "unit_sub_ununit_topics": _Question(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, _topics),
}
"""`op` of a check -> its lookup."""


class Lookup(msgspec.Struct, frozen=True):
    """The question of a lookup; the expected answer is not read here."""

    ask: Json

    def __post_init__(self) -> None:
        question = _QUESTIONS.get(self.ask.get("op", ""))
        if question is None:
            raise ValueError(f"`ask` has no `op` out of {', '.join(_QUESTIONS)}")
        if missing := [name for name in question.needs if not isinstance(self.ask.get(name), str)]:
            raise ValueError(f"`ask` has no text `{missing[0]}`")


class Check(msgspec.Struct, frozen=True):
    """The lookups after a step; the expected tables are not read here."""

    after: int
    lookups: list[Lookup] = []


def check_output(check: Check, tables: RouteTables, settings: NamesrvSettings, base_ms: int, asked_at_ms: int) -> Json:
    """Return one entry of `checks`.

    `settings`: those of the start. `base_ms`: the epoch time of the case's time 0. `asked_at_ms`: the case's time of
    the lookups; the process started at 0.
    """
    output: Json = {
        "after": check.after,
        "topic": [{"topic": row.topic, **queue_json(row)} for rows in tables.queues.values() for row in rows],
        "broker": [_group(lookup.broker_data(holders)) for holders in tables.brokers.values()],
        "cluster": [
            {"cluster": cluster, "brokerName": name} for cluster, names in tables.clusters.items() for name in names
        ],
        "filter": [
            {"brokerAddr": address, "filterServers": list(servers)} for address, servers in tables.filters.items()
        ],
        "live": [_live(row, base_ms) for row in tables.live.values()],
    }
    if check.lookups:
        answers = AnswerCache(tables, settings.restored(tables.namesrv_config))
        output["lookups"] = [
            {"ask": each.ask, "answer": _answer(each.ask, answers, asked_at_ms)} for each in check.lookups
        ]
    return output


def _live(row: LiveRow, base_ms: int) -> Json:
    return {
        "brokerAddr": row.broker_addr,
        "cluster": row.cluster_name,
        "lastUpdate": row.last_update_timestamp - base_ms,
        "timeoutMillis": row.heartbeat_timeout_millis,
        "version": wire_version(row.data_version),
        "haServerAddr": row.ha_server_addr,
    }


def _answer(ask: Json, answers: AnswerCache, up_ms: int) -> Json:
    """Return the answer to `ask`, `up_ms` after the start of the process (M5)."""
    question = _QUESTIONS[ask["op"]]
    if question.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and waits_for_service(answers.settings, up_ms):
        return {"code": int(ResponseCode.SYSTEM_ERROR)}
    names = {**question.needs, **question.may_have}
    header = {field: str(ask[name]) for name, field in names.items() if ask.get(name) is not None}
    if ask.get("zoneMode"):
        header["__ZONE_MODE"] = "true"
    kept = answers.answer(RemotingCommand(code=question.code, ext_fields=header))
    assert kept is not None, "every op is a reading request"
    answer = decode_command(kept.prepared.frame(0)[4:])
    if answer.code != ResponseCode.SUCCESS:
        return {"code": answer.code}
    return {"code": 0, **question.shown(ask, answer)}
