"""Two jobs on one registry, of which one has to win."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import TermLostError
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.tables.snapshot_reader import RouteReader
from tests.system.heartbeats import assert_told_once, eventually, registration, shown


def assert_one_of_two_jobs_wins(heartbeats, spark, tmp_path, *, at_once):
    """Start two jobs with a checkpoint of their own each, `at_once` or one beside the other that runs."""
    own_checkpoint = {"checkpoint.location": str(tmp_path / "other-checkpoint")}
    settings = [heartbeats.settings, NamesrvSettings.model_validate(heartbeats.options | own_checkpoint)]
    rivals = [BackgroundJob(spark.newSession(), each) for each in settings]
    with ThreadPoolExecutor(2 if at_once else 1) as pool:
        list(pool.map(_start, rivals))
    heartbeats.say(registration(1))
    heartbeats.await_offset(1)
    heartbeats.say(registration(2))
    view = heartbeats.await_offset(2)
    loser = await_end_of_one(rivals)
    with pytest.raises(TermLostError, match="has taken the registry over"):
        loser.check()
    winner = rivals[1 - rivals.index(loser)]
    assert not winner.has_ended
    assert at_once or winner is rivals[1]
    winner.__exit__()
    assert shown(view.routes) == heartbeats.states()[-1]
    rows = RouteReader(heartbeats.root).snapshots.readable()[::-1]
    assert [row.epoch for row in rows] == list(range(1, len(rows) + 1))
    assert [row.term for row in rows] == sorted(row.term for row in rows)
    assert {row.run_id for row in rows if row.term == rows[-1].term} == {view.snapshot.run_id}
    assert_told_once(heartbeats)


@eventually
def await_end_of_one(jobs):
    """Return the job that has ended, once one has."""
    ended = [job for job in jobs if job.has_ended]
    assert len(ended) == 1
    return ended[0]


def _start(job):
    with contextlib.suppress(TermLostError):
        job.__enter__()
