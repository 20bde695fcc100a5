"""The README's promises, tested by its own commands, copied out of it."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent
LIMIT_S = 300
BLOCK = re.compile(r"<!-- tested: after the demo -->\n```sh\n(.*?)```", re.DOTALL)

pytestmark = pytest.mark.system


def run(command):
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def demo():
    return run(".venv/bin/namesrv-stream demo")


def test_the_demo_ends_by_itself_and_shows_the_whole_story(demo):
    assert demo.returncode == 0, demo.stderr
    waited_for = re.findall(r"^(?:all|[0-9.:]+) (.*) after [0-9.]+ s$", demo.stdout, re.MULTILINE)
    assert waited_for == ["brokers are in the tables", *["is removed from the tables"] * 2, "is in the tables again"]
    assert "EXPIRED" in demo.stdout
    assert "UNREGISTERED" in demo.stdout
    assert "--as-of" in demo.stdout


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, ["EXPIRED", "cluster-a", '"brokerDatas"']),
        pytest.param(1, ["REGISTERED", "UNREGISTERED", "EXPIRED"], marks=pytest.mark.full),  # spark-sql, a minute
    ],
)
def test_the_commands_for_afterwards_work_as_they_stand(demo, number, expected):
    done = run(BLOCK.findall((CHECKOUT / "README.md").read_text())[number])
    assert done.returncode == 0, done.stderr
    for text in expected:
        assert text in done.stdout


PYTHON = [
    (page, textwrap.dedent(block))
    for page in ("README.md", "docs/python.md")
    for block in re.findall(r"^ *```python\n(.*?)^ *```", (CHECKOUT / page).read_text(), re.DOTALL | re.MULTILINE)
]


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[page for page, _ in PYTHON])
def test_each_block_of_python_runs_after_the_demo_and_prints_what_is_there(page, block):
    done = subprocess.run([sys.executable, "-c", block], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len(printed) >= block.count("print(")
    assert not {"None", "[]"} & {line.split()[-1] for line in printed}
