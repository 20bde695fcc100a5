"""Names that people take for the same one are found, and others are not."""

import pytest

from namesrv_stream.rules.topic_names import look_alikes


@pytest.mark.parametrize(
    ("one", "other"),
    [("c1", "c1 "), ("c1", "C1"), ("c1", "c\u200b1"), ("broker\uff0da", "broker-a"), ("a b", "a\u00a0b")],
)
def test_names_that_look_alike_are_a_group(one, other):
    assert look_alikes([one, "different", other]) == [[one, other]]


def test_a_name_with_a_blank_at_its_end_is_named_alone():
    assert look_alikes(["c1 ", "c2", "c-1"]) == [["c1 "]]
