"""The page's words: its functions of numbers and times in V8, without a browser."""

import json
import re
from pathlib import Path

import pytest

import namesrv_stream.console
from tests.data import data

MiniRacer = pytest.importorskip("py_mini_racer").MiniRacer
SCRIPT = Path(namesrv_stream.console.__file__).with_name("page") / "words.js"
ROWS = data(__file__, "words.yaml")


@pytest.fixture(scope="module")
def words():
    """A function that calls one of the script's by its name."""
    engine = MiniRacer()
    engine.eval(re.sub(r"^export ", "", SCRIPT.read_text(), flags=re.MULTILINE))
    return lambda name, *values: engine.eval(f"{name}({', '.join(map(json.dumps, values))})")


@pytest.mark.parametrize(("name", "value", "text"), ROWS)
def test_a_number_has_one_text(words, name, value, text):
    assert words(name, value) == text


def test_times_of_a_day_on_which_the_clocks_change_have_their_zone(words):
    words("setZone", "Europe/Berlin")
    times = ["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-26T01:30Z"]
    assert [words("when", each)[-5:] for each in times] == ["GMT+2", "GMT+1", "30:00"]
