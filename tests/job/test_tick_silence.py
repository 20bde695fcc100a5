"""Warning that no ticks come: of a silence of the log alone, never of the time that a micro-batch takes."""

import contextlib

import pytest

from namesrv_stream.job.job_metrics import TickSilence
from tests.job.batches_run import A, Registry, as_table, registered, tick


class Query:
    """A query whose batches take given times by a clock of their own, watched as the job watches it."""

    def __init__(self, caplog):
        self._now_s = 1_000.0
        self._caplog = caplog
        self._silence = TickSilence(lambda: self._now_s)

    def batch(self, seconds, *, has_tick):
        """Run a batch, and look all the while."""
        with self._silence.during_batch():
            if has_tick:
                self._silence.on_tick()
            self.idle(seconds)

    def failing_batch(self):
        with contextlib.suppress(ZeroDivisionError), self._silence.during_batch():
            raise ZeroDivisionError

    def idle(self, seconds):
        """Let time pass second by second. Looks at the beginning and at the end too."""
        self._silence.look()
        for _ in range(seconds):
            self._now_s += 1
            self._silence.look()

    @property
    def warnings(self):
        return len(self._caplog.records)


@pytest.fixture
def query(caplog):
    return Query(caplog)


@pytest.mark.parametrize("has_tick", [True, False])
def test_a_first_batch_of_more_than_a_minute_is_no_silence(query, has_tick):
    """Its records may be older than the fleet; ticks that came meanwhile are in the next batch."""
    query.idle(90)
    query.batch(63, has_tick=has_tick)
    query.idle(1)
    query.batch(1, has_tick=True)
    assert query.warnings == 0


def test_no_batch_of_whatever_length_is_a_silence_while_each_has_ticks(query):
    for _ in range(3):
        query.batch(200, has_tick=True)
    assert query.warnings == 0


@pytest.mark.parametrize(("idle_s", "warnings"), [(60, 0), (61, 1)])
def test_more_than_a_minute_without_any_record_is_a_silence(query, idle_s, warnings):
    query.batch(1, has_tick=True)
    query.idle(idle_s)
    assert query.warnings == warnings


@pytest.mark.parametrize(("batches", "warnings"), [(61, 0), (62, 1)])
def test_more_than_a_minute_of_batches_without_a_tick_is_a_silence(query, batches, warnings):
    """Sixty seconds from the beginning of the first batch to that of the last, and one more."""
    for _ in range(batches):
        query.batch(1, has_tick=False)
    query.idle(0)
    assert query.warnings == warnings


def test_a_silence_is_named_once_however_its_batches_come_and_the_next_one_again(query):
    query.batch(63, has_tick=False)
    for _ in range(3):
        query.idle(61)
        query.batch(20, has_tick=False)
    assert query.warnings == 1
    query.batch(1, has_tick=True)
    query.idle(61)
    assert query.warnings == 2


def test_a_batch_that_fails_ends_no_silence(query):
    query.batch(1, has_tick=True)
    query.idle(61)
    query.failing_batch()
    query.idle(1)
    assert query.warnings == 1


@pytest.mark.spark
def test_the_micro_batches_of_a_query_measure_the_silence(spark, tmp_path):
    now_s = 0.0
    registry = Registry(tmp_path / "registry")
    registry.batches.tick_silence = silence = TickSilence(lambda: now_s)

    def run(number, event):
        registry.log.records[event.stored.offset] = event.stored
        registry.batches(spark.createDataFrame(as_table([event.stored])), number)

    run(0, registered(A, 0, 0))
    now_s = 100.0
    assert silence.seconds() == 100
    run(1, tick(100_000, 1))
    assert silence.seconds() == 0
