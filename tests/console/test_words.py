"""The page's words: its functions of numbers and times in V8, without a browser."""

import json
import re
from pathlib import Path

import pytest

import namesrv_stream.console

MiniRacer = pytest.importorskip("py_mini_racer").MiniRacer
SCRIPT = Path(namesrv_stream.console.__file__).with_name("page") / "words.js"


@pytest.fixture(scope="module")
def words():
    """A function that calls one of the script's by its name."""
    engine = MiniRacer()
    engine.eval(re.sub(r"^export ", "", SCRIPT.read_text(), flags=re.MULTILINE))
    return lambda name, *values: engine.eval(f"{name}({', '.join(map(json.dumps, values))})")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("duration", 0, "0s"),
        ("duration", -5_000, "0s"),
        ("duration", 999, "0s"),
        ("duration", 61_000, "1m 1s"),
        ("duration", 3_600_000, "1h"),
        ("duration", 90_061_000, "1d 1h"),
        ("percent", 1, "100.0 %"),
        ("percent", 0.9995, "99.950 %"),
        ("percent", 0.25, "25.0 %"),
        ("perm", 6, "RW-"),
        ("perm", 15, "PRWX"),
        ("perm", 0, "---"),
        ("visible", "a b", "a b"),
        ("visible", " a", '" a"'),
        ("eventsText", {"begins": 1, "ends": 2}, "1 broker came, 2 brokers left"),
        (
            "eventsText",
            {"begins": 1, "gaps": 1, "epochs": 3},
            "1 arrival, 1 time without a tick, in 3 moments up to then",
        ),
        ("snapshotText", {"eventTime": None}, "before the first record"),
    ],
)
def test_a_number_has_one_text(words, name, value, text):
    assert words(name, value) == text


def test_times_of_a_day_on_which_the_clocks_change_have_their_zone(words):
    words("setZone", "Europe/Berlin")
    times = ["2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-26T01:30Z"]
    assert [words("when", each)[-5:] for each in times] == ["GMT+2", "GMT+1", "30:00"]
