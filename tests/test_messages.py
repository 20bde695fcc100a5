"""Each line that can appear in the log at WARNING or above stands in docs/operations.md, with what to do."""

import ast
import re
from functools import cache

import pytest

from namesrv_stream.tools.local.jars import CHECKOUT

LEVELS = {"warning", "error", "exception", "critical"}
FILES = sorted([*(CHECKOUT / "namesrv_stream").rglob("*.py"), *(CHECKOUT / "jobs").glob("*.py")])
HOLE = "…"


def template(node):
    """The message with a hole for each fact; None if it is made elsewhere."""
    match node:
        case ast.Constant(value=str(text)):
            return re.sub(r"%[-\d.,]*[a-z]", HOLE, text).replace("%%", "%")
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else HOLE for part in parts)
    return None


def is_level(node):
    return isinstance(node, ast.Attribute) and node.attr.lower() in LEVELS and ast.unparse(node).startswith("logging.")


def logged(tree):
    """The message of each call that logs at WARNING or above: `log.warning(text, ...)` or `line(..., level, text)`."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
            continue
        if call.func.attr in LEVELS and ast.unparse(call.func.value).endswith("log"):
            yield call, template(call.args[0])
        elif any(is_level(argument) for argument in call.args) and "line" in call.func.attr:
            yield call, template(call.args[-1])


@cache
def messages(path):
    """Line and message of each call."""
    return [(call.lineno, message) for call, message in logged(ast.parse(path.read_text()))]


OPERATIONS = (CHECKOUT / "docs" / "operations.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for table in re.findall(r"^\| message \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", OPERATIONS, re.MULTILINE)
    for line in table.splitlines()
]
DOCUMENTED = {message: (meaning, action) for message, meaning, action in ROWS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_warnings_are_documented_as_they_are_logged(path):
    found = messages(path)
    assert not [line for line, message in found if message is None], "a message is written where it is logged"
    assert not [each for each in found if not re.search(r"\w{3}", each[1])], "a message has words of its own"
    assert not [each for each in found if each[1] not in DOCUMENTED]


def test_each_documented_message_can_be_logged():
    assert DOCUMENTED.keys() == {message for path in FILES for _, message in messages(path)}


def test_each_documented_message_has_a_meaning_and_an_action():
    assert all(meaning and action for meaning, action in DOCUMENTED.values())
