"""Detection of a hang: looks without an answer of the JVM, or without a step of a running micro-batch."""

from itertools import count, repeat

import pytest

from namesrv_stream.job.hang_watch import BATCH_LOOKS, MAX_MISSED_PINGS, UNREADY_LOOKS, Hang


class Job:
    """A job whose JVM answers once between two looks, unless it is told not to."""

    def __init__(self):
        self.standstill = Hang()

    def looks(self, number, steps, *, answers=True):
        """Return the number of the first look that finds a hang, and its reason."""
        for n in range(1, number + 1):
            if hung := self.standstill.look(next(steps)):
                return n, str(hung)
            if answers:
                self.standstill.note_answer()
        return None


@pytest.fixture
def job():
    started = Job()
    assert started.looks(3, count()) is None
    return started


def test_a_jvm_that_does_not_answer_for_60_looks_hangs_and_is_reported_as_unready_before(job):
    assert job.standstill.problem is None
    assert job.looks(UNREADY_LOOKS + 1, count(), answers=False) is None
    assert job.standstill.problem == "the JVM has not answered for 5 s"
    looks, why = job.looks(MAX_MISSED_PINGS, count(), answers=False)
    assert looks == MAX_MISSED_PINGS - UNREADY_LOOKS
    assert "the JVM of this job has not answered for 60 s" in why
    assert "No record is lost" in why


def test_a_jvm_that_answers_within_60_looks_does_not_hang_however_often(job):
    for _ in range(5):
        assert job.looks(MAX_MISSED_PINGS - 1, count(), answers=False) is None
        assert job.looks(2, count()) is None
    assert job.standstill.problem is None


def test_a_micro_batch_that_makes_no_step_hangs(job):
    looks, why = job.looks(2 * BATCH_LOOKS, repeat(1))
    assert BATCH_LOOKS <= looks <= BATCH_LOOKS + 1
    assert "a micro-batch has made no step for 1800 s" in why


def test_a_long_batch_whose_records_are_applied_does_not_hang(job):
    steps = (step for step in count() for _ in range(BATCH_LOOKS - 1))
    assert job.looks(4 * BATCH_LOOKS, steps) is None


def test_a_query_without_a_micro_batch_does_not_hang(job):
    assert job.looks(3 * BATCH_LOOKS, repeat(None)) is None
    looks, _ = job.looks(2 * BATCH_LOOKS, repeat(1))
    assert looks >= BATCH_LOOKS, "the count begins with the batch"
