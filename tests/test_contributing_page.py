"""CONTRIBUTING.md: each name of code, file and make target that it gives exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "namesrv_stream"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
QUOTED = sorted(set(re.findall(r"`([^`]+)`", PAGE)))
MADE = {".venv", "site/"}
"""Folders that `make` makes, which a checkout may lack."""

WORDS = {"is_", "has_", "on_..."}
"""Beginnings of names."""

PATHS = [each for each in QUOTED if ("/" in each or each.endswith(".toml")) and " " not in each and each not in MADE]
TARGETS = [each.removeprefix("make ") for each in QUOTED if each.startswith("make ")]
MODULES_RUN = [each.removeprefix("python -m ") for each in QUOTED if each.startswith("python -m ")]
NAMES = [
    each for each in QUOTED if re.fullmatch(r"[A-Za-z_][\w.]*(\(\.\.\.\)|=\w+)?", each) and each not in {*PATHS, *WORDS}
]
PLACED = re.findall(r"`([\w.]+(?:\(\.\.\.\))?)`(?: in | of | to | \()`([\w/]+\.py)`", PAGE)
"""Name and module in which the page says it is."""


def file_of(path):
    """The file or folder that the page means: below the checkout or below the package."""
    return next((base / path for base in (ROOT, PACKAGE) if (base / path).exists()), None)


@cache
def names_in(file):
    """Every name that the module defines: functions, classes, variables, fields and attributes."""
    return set(_definitions(file))


def _definitions(file):
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@cache
def defined_names():
    return set().union(*map(names_in, PACKAGE.rglob("*.py")))


def parts(name):
    """`RouteRegistry._tick` as its two parts, `_later(...)` and `is_later=True` as the name alone."""
    return re.match(r"[\w.]+", name)[0].split(".")


def test_the_page_has_names_of_each_kind():
    assert PATHS and TARGETS and MODULES_RUN and NAMES and PLACED


@pytest.mark.parametrize("path", PATHS)
def test_each_file_and_folder_exists(path):
    assert file_of(path) is not None


@pytest.mark.parametrize("target", TARGETS)
def test_each_make_target_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("module", MODULES_RUN)
def test_each_module_to_run_exists(module):
    assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_code_is_defined(name):
    assert not set(parts(name)) - defined_names()


@pytest.mark.parametrize(("name", "module"), PLACED)
def test_each_name_is_in_the_module_that_the_page_says(name, module):
    assert not set(parts(name)) - names_in(file_of(module))
