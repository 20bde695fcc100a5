"""Arrival cases as logs: a tick of its time stands ahead of each step, and nothing waits for a publication."""

import json
import random
from pathlib import Path

import msgspec

from replay.cases import Expectation, RestartStep, ScanStep, load_case

CASES = Path(__file__).parent / "cases"


def arrival_cases():
    """The names of the cases in order of arrival."""
    paths = sorted(path for path in CASES.glob("*.json") if path.stem != "schema")
    return [path.stem for path in paths if load_case(path).replay == "arrival"]


def as_log(name, seed=None):
    """The case up to its last check as a log, and what is expected at its end.

    Without a seed the log is read in one batch; a seed cuts it.
    """
    path = CASES / f"{name}.json"
    case, expected = load_case(path), json.loads(path.read_text())["expect"]["checks"][-1]
    played = [step for step in case.steps[: expected["after"] + 1] if not isinstance(step, RestartStep)]
    steps = [each for step in played for each in (ScanStep(t=step.t), step)]
    draw = random.Random(f"{name}/{seed}")
    cuts = [] if seed is None else sorted(draw.sample(range(len(steps)), draw.randint(1, min(4, len(steps)))))
    check = msgspec.structs.replace(case.expect.checks[-1], after=len(steps) - 1)
    log = msgspec.structs.replace(
        case,
        name=f"{name}-{'whole' if seed is None else f'cut-{seed}'}",
        steps=steps,
        cuts=cuts,
        replay="log",
        config={**(case.config or {}), "tickGapMillis": 0},
        expect=Expectation([check]),
    )
    return log, {"checks": [{**expected, "after": check.after}]}
