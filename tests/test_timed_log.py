"""The grammar of timed logs (tests/timed_log.py)."""

import pytest

from tests.timed_log import Act, Step, millis_of, step_of


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("tick", Step([Act(None, False, ["tick"], {})], None)),
        ("2m1s tick ->", Step([Act(121_000, False, ["tick"], {})], [])),
        ("+0.9s -> late; tick 1s", Step([Act(900, True, [], {})], [["late"], ["tick", "1s"]])),
        ("b8..b10 heard -> x", Step([Act(None, False, ["b8", "b9", "b10", "heard"], {})], [["x"]])),
        (
            "0s A registers topics=[T, U] of={a: {b: 'c, d'}}, B leaves",
            Step(
                [
                    Act(0, False, ["A", "registers"], {"topics": ["T", "U"], "of": {"a": {"b": "c, d"}}}),
                    Act(None, False, ["B", "leaves"], {}),
                ],
                None,
            ),
        ),
    ],
)
def test_a_step_has_its_acts_with_their_times_and_fields_and_what_follows(text, step):
    assert step_of(text) == step


@pytest.mark.parametrize(("text", "ms"), [("1d2h", 93_600_000), ("90.001s", 90_001), ("-60m", -3_600_000), ("5ms", 5)])
def test_a_time_is_in_milliseconds(text, ms):
    assert millis_of(text) == ms


@pytest.mark.parametrize("text", ["A x=1 word", "A x=[1", "A 'x", "x=1"])
def test_what_cannot_be_read_is_named(text):
    with pytest.raises(ValueError, match=r"word|open|nothing"):
        step_of(text)
