"""The league's scenarios: the gateway does what is right, or the scenario gives the reason why not."""

from pathlib import Path

import pytest

import league.scenarios
from league.scenario import SCENARIOS, Needs, Scenario
from league.sides import Gateways, NameServers
from tests.league.published_side import PublishedSide

WITHOUT_LOG = [each for each in SCENARIOS if each.needs in (Needs.NOTHING, Needs.V5)]
UNTIMED = [each for each in SCENARIOS if Needs.TIMING not in each.needs]


def assert_as_told(each, side):
    """Right, or wrong for the reason that the scenario gives."""
    found = each.judge(side)
    if each.why_here:
        assert found, "it does right now: take the reason out of the scenario and run `make league`"
    else:
        assert found is None


@pytest.fixture(scope="module")
def published(tmp_path_factory, nobody):
    with PublishedSide(tmp_path_factory.mktemp("published"), nobody) as side:
        yield side


@pytest.fixture(scope="module")
def gateways(kafka, spark, tmp_path_factory):
    with Gateways(tmp_path_factory.mktemp("gateways"), kafka.bootstrap_servers, spark.newSession()) as side:
        yield side


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory):
    with NameServers(tmp_path_factory.mktemp("name-servers")) as side:
        yield side


@pytest.mark.parametrize("each", WITHOUT_LOG, ids=lambda each: each.rule)
def test_what_the_rules_publish_is_right(each, published):
    assert_as_told(each, published)


@pytest.mark.full
@pytest.mark.parametrize("each", UNTIMED, ids=lambda each: each.rule)
def test_the_gateway_with_all_behind_it_does_right(each, gateways):
    assert_as_told(each, gateways)


@pytest.mark.full
def test_a_real_name_server_can_be_judged(name_servers):
    """Its right results show that scenarios can be won, its wrong ones that they can be lost."""
    found = [each.judge(name_servers) for each in SCENARIOS if Needs.SIZE not in each.needs]
    assert None in found
    assert any(found)


def test_all_modules_of_scenarios_are_played():
    modules = {path.stem for path in Path(league.scenarios.__file__).parent.glob("[!_]*.py")}
    assert modules == set(league.scenarios.__all__)


def test_a_scenario_is_judged_by_what_it_finds_and_an_error_is_no_verdict(published):
    def play(trial):
        trial.expect("a thing", "seen", "right")

    def fail(trial):
        raise ConnectionError

    wrong, broken = (Scenario("", (), "", "", "", Needs.NOTHING, each) for each in (play, fail))
    assert wrong.judge(published) == "a thing: seen instead of right"
    with pytest.raises(ConnectionError):
        broken.judge(published)
