"""Each line that can appear in the log at WARNING or above stands in docs/operations.md, with what to do."""

import ast
import re
from collections import defaultdict

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


@pytest.fixture(scope="module")
def logged_in():
    """Each message with the places of its calls."""
    found = defaultdict(list)
    for path in FILES:
        for line, message in messages(path):
            found[message].append(f"{path.relative_to(CHECKOUT)}:{line}")
    return found


def test_warnings_are_documented_as_they_are_logged_with_a_meaning_and_an_action(logged_in):
    assert logged_in.get(None, []) == [], "a message is written where it is logged"
    assert [each for each in logged_in if not re.search(r"\w{3}", each)] == [], "a message has words of its own"
    assert DOCUMENTED.keys() == logged_in.keys()
    assert all(meaning and action for meaning, action in DOCUMENTED.values())
