"""The job's state as `status` shows it: from the election and the active job's report, and from the tables."""

import pytest

from namesrv_stream.answers.job_status import FromKafka, job_state
from namesrv_stream.kafka.election import Candidate, JobReport
from tests.data import data

JOBS = {"active": Candidate("run-1", "host", True), "waiting": Candidate("run-2", "host", False)}
ROWS = data(__file__, "job_states.yaml")


def from_kafka(jobs=None, reported=None, **facts):
    """What Kafka says: `reported` are the role and the problem of the job that holds the lock."""
    if reported:
        return FromKafka(0, [*JOBS.values()], report=JobReport("run-1", *reported))
    return FromKafka(jobs=None if jobs is None else [JOBS[each] for each in jobs], **facts)


@pytest.mark.parametrize(("of_tables", "facts", "shown"), ROWS)
def test_the_jobs_state_is_what_the_holder_of_the_lock_reports_unless_nobody_holds_it(of_tables, facts, shown):
    assert job_state(of_tables, from_kafka(**facts)) == shown
