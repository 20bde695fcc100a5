"""Detection of a hang: looks without an answer of the JVM, or without a step of the query while the log grows."""

from itertools import count

import pytest

from namesrv_stream.job.hang_watch import LOG_LOOKS, MAX_MISSED_PINGS, QUERY_LOOKS, UNREADY_LOOKS, Hang

TRIGGER_MS = 5_000
LIMIT = QUERY_LOOKS + TRIGGER_MS // 1000


class Job:
    """A job whose JVM answers once between two looks, unless it is told not to."""

    def __init__(self):
        self.standstill = Hang(TRIGGER_MS)
        self.log_end = count().__next__

    def looks(self, number, steps, *, answers=True):
        """Return the number of the first look that finds a hang, and its reason."""
        for n in range(1, number + 1):
            if hung := self.standstill.look(next(steps)):
                return n, str(hung)
            if answers:
                self.standstill.note_answer()
            if self.standstill.asks_for_the_log and self.log_end is not None:
                self.standstill.note_log_end(self.log_end())
        return None


def moving():
    return count()


def still(step=1):
    while True:
        yield step


@pytest.fixture
def job():
    started = Job()
    assert started.looks(3, moving()) is None
    return started


def test_a_jvm_that_does_not_answer_for_60_looks_hangs_and_is_reported_as_unready_before(job):
    assert job.standstill.problem is None
    assert job.looks(UNREADY_LOOKS + 1, moving(), answers=False) is None
    assert job.standstill.problem == "the JVM has not answered for 5 s"
    looks, why = job.looks(MAX_MISSED_PINGS, moving(), answers=False)
    assert looks == MAX_MISSED_PINGS - UNREADY_LOOKS
    assert "the JVM of this job has not answered for 60 s" in why
    assert "start the job again. Nothing is lost" in why


def test_a_jvm_that_answers_within_60_looks_does_not_hang_however_often(job):
    for _ in range(5):
        assert job.looks(MAX_MISSED_PINGS - 1, moving(), answers=False) is None
        assert job.looks(2, moving()) is None
    assert job.standstill.problem is None


def test_a_query_that_stands_still_beyond_its_trigger_while_the_log_grows_hangs(job):
    looks, why = job.looks(2 * LIMIT, still())
    assert LIMIT <= looks <= LIMIT + 1
    assert "the query has not moved for 1805 s and the log has" in why


def test_a_long_batch_whose_records_are_applied_does_not_hang(job):
    steps = (step for step in count() for _ in range(LIMIT - 1))
    assert job.looks(4 * LIMIT, steps) is None


@pytest.mark.parametrize("end", [7, None], ids=["a quiet log", "a Kafka that does not answer"])
def test_a_query_hangs_only_if_the_log_grows(job, end):
    job.log_end = lambda: end
    assert job.looks(3 * LIMIT, still()) is None
    job.log_end = count(8).__next__
    looks, _ = job.looks(2 * LIMIT, still())
    assert looks > LIMIT - 100, "the count begins when the log grows again"


def test_a_kafka_that_is_asked_and_does_not_answer_is_no_jvm_that_does_not(job):
    job.log_end = None
    assert job.looks(LOG_LOOKS + 3 * MAX_MISSED_PINGS, still()) is None
    assert job.standstill.problem is None
