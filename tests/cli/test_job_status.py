"""The job's state as `status` shows it: from the election and the active job's report, and from the tables."""

import pytest

from namesrv_stream.answers.job_status import FromKafka, doubt_of, job_state
from namesrv_stream.answers.verdict import Doubt
from namesrv_stream.kafka.election import Candidate, JobReport
from namesrv_stream.rules.rows import SnapshotRow
from tests.data import data
from tests.tables.rows import T0

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


@pytest.mark.parametrize(
    ("state", "age_s", "reason"),
    [
        ("running", 60, None),
        ("dead", 10, None),
        ("dead", 11, "no job running"),
        ("unknown", 11, "Kafka unreachable"),
        ("taking over", 9, None),
        ("stopped in order", 3_600, "no job running"),
    ],
)
def test_the_present_is_not_known_ten_seconds_after_the_last_sign_of_a_job_that_does_not_run(state, age_s, reason):
    row = SnapshotRow(1, 1, "run", None, None, T0, T0, {}, {}, {})
    found = doubt_of(state, row, T0 + age_s * 1_000)
    assert found == (reason and Doubt(T0, reason))
