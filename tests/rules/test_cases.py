"""Every scenario case through the rules by themselves: tables, lookups and replies, to the letter."""

import json
from pathlib import Path

import pytest

from replay.cases import load_case
from replay.rules_engine import replay_by_rules
from tests.replay_comparison import differences

CASES = sorted(path for path in (Path(__file__).parent.parent / "cases").glob("*.json") if path.stem != "schema")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_rules_give_what_the_case_expects(path):
    case = json.loads(path.read_text())
    output = replay_by_rules(load_case(path))
    assert differences(case["expect"], output) == []
    for number, expected in case["expect"].get("results", {}).items():
        assert output["results"][number] == expected, f"reply of step {number}"
