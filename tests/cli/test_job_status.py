"""The job's state as `status` shows it: from the tables, and from the election where the tables cannot tell."""

import pytest

from namesrv_stream.kafka.election import Candidate
from namesrv_stream.questions.job_status import FromKafka, job_state
from namesrv_stream.tables.job_progress import JobProgress

ACTIVE, WAITING = Candidate("run-1", "host", True), Candidate("run-2", "host", False)


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
        ("running", FromKafka(problem="Kafka does not answer"), "running"),
        ("running", FromKafka(jobs=[ACTIVE], problem="made anew", is_other_log=True), "other log"),
        ("dead", FromKafka(9, []), "dead"),
        ("dead", FromKafka(0, []), "dead"),  # it had published everything before it died
        ("dead", FromKafka(9, [ACTIVE, WAITING]), "waiting"),
        ("dead", FromKafka(0, [ACTIVE]), "no ticks"),
        ("dead", FromKafka(9, [WAITING]), "standby"),
        ("dead", FromKafka(problem="Kafka does not answer"), "unknown"),
        ("dead", FromKafka(problem="not asked"), "dead"),
    ],
)
def test_a_job_that_publishes_nothing_is_dead_unless_it_takes_part_in_the_election(of_tables, kafka, shown):
    assert job_state(JobProgress(of_tables, since_ms=0, lag_ms=None), kafka) == shown
