"""Texts that are made from data use the words of docs/voice.md, whatever the data are."""

import re
from pathlib import Path

import pytest

from namesrv_stream.answers.definitions import TopicVerdict
from namesrv_stream.answers.sentences import EVENT_TYPES
from namesrv_stream.answers.verdict import TopicVerdicts, verdict
from tests.answers.lives import Life, members
from tests.data import data
from tests.voice import WORDS

TESTS = Path(__file__).parents[1]
TEXTS = [
    "answers/stories.yaml",
    "answers/verdict.yaml",
    "answers/definitions.yaml",
    "console/answers.yaml",
    "console/refused.yaml",
    "console/screens.txt",
    "cli/refused.yaml",
]
_OLD = re.compile(r"\b0s\b|\bbroker-\w+ \d+ (of|in|is)\b|\bis (down|up) since\b|\d %|\?['\"]?[\],]")
"""A duration of nothing, a bare broker ID, a state with a verb, a blank before %, a question at the end of an error."""


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_has_a_word_that_the_guide_replaces(name):
    lines = (TESTS / name).read_text("utf-8").splitlines()
    told = [line for line in lines if not re.match(r"\s*[#$]|\w.*:$", line)]  # no comments, commands, names of cases
    assert [line for line in told if WORDS.search(line) or _OLD.search(line)] == []


def test_each_type_of_event_has_a_case_with_its_sentence():
    told = set()
    for row in data(__file__, "stories.yaml"):
        life = Life()
        life.happens(row.get("given", ()))
        told |= {line.type for line in life.happens(row["when"])}
    of_tables = {"IMPORT", "RESTORE", "REPAIR"}
    """What `restore`, `repair` and `import` do; tests/cli has their sentences."""
    assert EVENT_TYPES - told - of_tables == {"LOG_GAP", "LIFT_EXPIRY_GUARD"}


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("state", ["up", "late", "suspect", "down"])
@pytest.mark.parametrize("topics", [{}, {"writable": 1}, {"writable": 2}, {"not_writable": 1, "degraded": 2}])
def test_the_health_line_is_one_sentence_for_none_one_both_and_many(count, state, topics):
    brokers = members(", ".join(["b-0/0 up"] * (count > 2) + [f"b-{n}/1 {state}" for n in range(1, count + 1)]))
    states = [each for each, number in topics.items() for _ in range(number)]
    of = {f"T{n}": TopicVerdict(each, 1, 1, True, 1, ()) for n, each in enumerate(states)}
    found = verdict(brokers, TopicVerdicts(of, frozenset()))
    assert re.fullmatch(r"[^.]*(\.\d[^.]*)*\.", found.text), found.text
    assert not WORDS.search(found.text)
    assert not re.search(r"\b(0|all 1|all 2|1 brokers|1 topics)\b(?!:)", found.text.replace("10.0.0", "")), found.text
    assert (found.headline is None) is (found.level == "ok")
