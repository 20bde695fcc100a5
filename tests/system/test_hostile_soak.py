"""`make soak-hostile`, for seconds: what it would find is no matter of the time that this machine takes."""

import pytest

from benchmarks.hostile import soak

pytestmark = pytest.mark.system

TIMES = ("lookups", "slowest")


def verdicts(folder, storm_s):
    return {verdict.what: verdict for verdict in soak(folder, storm_s, "") if not verdict.what.startswith(TIMES)}


def test_hostile_peers_of_all_kinds_harm_no_good_one(tmp_path):
    found = verdicts(tmp_path, 12)
    assert [verdict for verdict in found.values() if not verdict.is_fine and "named" not in verdict.what] == []
    assert len([what for what in found if what.startswith("named")]) == 10


@pytest.mark.full
def test_every_hostile_peer_is_named_in_the_log(tmp_path):
    assert [verdict for verdict in verdicts(tmp_path, 90).values() if not verdict.is_fine] == []
