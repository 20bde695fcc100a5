"""The number of random examples of a test, in a whole run and in a quick one."""

from hypothesis import settings

USUAL = 100
"""Hypothesis's own number, to which those of `examples` are in proportion."""


def examples(count, **more):
    """Return settings for `count` examples in `make test`, and for a tenth of them in `make test-quick`."""
    return settings(max_examples=max(1, count * settings().max_examples // USUAL), **more)
