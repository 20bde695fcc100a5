"""`make soak` and `make soak-hostile`: what the first takes for growth, and a short one of each."""

import pytest

from benchmarks import hostile
from benchmarks.soak import BATCHES, Course, soak

MINUTES = [float(minute) for minute in range(1, 11)]


@pytest.mark.parametrize(
    ("figure", "values", "is_fine"),
    [
        ("descriptors: JVM", [540 + minute % 2 for minute in range(10)], True),
        ("descriptors: JVM", [540 + 2 * minute for minute in range(10)], False),
        ("descriptors: JVM", [540 + 20 * minute + 10 * (minute % 3) for minute in range(10)], False),
        ("threads: JVM", [90, 240, 110, 70, 200, 80, 190, 75, 210, 160], True),  # a pool
        ("threads: gateway", [5, 10, 15, 20, 25, 30, 30, 30, 30, 30], True),  # it has warmed up
        ("resident MB: console", [100 + 1.3 * minute for minute in range(10)], False),
        ("files: tables", [400 * minute for minute in range(10)], False),
        ("files: tables", [100 * minute for minute in range(10)], True),
        ("MB: Kafka", [1_000 * minute for minute in range(10)], True),
    ],
)
def test_a_figure_may_rise_by_its_bound_over_the_second_half(figure, values, is_fine):
    [verdict] = Course(MINUTES, [{figure: value} for value in values]).verdicts()
    assert verdict.is_fine is is_fine


@pytest.mark.full
@pytest.mark.system
@pytest.mark.timeout(1_800)
def test_nothing_grows_in_400_micro_batches(tmp_path):
    """Memory is left out: within minutes it is still the start's."""
    course = soak(tmp_path, seconds=0, every_s=15, batches=400)
    assert course.values(BATCHES)[-1] >= 400
    rising = [each for each in course.verdicts() if not each.is_fine and not each.figure.startswith("resident")]
    assert rising == []


@pytest.mark.full
@pytest.mark.system
def test_hostile_peers_of_all_kinds_harm_no_good_one_and_each_is_named_in_the_log(tmp_path):
    """Times are left out: they are a matter of the machine."""
    verdicts = hostile.soak(tmp_path, 90, "")
    wrong = [each for each in verdicts if not each.is_fine and not each.what.startswith(("lookups", "slowest"))]
    assert wrong == []
    assert sum(each.what.startswith("named") for each in verdicts) == 10
