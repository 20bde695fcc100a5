"""Imports: rules and wire are plain Python, and the layers import one way."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "namesrv_stream"
ENGINES = ("pyspark", "kafka", "deltalake", "delta", "pyarrow")
OUTSIDE_WORLD = {"socket", "asyncio", "time", "os", "threading", "pathlib", "subprocess"}
LAYERS = ["errors", "reporting", "config", "rules", "records", "wire", "access", "tables"]
LAYERS += ["kafka", "analysis", "answers", "job"]
TOP = {"tools", "gateway", "console", "cli"}
"""LAYERS: each may import from those before it; those of TOP come after all of them."""


@cache
def imported(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
    return found


@pytest.mark.parametrize("package", ["rules", "wire"])
def test_importing_all_of_it_loads_no_engine(package):
    code = (
        f"import sys, pkgutil, importlib, namesrv_stream.{package} as p\n"
        "[importlib.import_module(m.name) for m in pkgutil.iter_modules(p.__path__, p.__name__ + '.')]\n"
        f"print([name for name in {ENGINES!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", ["rules", "wire"])
def test_it_reads_no_clock_file_or_socket(package):
    found = {
        (path.name, name)
        for path in (PACKAGE / package).rglob("*.py")
        for name in imported(path)
        if name.split(".")[0] in OUTSIDE_WORLD
    }
    assert found == set()


def test_layers_import_one_way():
    for rank, layer in enumerate(LAYERS):
        after = {*LAYERS[rank + 1 :], *TOP}
        files = [PACKAGE / f"{layer}.py"] if (PACKAGE / f"{layer}.py").exists() else (PACKAGE / layer).rglob("*.py")
        for path in files:
            parts = [name.split(".") for name in imported(path) if name.startswith("namesrv_stream.")]
            assert not {part[1] for part in parts} & after, path


def test_the_package_imports_nothing_that_is_beside_it():
    beside = {path.parent.name for path in PACKAGE.parent.glob("*/__init__.py")} - {PACKAGE.name}
    assert {"benchmarks", "replay"} <= beside
    assert not {name.split(".")[0] for path in PACKAGE.rglob("*.py") for name in imported(path)} & beside


def test_no_modules_import_one_another_in_a_circle_not_even_for_types():
    paths = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    needed = {name: {each for each in imported(path) if each in paths} for name, path in paths.items()}
    TopologicalSorter(needed).prepare()
