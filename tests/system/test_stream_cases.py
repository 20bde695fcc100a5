"""Scenario cases through the real pipeline: Kafka, the streaming job, Delta and the reader, to the letter.

An arrival case is there as a log too, read in one batch or cut by a seed.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from replay.cases import load_case
from replay.replay_run import CASES_AT_ONCE
from replay.stream_engine import stream_engine
from tests.arrival_logs import arrival_cases, as_log
from tests.data import data
from tests.replay_comparison import differences

IN_EVERY_RUN = data(__file__, "cases_of_every_run.yaml")


def read(path):
    return load_case(path), json.loads(path.read_text())["expect"]


FOLDER = Path(__file__).parents[1] / "cases"
CASES = {path.stem: partial(read, path) for path in sorted(FOLDER.glob("*.json")) if path.stem != "schema"}
CASES |= {f"{name}-log-{seed}": partial(as_log, name, seed) for name in arrival_cases() for seed in (None, 1, 2)}
"""Name -> what gives its records and what is expected."""


@pytest.fixture(scope="module")
def replays(request, spark):
    """Name -> the future of its replay, all cases that this run selects, some at a time."""
    selected = [item for item in request.session.items if "replays" in getattr(item, "fixturenames", ())]
    with stream_engine(spark) as replay, ThreadPoolExecutor(CASES_AT_ONCE) as pool:
        names = [item.callspec.params["name"] for item in selected]
        yield {name: pool.submit(replay, CASES[name]()[0]) for name in names}


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in IN_EVERY_RUN else pytest.mark.full) for name in CASES]
)
def test_the_pipeline_gives_what_the_case_expects(name, replays):
    assert differences(CASES[name]()[1], replays[name].result()) == []


def test_the_cases_of_every_run_are_there():
    assert CASES.keys() >= IN_EVERY_RUN.keys()
