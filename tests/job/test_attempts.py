"""Failures in a row: which are borne, and how long the job waits after each."""

from namesrv_stream.job.failures import FailedAttempts

OUTAGE, UNKNOWN = False, True
DAYS_S = 3 * 86_400


def after(*attempts):
    failed = FailedAttempts()
    for ran_s, is_unknown in attempts:
        failed.add(ran_s, is_unknown=is_unknown)
    return failed


def test_the_pause_grows_to_half_a_minute_and_begins_anew_after_a_query_that_ran_for_a_while():
    assert [after(*[(0, OUTAGE)] * times).pause_s for times in (1, 2, 3, 6, 60)] == [1, 2, 4, 30, 30]
    assert after(*[(0, OUTAGE)] * 9, (DAYS_S, OUTAGE)).pause_s == 1


def test_the_first_failure_after_an_outage_that_has_ended_is_none_in_a_row():
    """A job that works again keeps the registry and waits a second, however soon it fails again."""
    failed = after(*[(0, OUTAGE)] * 9, (0, UNKNOWN), (0, UNKNOWN))
    failed.end_outage()
    failed.add(40, is_unknown=False)
    assert (failed.in_a_row, failed.pause_s, failed.unknown_in_a_row) == (1, 1, 2)


def test_a_third_unknown_failure_in_a_row_is_a_defect():
    assert not after((0, UNKNOWN), (0, UNKNOWN)).are_a_defect
    assert after((0, UNKNOWN), (0, UNKNOWN), (0, UNKNOWN)).are_a_defect


def test_an_unknown_failure_long_after_an_outage_is_borne():
    assert not after(*[(0, OUTAGE)] * 9, (DAYS_S, UNKNOWN)).are_a_defect


def test_outages_do_not_count_as_unknown_failures():
    assert not after(*[(0, OUTAGE)] * 9, (0, UNKNOWN)).are_a_defect
