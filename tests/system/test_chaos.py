"""A short, seeded part of `make chaos`: jobs that kill themselves under churn, and a replacement."""

import random

import pytest

from chaos.incidents import ALL, SHORT
from chaos.world import World


@pytest.mark.full
@pytest.mark.system
@pytest.mark.timeout(1_800)
def test_after_kills_and_a_replacement_every_snapshot_is_what_the_rules_make_of_the_log(tmp_path):
    rng = random.Random(1)
    with World(tmp_path, seed=1) as world:
        for name in SHORT:
            ALL[name](world, rng)
            world.check()
        assert world.reader.looks
        assert len(world.verifier.snapshots) > len(SHORT)
