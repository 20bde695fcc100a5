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
from tests.replay_comparison import differences

IN_EVERY_RUN = {
    "all_brokers_silent",  # ticks alone bring time along
    "broker_row_follows_latest_holder",  # shared rows, zones, acting flag
    "filter_list_set_keep_clear",
    "kv_basic",
    "log_clock_steps_back_one_batch",  # no record is dropped as late
    "log_one_record_an_hour_ahead_one_batch",  # nor is any time lost after one that is stamped ahead
    "log_one_tick_an_hour_ahead_one_batch",
    "log_outage_then_the_dead_go_one_batch",
    "log_replacement_after_expiry_one_batch",
    "log_random_7_03",
    "log_short_lease_and_eleven_seconds_one_batch",
    "long_gap_is_an_eviction",
    "static_topic_mapping",
    "timeout_boundary",
    "long_gap_is_an_eviction-log-None",  # an end and a return in one micro-batch
    "slave_promoted_same_addr-log-None",  # rows that several addresses share
    "channel_close_evicts_at_once-log-1",
}
"""Duties of the pipeline beyond the rules: time, order, keys that share rows, and the rarer tables (restarts
have tests of their own). The others, whose rules `tests/rules/test_cases.py` holds in every run too, are for
`make test-full`."""


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
    assert CASES.keys() >= IN_EVERY_RUN
