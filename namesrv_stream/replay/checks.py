"""A check's tables and lookups in the form of a replay's output: the cases' own columns and times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.replay.cases import Check
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import BrokerGroup, RouteTables
from namesrv_stream.rules.requests import DataVersion
from namesrv_stream.rules.rows import LiveRow, TopicRow

Json = dict[str, Any]
SUCCESS, NOT_FOUND, TOPIC_NOT_EXIST = 0, 22, 17


def check_output(check: Check, tables: RouteTables, settings: NamesrvSettings, base_ms: int) -> Json:
    """One entry of `checks`. `settings`: those of the start; `base_ms`: the epoch time of the case's time 0."""
    output: Json = {
        "after": check.after,
        "topic": [_topic(row) | {"topic": row.topic} for rows in tables.queues.values() for row in rows],
        "broker": [_broker(lookup.broker_data(holders)) for holders in tables.brokers.values()],
        "cluster": [
            {"cluster": cluster, "brokerName": name} for cluster, names in tables.clusters.items() for name in names
        ],
        "filter": [
            {"brokerAddr": address, "filterServers": list(servers)} for address, servers in tables.filters.items()
        ],
        "live": [_live(row, base_ms) for row in tables.live.values()],
    }
    if check.lookups:
        in_force = settings.restored(tables.namesrv_config)
        asks = [each.ask for each in check.lookups]
        output["lookups"] = [{"ask": ask, "answer": _answer(ask, tables, in_force)} for ask in asks]
    return output


def wire_version(version: DataVersion) -> Json:
    """A data version in the cases' field names."""
    return {"stateVersion": version.state_version, "timestamp": version.timestamp, "counter": version.counter}


def _topic(row: TopicRow) -> Json:
    return {
        "brokerName": row.broker_name,
        "readQueueNums": row.read_queue_nums,
        "writeQueueNums": row.write_queue_nums,
        "perm": row.perm,
        "topicSysFlag": row.topic_sys_flag,
    }


def _broker(group: BrokerGroup) -> Json:
    return {
        "brokerName": group.broker_name,
        "cluster": group.cluster,
        "zoneName": group.zone_name,
        "enableActingMaster": group.enable_acting_master,
        "addrs": {str(broker_id): address for broker_id, address in group.broker_addrs.items()},
    }


def _live(row: LiveRow, base_ms: int) -> Json:
    return {
        "brokerAddr": row.broker_addr,
        "cluster": row.cluster_name,
        "lastUpdate": row.last_update_timestamp - base_ms,
        "timeoutMillis": row.heartbeat_timeout_millis,
        "version": wire_version(row.data_version),
        "haServerAddr": row.ha_server_addr,
    }


def _answer(ask: Json, tables: RouteTables, settings: NamesrvSettings) -> Json:
    answer = _LOOKUPS[ask["op"]](ask, tables, settings)
    return answer if "code" in answer else {"code": SUCCESS, **answer}


def _route(ask: Json, tables: RouteTables, settings: NamesrvSettings) -> Json:
    zone = ask.get("zoneName") if ask.get("zoneMode") else None
    route = lookup.route(tables, ask["topic"], settings, zone)
    if route is None:
        return {"code": TOPIC_NOT_EXIST}
    answer: Json = {
        "orderTopicConf": route.order_topic_conf,
        "queues": [_topic(row) for row in route.queue_datas],
        "brokers": [_broker(group) for group in route.broker_datas],
        "filterServers": {address: list(servers) for address, servers in route.filter_server_table.items()},
    }
    if route.topic_queue_mappings:
        mappings = route.topic_queue_mappings.items()
        answer["topicQueueMapping"] = {name: msgspec.json.decode(text) for name, text in mappings}
    return answer


def _cluster_info(_ask: Json, tables: RouteTables, _settings: NamesrvSettings) -> Json:
    info = lookup.cluster_info(tables)
    clusters = {cluster: list(names) for cluster, names in info.clusters.items()}
    return {"brokers": [_broker(group) for group in info.brokers.values()], "clusters": clusters}


def _member_group(ask: Json, tables: RouteTables, _settings: NamesrvSettings) -> Json:
    members = lookup.member_group(tables, ask["broker"])
    return {"addrs": {str(broker_id): address for broker_id, address in members.items()}}


def _get_kv(ask: Json, tables: RouteTables, _settings: NamesrvSettings) -> Json:
    value = tables.kv.get(ask["namespace"], {}).get(ask["key"])
    return {"code": NOT_FOUND} if value is None else {"value": value}


def _list_kv(ask: Json, tables: RouteTables, _settings: NamesrvSettings) -> Json:
    table = tables.kv.get(ask["namespace"])
    return {"code": NOT_FOUND} if table is None else {"table": dict(table)}


_LOOKUPS: dict[str, Callable[[Json, RouteTables, NamesrvSettings], Json]] = {
    "route": _route,
    "cluster_info": _cluster_info,
    "member_group": _member_group,
    "get_kv": _get_kv,
    "list_kv": _list_kv,
    "get_config": lambda ask, _tables, settings: {"value": settings.get_config(ask["key"])},
    "topic_list": lambda _ask, tables, _settings: {"topics": lookup.topic_list(tables)},
    "topics_by_cluster": lambda ask, tables, _settings: {"topics": lookup.topics_by_cluster(tables, ask["cluster"])},
    "system_topics": lambda _ask, tables, _settings: {"topics": lookup.system_topics(tables)},
    "unit_topics": lambda _ask, tables, _settings: {"topics": lookup.unit_topics(tables)},
    "unit_sub_topics": lambda _ask, tables, _settings: {"topics": lookup.unit_sub_topics(tables)},
    "unit_sub_ununit_topics": lambda _ask, tables, _settings: {"topics": lookup.unit_sub_ununit_topics(tables)},
}
