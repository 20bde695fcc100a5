"""Scenario cases: the content of their files.

A case lists operations with event times from 0, and the tables and answers that are expected after some of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.record_types import what_is_wrong
from namesrv_stream.tools.replay.steps import Step

CaseName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,200}(?![\s\S])")]
"""The name of a case, which is also that of the output's file and, in the real pipeline, of a folder and a topic."""

_NEEDED_FIELDS: dict[str, tuple[str, ...]] = {
    "route": ("topic",),
    "cluster_info": (),
    "member_group": ("broker",),
    "get_kv": ("namespace", "key"),
    "list_kv": ("namespace",),
    "get_config": ("key",),
    "topic_list": (),
    "topics_by_cluster": ("cluster",),
    "system_topics": (),
    "unit_topics": (),
    "unit_sub_topics": (),
    "unit_sub_ununit_topics": (),
}
"""The fields that each lookup needs."""


class CaseError(NamesrvError):
    """A file that is not a scenario case."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} is no scenario case: {problem}. tests/cases/SCHEMA.md describes the format.")
        self.path = path
        self.problem = problem


class Lookup(msgspec.Struct, frozen=True):
    """The question of a lookup; the expected answer is not read here."""

    ask: dict[str, Any]

    def __post_init__(self) -> None:
        needed = _NEEDED_FIELDS.get(self.ask.get("op", ""))
        if needed is None:
            raise ValueError(f"`ask` has no `op` out of {', '.join(_NEEDED_FIELDS)}")
        if missing := [name for name in needed if not isinstance(self.ask.get(name), str)]:
            raise ValueError(f"`ask` has no text `{missing[0]}`")


class Check(msgspec.Struct, frozen=True):
    """The lookups after a step; the expected tables are not read here."""

    after: int
    lookups: list[Lookup] = []


class Expectation(msgspec.Struct, frozen=True):
    """The checks of a case."""

    checks: list[Check]


class Case(msgspec.Struct, frozen=True):
    """One scenario.

    `replay` is `arrival` if each step takes effect before the next one is delivered, with a tick of its time before it,
    or `log` if the steps are the log, ticks included. `cuts`: after each of these steps all records so far are
    published before the log goes on; without cuts all steps are in one micro-batch.
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
        """Return the case's settings, with exact values for those that trade exactness for less work or more safety."""
        exact = {"reconcileIntervalMillis": 0, "liveRefreshMillis": 0}
        if self.replay == "arrival":
            exact["tickGapMillis"] = 0
        return NamesrvSettings.model_validate({**(self.config or {}), **exact})


def load_case(path: Path) -> Case:
    """Return the case in a file. Raises CaseError, which names the step and the field."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Case)
    except OSError as error:
        raise CaseError(path, error.strerror or str(error)) from error
    except msgspec.MsgspecError as error:
        raise CaseError(path, what_is_wrong(error)) from error


def load_cases(paths: tuple[Path, ...]) -> list[Case]:
    """Return the cases in several files. Raises CaseError, also if two cases have the same name."""
    cases: dict[str, Case] = {}
    for path in paths:
        case = load_case(path)
        if case.name in cases:
            raise CaseError(path, f"`name` {case.name} is another file's too, and what came of it would be replaced")
        cases[case.name] = case
    return list(cases.values())
