"""Docstrings begin with a verb (what the thing does) or a noun (what it is)."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("namesrv_stream", "jobs", "chaos", "league", "replay", "real_rocketmq", "benchmarks", "tests")
QUESTIONS = {"How", "What", "When", "Where", "Whether", "Who", "Whose", "Why"}
RIDDLES = {"As", "Hears", "If", "It", "None", "Of", "Says", "So", "Tells", "That", "Those"}


def docstrings(path):
    """Yield (line, docstring) of the module, of each class and function in it, and of what they assign."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            yield node.body[0].lineno, text
        for assigned, below in pairwise(node.body):
            match assigned, below:
                case (ast.Assign() | ast.AnnAssign(), ast.Expr(value=ast.Constant(value=str(text)))):
                    yield below.lineno, text


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_begin_with_a_verb_or_a_noun(folder):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(path)
        if text.split()[0].rstrip(",:") in QUESTIONS | RIDDLES
    ]
    assert not found, "\n".join(found)
