"""Arrival cases as logs through the real pipeline: read in one batch, and cut by a seed."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from namesrv_stream.tools.replay.replay_run import CASES_AT_ONCE
from namesrv_stream.tools.replay.stream_engine import stream_engine
from tests.arrival_logs import arrival_cases, as_log
from tests.replay_comparison import differences

SEEDS = (None, 1, 2)
IN_EVERY_RUN = {
    ("long_gap_is_an_eviction", None),  # an end and a return in one micro-batch
    ("slave_promoted_same_addr", None),  # rows that several addresses share
    ("channel_close_evicts_at_once", 1),
}
"""The others are for `make test-full`; the rules see each of them in every run."""


def parameters():
    return [
        pytest.param(name, seed, id=f"{name}-{seed}", marks=[] if (name, seed) in IN_EVERY_RUN else pytest.mark.full)
        for name in arrival_cases()
        for seed in SEEDS
    ]


@pytest.fixture(scope="module")
def replays(request, spark):
    """(case, seed) -> the future of its replay, all that this run selects, some at a time."""
    selected = [item for item in request.session.items if "replays" in getattr(item, "fixturenames", ())]
    wanted = [(item.callspec.params["name"], item.callspec.params["seed"]) for item in selected
              if item.module is request.module]  # fmt: skip
    with stream_engine(spark) as replay, ThreadPoolExecutor(CASES_AT_ONCE) as pool:
        yield {each: pool.submit(replay, as_log(*each)[0]) for each in wanted}


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.parametrize(("name", "seed"), parameters())
def test_the_pipeline_gives_at_the_end_of_the_log_what_the_case_expects(name, seed, replays):
    assert differences(as_log(name, seed)[1], replays[name, seed].result()) == []


def test_the_cases_of_every_run_are_there():
    assert {(name, seed) for name in arrival_cases() for seed in SEEDS} >= IN_EVERY_RUN
