"""Each arrival case as a log, a tick ahead of each step: the rules give what the case expects."""

import pytest

from replay.rules_engine import replay_by_rules
from tests.arrival_logs import arrival_cases, as_log
from tests.replay_comparison import differences


@pytest.mark.parametrize("name", arrival_cases())
def test_the_rules_give_at_the_end_of_the_log_what_the_case_expects(name):
    log, expected = as_log(name)
    assert differences(expected, replay_by_rules(log)) == []
