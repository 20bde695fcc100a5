"""The tables and lookups of a check in the form of a replay's output: the columns and times of the cases."""

from __future__ import annotations

from typing import Any

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.tools.replay.cases import Check
from namesrv_stream.tools.replay.lookups import answered, group_json, queue_json

Json = dict[str, Any]


def check_output(check: Check, tables: RouteTables, settings: NamesrvSettings, base_ms: int, asked_at_ms: int) -> Json:
    """Return one entry of `checks`.

    `settings`: those of the start. `base_ms`: the epoch time of the case's time 0. `asked_at_ms`: the case's time of
    the lookups; the process started at 0.
    """
    output: Json = {
        "after": check.after,
        "topic": [{"topic": row.topic, **queue_json(row)} for rows in tables.queues.values() for row in rows],
        "broker": [group_json(lookup.broker_data(holders)) for holders in tables.brokers.values()],
        "cluster": [
            {"cluster": cluster, "brokerName": name} for cluster, names in tables.clusters.items() for name in names
        ],
        "filter": [
            {"brokerAddr": address, "filterServers": list(servers)} for address, servers in tables.filters.items()
        ],
        "live": [_live(row, base_ms) for row in tables.live.values()],
    }
    if check.lookups:
        asks = [each.ask for each in check.lookups]
        answers = answered(asks, tables, settings.restored(tables.namesrv_config), asked_at_ms)
        output["lookups"] = [{"ask": ask, "answer": answer} for ask, answer in zip(asks, answers, strict=True)]
    return output


def wire_version(version: DataVersion) -> Json:
    """Return a data version in the cases' field names."""
    return {"stateVersion": version.state_version, "timestamp": version.timestamp, "counter": version.counter}


def _live(row: LiveRow, base_ms: int) -> Json:
    return {
        "brokerAddr": row.broker_addr,
        "cluster": row.cluster_name,
        "lastUpdate": row.last_update_timestamp - base_ms,
        "timeoutMillis": row.heartbeat_timeout_millis,
        "version": wire_version(row.data_version),
        "haServerAddr": row.ha_server_addr,
    }
