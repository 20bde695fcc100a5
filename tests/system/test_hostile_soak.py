"""`make soak-hostile`, for a minute and a half: what it would find is no matter of the time that this machine takes."""

import pytest

from benchmarks.hostile import soak

TIMES = ("lookups", "slowest")


@pytest.mark.full
@pytest.mark.system
def test_hostile_peers_of_all_kinds_harm_no_good_one_and_each_is_named_in_the_log(tmp_path):
    found = [verdict for verdict in soak(tmp_path, 90, "") if not verdict.what.startswith(TIMES)]
    assert [verdict for verdict in found if not verdict.is_fine] == []
    assert sum(verdict.what.startswith("named") for verdict in found) == 10
