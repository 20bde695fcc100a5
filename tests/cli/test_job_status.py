"""The job's state as `status` shows it: from the election and the active job's report, and from the tables."""

import pytest

from namesrv_stream.answers.job_status import FromKafka, job_state
from namesrv_stream.kafka.election import Candidate, JobReport

ACTIVE, WAITING = Candidate("run-1", "host", True), Candidate("run-2", "host", False)
JVM = "the JVM has not answered for 5 s"


def reported(role, problem=None):
    return FromKafka(0, [ACTIVE, WAITING], report=JobReport("run-1", role, problem))


@pytest.mark.parametrize(
    ("of_tables", "kafka", "shown"),
    [
        ("running", FromKafka(0, [ACTIVE]), "running"),
        ("catching up", FromKafka(9, [ACTIVE]), "catching up"),
        ("stopped in order", FromKafka(9, []), "stopped in order"),
        ("stopped in order", FromKafka(9, [WAITING]), "standby"),
        ("stopped in order", FromKafka(9, [ACTIVE]), "starting"),
        ("running", FromKafka(0, []), "dead"),  # killed a moment ago
        ("catching up", FromKafka(9, []), "dead"),
        ("starting", FromKafka(9, []), "dead"),
        ("running", FromKafka(0, [WAITING]), "running"),  # members have no partition while they are balanced anew
        ("running", FromKafka(problem="not asked"), "running"),
        ("running", FromKafka(problem="Kafka does not answer"), "unknown"),
        ("running", FromKafka(notice="no right on the group"), "running"),
        ("stopped in order", FromKafka(problem="Kafka does not answer"), "stopped in order"),
        ("running", FromKafka(jobs=[ACTIVE], problem="made anew", is_other_log=True), "other log"),
        ("silent", FromKafka(9, []), "dead"),
        ("silent", FromKafka(0, []), "dead"),  # it had published everything before it died
        ("silent", FromKafka(9, [ACTIVE, WAITING]), "waiting"),
        ("silent", FromKafka(0, [ACTIVE]), "no ticks"),
        ("silent", FromKafka(9, [WAITING]), "taking over"),
        ("silent", FromKafka(problem="Kafka does not answer"), "unknown"),
        ("silent", FromKafka(problem="not asked"), "silent"),
        (None, FromKafka(problem="not asked"), "unknown"),
        (None, FromKafka(jobs=[]), "dead"),
        (None, reported("active"), "running"),  # the tables are damaged, and the job has not noticed yet
        ("running", reported("active"), "running"),
        ("running", reported("active", JVM), "not answering"),
        ("running", reported("waiting", "no room is left"), "waiting"),
        ("running", reported("waiting", None), "waiting"),
        ("running", reported("standby"), "taking over"),
        ("silent", reported("starting"), "taking over"),
        ("stopped in order", reported("standby"), "starting"),
        ("silent", reported("active"), "no ticks"),
        ("not started", FromKafka(jobs=[]), "not started"),  # a first start is no dead job
        ("not started", FromKafka(jobs=[WAITING]), "starting"),
        ("not started", FromKafka(jobs=[ACTIVE]), "starting"),
        ("not started", reported("starting"), "starting"),
        ("not started", reported("waiting", "no room is left"), "waiting"),
        ("not started", FromKafka(problem="Kafka does not answer"), "unknown"),
    ],
)
def test_the_jobs_state_is_what_the_holder_of_the_lock_reports_unless_nobody_holds_it(of_tables, kafka, shown):
    assert job_state(of_tables, kafka) == shown
