"""The page in Chromium."""

import pytest

from tests.console.chromium import chromium


@pytest.fixture(scope="module")
def driver():
    with chromium() as driver:
        yield driver
