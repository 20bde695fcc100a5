"""The verdict groups brokers by what they share, and says in one sentence what is wrong."""

from urllib.parse import quote

import pytest

from namesrv_stream.answers.causes import causes
from namesrv_stream.answers.definitions import TopicVerdict
from namesrv_stream.answers.verdict import Beside, Left, TopicVerdicts, verdict
from tests.answers.lives import members
from tests.data import data

ROWS = data(__file__, "verdict.yaml")


@pytest.mark.parametrize(("brokers", "counts", "level", "text"), ROWS["said"])
def test_the_sentence_says_what_is_wrong_with_brokers_and_topics(brokers, counts, level, text):
    states = [state for state, count in counts.items() for _ in range(count)]
    topics = {f"T{index}": TopicVerdict(state, 1, 1, True, 1, ()) for index, state in enumerate(states)}
    found = verdict(members(brokers), TopicVerdicts(topics, frozenset()))
    assert (found.level, found.text) == (level, text)


@pytest.mark.parametrize("row", ROWS["causes"], ids=lambda row: row["brokers"])
def test_brokers_are_down_by_what_they_share(row):
    found = causes(members(row["brokers"]))
    assert [f"{each.scope} {each.count}/{each.total} {each.text}" for each in found] == row["told"]


@pytest.mark.parametrize(("brokers", "told"), ROWS["ids"])
def test_a_cause_has_an_id_of_its_state_scope_and_place_or_first_broker(brokers, told):
    found = causes(members(brokers))
    assert {each.id: each.state_count for each in found} == told
    assert quote("".join(told), safe="~") == "".join(told)


def test_nearly_all_brokers_are_not_said_to_be_all():
    [cause] = causes(members("b-0/0 up, " + ", ".join(f"b-{number}/0 down" for number in range(1, 400))))
    assert (cause.scope, cause.count, cause.total) == ("some", 399, 400)
    assert (
        cause.text == "399 of 400 brokers in c1, zone z1 down since 2026-11-26 08:53:00 UTC (over 99% of all brokers)"
    )


@pytest.mark.parametrize(("brokers", "gone", "level", "headline", "end"), ROWS["left"])
def test_who_unregistered_and_is_not_back_is_told_and_is_a_warning_if_topics_went_too(
    brokers, gone, level, headline, end
):
    left = [each.down for each in members(brokers)]
    found = verdict(members("b-1/0 up"), TopicVerdicts({}, frozenset()), Beside(Left(left, gone)))
    assert (found.level, found.headline, found.text) == (level, headline, f"{end}.")
    assert found.brokers.left == len(left)
