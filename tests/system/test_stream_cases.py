"""Scenario cases through the real pipeline: Kafka, the streaming job, Delta and the reader, to the letter."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from namesrv_stream.tools.replay.cases import load_case
from namesrv_stream.tools.replay.replay_run import CASES_AT_ONCE
from namesrv_stream.tools.replay.stream_engine import stream_engine
from tests.replay_comparison import differences

CASES = sorted(path for path in (Path(__file__).parent.parent / "cases").glob("*.json") if path.stem != "schema")

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
}
"""Duties of the pipeline beyond the rules: time, order, keys that share rows, and the rarer tables (restarts
have tests of their own). The others, whose rules `tests/rules/test_cases.py` holds in every run too, are for
`make test-full`."""


def parameters():
    return [
        pytest.param(path, id=path.stem, marks=[] if path.stem in IN_EVERY_RUN else pytest.mark.full) for path in CASES
    ]


@pytest.fixture(scope="module")
def replays(request, spark):
    """Path -> the future of its replay, all cases that this run selects, some at a time."""
    selected = [item for item in request.session.items if "replays" in getattr(item, "fixturenames", ())]
    wanted = [item.callspec.params["path"] for item in selected if item.module is request.module]
    with stream_engine(spark) as replay, ThreadPoolExecutor(CASES_AT_ONCE) as pool:
        yield {path: pool.submit(replay, load_case(path)) for path in wanted}


@pytest.mark.system
@pytest.mark.spark
@pytest.mark.parametrize("path", parameters())
def test_the_pipeline_gives_what_the_case_expects(path, replays):
    case = json.loads(path.read_text())
    assert differences(case["expect"], replays[path].result()) == []


def test_the_cases_of_every_run_are_there():
    assert {path.stem for path in CASES} >= IN_EVERY_RUN
