"""Modules use only the public names of each other."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("namesrv_stream", "jobs", "chaos", "league", "benchmarks", "tests")


def private_names(path):
    """Yield the private modules and names that a module imports; ruff's SLF001 finds the other ways to them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        else:
            continue
        yield from (name for name in names if name.startswith("_") and not name.startswith("__"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_private_names_are_not_imported(folder):
    found = {f"{path}: {name}" for path in (ROOT / folder).rglob("*.py") for name in private_names(path)}
    assert found == set()
