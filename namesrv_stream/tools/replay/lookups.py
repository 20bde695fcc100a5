"""Answer a case's lookups with the gateway's own code, and decode the frames into the cases' form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.answers import Answers
from namesrv_stream.rules.lookup import BrokerGroup, RouteTables, waits_for_service
from namesrv_stream.rules.record_types import QueueData
from namesrv_stream.rules.rows import TopicRow
from namesrv_stream.wire import bodies
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.remoting_command import RemotingCommand, decode_command

Json = dict[str, Any]

_REQUESTS: Mapping[str, tuple[RequestCode, Mapping[str, str]]] = {
    "route": (RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "topic", "zoneName": "__ZONE_NAME"}),
    "cluster_info": (RequestCode.GET_BROKER_CLUSTER_INFO, {}),
    "member_group": (RequestCode.GET_BROKER_MEMBER_GROUP, {"cluster": "clusterName", "broker": "brokerName"}),
    "get_kv": (RequestCode.GET_KV_CONFIG, {"namespace": "namespace", "key": "key"}),
    "list_kv": (RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "namespace"}),
    "get_config": (RequestCode.GET_NAMESRV_CONFIG, {}),
    "topic_list": (RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, {}),
    "topics_by_cluster": (RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "cluster"}),
    "system_topics": (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, {}),
    "unit_topics": (RequestCode.GET_UNIT_TOPIC_LIST, {}),
    "unit_sub_topics": (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, {}),
    "unit_sub_ununit_topics": (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, {}),
}
"""`op` -> its request code, and the header field for each field of the ask."""


def answered(asks: list[Json], tables: RouteTables, settings: NamesrvSettings, up_ms: int) -> list[Json]:
    """Return the answers to `asks` from one snapshot, `up_ms` after the start of the process (M5)."""
    answers = Answers(tables, settings)
    return [_answer(ask, answers, up_ms) for ask in asks]


def _answer(ask: Json, answers: Answers, up_ms: int) -> Json:
    code, fields = _REQUESTS[ask["op"]]
    if code == RequestCode.GET_ROUTEINFO_BY_TOPIC and waits_for_service(answers.settings, up_ms):
        return {"code": int(ResponseCode.SYSTEM_ERROR)}
    header = {field: str(ask[name]) for name, field in fields.items() if ask.get(name) is not None}
    if ask.get("zoneMode"):
        header["__ZONE_MODE"] = "true"
    kept = answers.answer(RemotingCommand(code=code, ext_fields=header))
    assert kept is not None, "every op is a reading request"
    answer = decode_command(kept.prepared.frame(0)[4:])
    if answer.code != ResponseCode.SUCCESS:
        return {"code": answer.code}
    return {"code": 0, **_ANSWERS[ask["op"]](ask, answer)}


def queue_json(queue: QueueData | TopicRow) -> Json:
    """Return the queues of a topic on one broker name as JSON, with the names of fields that scenario cases have."""
    return {
        "brokerName": queue.broker_name,
        "readQueueNums": queue.read_queue_nums,
        "writeQueueNums": queue.write_queue_nums,
        "perm": queue.perm,
        "topicSysFlag": queue.topic_sys_flag,
    }


def group_json(group: bodies.BrokerData | BrokerGroup) -> Json:
    """Return a broker group as JSON, with the names of fields that scenario cases have."""
    return {
        "brokerName": group.broker_name,
        "cluster": group.cluster,
        "zoneName": group.zone_name,
        "enableActingMaster": group.enable_acting_master,
        "addrs": {str(broker_id): address for broker_id, address in group.broker_addrs.items()},
    }


def _route(_ask: Json, answer: RemotingCommand) -> Json:
    route = bodies.decode_body(answer.body, bodies.TopicRouteData)
    found: Json = {
        "orderTopicConf": route.order_topic_conf,
        "queues": [queue_json(queue) for queue in route.queue_datas],
        "brokers": [group_json(group) for group in route.broker_datas],
        "filterServers": route.filter_server_table,
    }
    if route.topic_queue_mapping_by_broker:
        found["topicQueueMapping"] = route.topic_queue_mapping_by_broker
    return found


def _cluster_info(_ask: Json, answer: RemotingCommand) -> Json:
    info = bodies.decode_body(answer.body, bodies.ClusterInfo)
    return {
        "brokers": [group_json(group) for group in info.broker_addr_table.values()],
        "clusters": info.cluster_addr_table,
    }


def _members(_ask: Json, answer: RemotingCommand) -> Json:
    group = bodies.decode_body(answer.body, bodies.GetBrokerMemberGroupResponseBody).broker_member_group
    return {"addrs": {str(broker_id): address for broker_id, address in group.broker_addrs.items()}}


def _topics(_ask: Json, answer: RemotingCommand) -> Json:
    return {"topics": bodies.decode_body(answer.body, bodies.TopicList).topic_list}


_ANSWERS: Mapping[str, Callable[[Json, RemotingCommand], Json]] = {
    "route": _route,
    "cluster_info": _cluster_info,
    "member_group": _members,
    "get_kv": lambda _ask, answer: {"value": (answer.ext_fields or {})["value"]},
    "list_kv": lambda _ask, answer: {"table": bodies.decode_body(answer.body, bodies.KVTable).table},
    "get_config": lambda ask, answer: {"value": bodies.decode_properties(answer.body).get(ask["key"])},
    "topic_list": _topics,
    "topics_by_cluster": _topics,
    "system_topics": _topics,
    "unit_topics": _topics,
    "unit_sub_topics": _topics,
    "unit_sub_ununit_topics": _topics,
}
