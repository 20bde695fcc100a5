"""Read scenario cases from their files.

A case lists operations with event times from 0, and the tables and answers that are expected after some of them. Each
operation is a step. Each `op` has a class of steps, which makes the requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pydantic

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    BrokerAddress,
    BrokerHeartbeat,
    ChannelClosed,
    DataVersion,
    DeleteKvConfig,
    DeleteTopic,
    Int64,
    Name,
    PutKvConfig,
    QueueData,
    RegisterBroker,
    RegisterTopic,
    Request,
    TopicConfig,
    UnregisterBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
    what_is_wrong,
)
from replay.case_checks import Check, Json


class _Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="op"):
    """A step at time `t`: event time in milliseconds from the case's start."""

    t: Annotated[int, msgspec.Meta(ge=0, le=2**53)]

    def requests(self) -> list[Request]:
        """Return the requests of the step, in order."""
        return []


class ScanStep(_Step, frozen=True, tag="scan"):
    """A tick: event time goes on."""


class RestartStep(_Step, frozen=True, tag="restart"):
    """The registry stops and starts again."""


class _Sign(_Step, frozen=True, kw_only=True):
    """A sign of life. If `channel` is None, it comes over a connection that only this address uses."""

    addr: BrokerAddress
    channel: str | None = None

    @property
    def channel_id(self) -> str:
        return self.channel if self.channel is not None else f"ch:{self.addr}"

    def requests(self) -> list[Request]:
        return [BrokerHeartbeat(broker_addr=self.addr, channel_id=self.channel_id)]


class _Heartbeat(_Sign, frozen=True, tag="heartbeat"):
    """A light sign of life."""


class QueryVersionStep(_Sign, frozen=True, kw_only=True, tag="query_version"):
    """A version query, which is a sign of life too (L2)."""

    version: DataVersion


class _Topic(TopicConfig, frozen=True, kw_only=True):
    topic: str


class _Register(_Sign, frozen=True, kw_only=True, tag="register"):
    """A registration. `filter_servers` None: the null of R11. `enable_acting_master` None: the flag is absent."""

    cluster: Name
    broker: Name
    broker_id: Int64
    ha_server_addr: str
    version: DataVersion
    topics: list[_Topic]
    filter_servers: list[str] | None = []
    zone: str | None = None
    enable_acting_master: bool | None = None
    heartbeat_timeout_millis: Int64 | None = None
    topic_queue_mapping: dict[str, Json] | None = None

    def requests(self) -> list[Request]:
        request = RegisterBroker(
            cluster_name=self.cluster,
            broker_name=self.broker,
            broker_id=self.broker_id,
            broker_addr=self.addr,
            ha_server_addr=self.ha_server_addr,
            heartbeat_timeout_millis=self.heartbeat_timeout_millis,
            enable_acting_master=self.enable_acting_master,
            zone_name=self.zone,
            data_version=self.version,
            topic_config_table={
                each.topic: msgspec.convert(each, TopicConfig, from_attributes=True) for each in self.topics
            },
            topic_queue_mapping_info_map=self.topic_queue_mapping or {},
            filter_server_list=self.filter_servers or [],
            keep_filter_servers=self.filter_servers is None,
            channel_id=self.channel_id,
        )
        return [request]


class _Unregistered(msgspec.Struct, frozen=True, rename="camel"):
    cluster: str
    broker: str
    broker_id: Int64
    addr: BrokerAddress


class _Unregister(_Step, frozen=True, kw_only=True, tag="unregister"):
    """The end of one registration by its fields, or of several in `requests`."""

    cluster: str | None = None
    broker: str | None = None
    broker_id: Int64 | None = None
    addr: BrokerAddress | None = None
    several: list[_Unregistered] | None = msgspec.field(default=None, name="requests")

    def __post_init__(self) -> None:
        try:
            self.requests()
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None  # msgspec adds the place to a ValueError

    def requests(self) -> list[Request]:
        return [
            UnregisterBroker(
                broker_addr=each.addr,
                cluster_name=each.cluster,
                broker_name=each.broker,
                broker_id=each.broker_id,
            )
            for each in (self.several if self.several is not None else [self._one()])
        ]

    def _one(self) -> _Unregistered:
        given = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        return msgspec.convert(given, _Unregistered)


class _OneRequest(_Step, frozen=True):
    """A step whose fields are those of one request, by shorter names."""

    makes: ClassVar[Any]

    def requests(self) -> list[Request]:
        given = {_NAMES.get(name, name): getattr(self, name) for name in self.__struct_fields__ if name != "t"}
        return [self.makes(**given)]


_NAMES = {
    "addr": "broker_addr",
    "broker": "broker_name",
    "channel": "channel_id",
    "cluster": "cluster_name",
    "queues": "queue_datas",
}
"""Field of a step -> field of its request."""


class _ChannelClose(_OneRequest, frozen=True, kw_only=True, tag="channel_close"):
    makes = ChannelClosed
    channel: str
    addr: BrokerAddress


class _PutKv(_OneRequest, frozen=True, kw_only=True, tag="put_kv"):
    makes = PutKvConfig
    namespace: str
    key: Name
    value: str


class _DeleteKv(_OneRequest, frozen=True, kw_only=True, tag="delete_kv"):
    makes = DeleteKvConfig
    namespace: str
    key: Name


class _WipeWritePerm(_OneRequest, frozen=True, kw_only=True, tag="wipe_write_perm"):
    makes = WipeWritePerm
    broker: str


class _AddWritePerm(_OneRequest, frozen=True, kw_only=True, tag="add_write_perm"):
    makes = AddWritePerm
    broker: str


class _DeleteTopic(_OneRequest, frozen=True, kw_only=True, tag="delete_topic"):
    makes = DeleteTopic
    topic: str
    cluster: str | None = None


class _RegisterTopic(_OneRequest, frozen=True, kw_only=True, tag="register_topic"):
    makes = RegisterTopic
    topic: str
    queues: list[QueueData]


class _UpdateConfig(_OneRequest, frozen=True, kw_only=True, tag="update_config"):
    makes = UpdateNamesrvConfig
    properties: dict[str, str]


Step = (
    ScanStep
    | RestartStep
    | _Heartbeat
    | QueryVersionStep
    | _Register
    | _Unregister
    | _ChannelClose
    | _PutKv
    | _DeleteKv
    | _WipeWritePerm
    | _AddWritePerm
    | _DeleteTopic
    | _RegisterTopic
    | _UpdateConfig
)

CaseName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,200}(?![\s\S])")]
"""The name of a case, which is also that of the output's file and, in the real pipeline, of a folder and a topic."""


class Expectation(msgspec.Struct, frozen=True):
    """The checks of a case."""

    checks: list[Check]


class Case(msgspec.Struct, frozen=True):
    """One scenario.

    `replay` is `arrival` or `log`. With `arrival` each step takes effect before the next one is delivered, and a tick
    of its time comes before it. With `log` the steps are the log, ticks included. `cuts`: after each of these steps all
    records so far are published before the log goes on; without cuts all steps are in one micro-batch.
    """

    name: CaseName
    steps: list[Step]
    expect: Expectation
    replay: Literal["arrival", "log"] = "arrival"
    cuts: list[int] = []
    config: dict[str, bool | int | str] | None = None

    def __post_init__(self) -> None:
        if beyond := [check.after for check in self.expect.checks if not 0 <= check.after < len(self.steps)]:
            raise ValueError(f"a check comes after step {beyond[0]}, which there is not")
        if beyond := [cut for cut in self.cuts if not 0 <= cut < len(self.steps)]:
            raise ValueError(f"`cuts` names step {beyond[0]}, which there is not")
        try:
            self.settings()
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ValueError(f"`config.{first['loc'][0]}` is not accepted: {first['msg']}") from None

    def settings(self) -> NamesrvSettings:
        """Return the case's settings. Those that trade exactness for less work or more safety get exact values."""
        exact = {"reconcileIntervalMillis": 0}
        if self.replay == "arrival":
            exact["tickGapMillis"] = 0
        return NamesrvSettings.model_validate({**(self.config or {}), **exact})


def load_case(path: Path) -> Case:
    """Return the case in a file. Raises NamesrvError, which names the step and the field."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Case)
    except OSError as error:
        raise _no_case(path, error.strerror or str(error)) from error
    except msgspec.MsgspecError as error:
        raise _no_case(path, what_is_wrong(error)) from error


def load_cases(paths: tuple[Path, ...]) -> list[Case]:
    """Return the cases in several files. Raises NamesrvError, also if two cases have the same name."""
    cases: dict[str, Case] = {}
    for path in paths:
        case = load_case(path)
        if case.name in cases:
            raise _no_case(path, f"`name` {case.name} is another file's too, and what came of it would be replaced")
        cases[case.name] = case
    return list(cases.values())


def _no_case(path: Path, problem: str) -> NamesrvError:
    return NamesrvError(f"{path} is no scenario case: {problem}. tests/cases/SCHEMA.md describes the format.")
