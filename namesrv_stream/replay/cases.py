"""Scenario cases: what is in the files, and the requests that their steps make.

A case lists operations with event times from 0 and what tables and lookups must be after some of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.requests import (
    AddWritePerm,
    BrokerHeartbeat,
    ChannelClosed,
    DataVersion,
    DeleteKvConfig,
    DeleteTopic,
    PutKvConfig,
    QueueData,
    RegisterBroker,
    RegisterTopic,
    Request,
    TopicConfig,
    UnregisterBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)

Step = dict[str, Any]


class CaseError(NamesrvError):
    """A file that is no scenario case."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} is no scenario case: {problem}. tests/cases/SCHEMA.md tells what one looks like.")
        self.path = path
        self.problem = problem


class Check(msgspec.Struct, frozen=True):
    """What is asked after a step; the expected tables are not read here."""

    after: int
    lookups: list[dict[str, Any]] = []


class Expectation(msgspec.Struct, frozen=True):
    """The checks of a case."""

    checks: list[Check]


class Case(msgspec.Struct, frozen=True):
    """One scenario. `arrival`: each step takes effect before the next comes; `event_time`: all come at once."""

    name: str
    steps: list[Step]
    expect: Expectation
    replay: Literal["arrival", "event_time"] = "arrival"
    config: dict[str, bool | int | str] | None = None

    def settings(self) -> NamesrvSettings:
        """The case's settings; what trades exactness for work or safety is at its exact value."""
        exact = {"clockJumpGraceMillis": 0, "reconcileIntervalMillis": 0, "liveRefreshMillis": 0}
        return NamesrvSettings.model_validate({**(self.config or {}), **exact})


def load_case(path: Path) -> Case:
    """The case in a file. Raises CaseError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Case)
    except OSError as error:
        raise CaseError(path, error.strerror or str(error)) from error
    except msgspec.MsgspecError as error:
        raise CaseError(path, str(error)) from error


def requests_of(step: Step) -> list[Request]:
    """What a step says, none for a tick or a restart. A version query is a sign of life (L2)."""
    match step["op"]:
        case "register":
            return [_registration(step)]
        case "heartbeat" | "query_version":
            return [BrokerHeartbeat(broker_addr=step["addr"], channel_id=_channel(step))]
        case "unregister":
            return [_unregister(each) for each in step.get("requests", [step])]
        case "channel_close":
            return [ChannelClosed(broker_addr=step["addr"], channel_id=step["channel"])]
        case "scan" | "restart":
            return []
        case _:
            return [_command(step)]


def data_version(version: dict[str, int]) -> DataVersion:
    """A step's version."""
    return msgspec.convert(version, DataVersion)


def _channel(step: Step) -> str:
    return str(step.get("channel", "ch:" + step["addr"]))


def _registration(step: Step) -> RegisterBroker:
    servers = step.get("filterServers", [])
    return RegisterBroker(
        cluster_name=step["cluster"],
        broker_name=step["broker"],
        broker_id=step["brokerId"],
        broker_addr=step["addr"],
        ha_server_addr=step["haServerAddr"],
        heartbeat_timeout_millis=step.get("heartbeatTimeoutMillis"),
        enable_acting_master=step.get("enableActingMaster"),
        zone_name=step.get("zone"),
        data_version=data_version(step["version"]),
        topic_config_table={topic["topic"]: msgspec.convert(topic, TopicConfig) for topic in step["topics"]},
        topic_queue_mapping_info_map=step.get("topicQueueMapping") or {},
        filter_server_list=servers or [],
        keep_filter_servers=servers is None,
        channel_id=_channel(step),
    )


def _unregister(step: Step) -> UnregisterBroker:
    return UnregisterBroker(
        broker_addr=step["addr"],
        cluster_name=step["cluster"],
        broker_name=step["broker"],
        broker_id=step["brokerId"],
    )


def _command(step: Step) -> Request:
    match step["op"]:
        case "put_kv":
            return PutKvConfig(namespace=step["namespace"], key=step["key"], value=step["value"])
        case "delete_kv":
            return DeleteKvConfig(namespace=step["namespace"], key=step["key"])
        case "wipe_write_perm":
            return WipeWritePerm(broker_name=step["broker"])
        case "add_write_perm":
            return AddWritePerm(broker_name=step["broker"])
        case "delete_topic":
            return DeleteTopic(topic=step["topic"], cluster_name=step.get("cluster"))
        case "register_topic":
            queues = [msgspec.convert(queue, QueueData) for queue in step["queues"]]
            return RegisterTopic(topic=step["topic"], queue_datas=queues)
        case "update_config":
            return UpdateNamesrvConfig(properties=step["properties"])
        case unknown:
            raise ValueError(f"unknown operation {unknown}")
