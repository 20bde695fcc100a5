"""Waiting of tests: for a condition, with one limit that a loaded machine does not reach."""

from collections.abc import Callable
from typing import TypeVar

from tenacity import retry, stop_after_delay, wait_fixed

T = TypeVar("T")

LIMIT_S = 60.0
"""Time after which what has not happened counts as never happening. A test that is right does not come near it."""

_PAUSE_S = 0.02


def eventually(function: Callable[..., T], limit_s: float = LIMIT_S) -> Callable[..., T]:
    """Return `function` so that a call repeats it until it raises nothing; after the limit the last error is raised."""
    return retry(stop=stop_after_delay(limit_s), wait=wait_fixed(_PAUSE_S), reraise=True)(function)


def until(condition: Callable[[], T], limit_s: float = LIMIT_S) -> T:
    """Return the first true result of `condition`. Fail if there is none within the limit."""

    def is_met() -> T:
        found = condition()
        assert found, f"not within {limit_s:.0f} s"
        return found

    return eventually(is_met, limit_s)()
