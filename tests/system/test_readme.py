"""The README's promises, tested by its own commands, copied out of it."""

import re
import subprocess
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
