"""The page docs/architecture.md: its modules exist, and its table has a row for each package and module."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "namesrv_stream"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
MODULES = sorted(set(re.findall(r"[\w/]+\.py\b", PAGE)))
PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
BESIDE = sorted(path.name for path in PACKAGE.glob("*.py") if path.name != "__init__.py")
ROWS = re.search(r"^\| package \|.*?\n\n", PAGE, re.MULTILINE | re.DOTALL)[0]


@pytest.mark.parametrize("module", MODULES)
def test_each_module_that_the_page_names_exists(module):
    assert (ROOT / module).is_file() or (PACKAGE / module).is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_has_a_row(package):
    assert f"`{package}/" in ROWS


@pytest.mark.parametrize("module", BESIDE)
def test_each_module_beside_the_packages_has_a_row(module):
    assert f"`{module}`" in ROWS
