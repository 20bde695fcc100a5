"""CONTRIBUTING.md and docs/architecture.md: each name of code, file and make target that they give exists."""

import ast
import re
from functools import cache
from pathlib import Path

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


def test_each_file_make_target_and_module_exists():
    assert PATHS and TARGETS and MODULES_RUN
    assert [path for path in PATHS if file_of(path) is None] == []
    made = (ROOT / "Makefile").read_text()
    assert [target for target in TARGETS if not re.search(rf"^{target}:", made, re.MULTILINE)] == []
    assert [name for name in MODULES_RUN if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []


def test_each_name_of_code_is_defined_and_in_the_module_that_the_page_says():
    assert NAMES and PLACED
    assert [name for name in NAMES if set(parts(name)) - defined_names()] == []
    assert [name for name, module in PLACED if set(parts(name)) - names_in(file_of(module))] == []


def test_each_module_of_the_architecture_page_exists_and_its_table_has_a_row_for_each_package_and_module():
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert [module for module in re.findall(r"[\w/]+\.py\b", page) if file_of(module) is None] == []
    rows = re.search(r"^\| package \|.*?\n\n", page, re.MULTILINE | re.DOTALL)[0]
    packages = [f"`{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")]
    modules = [f"`{path.name}`" for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]
    assert [name for name in (*packages, *modules) if name not in rows] == []
