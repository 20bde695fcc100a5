"""The forge's workflows run the same commands as CONTRIBUTING.md: `make lint-workflows` reads them by a linter."""

from pathlib import Path

import pytest
import yaml

from tests.full import PARTS

WORKFLOWS = Path(__file__).parents[1] / ".github" / "workflows"
MAKEFILE = WORKFLOWS.parents[1] / "Makefile"


def jobs(file):
    return yaml.safe_load((WORKFLOWS / file).read_text())["jobs"]


def test_the_long_tests_run_in_all_their_parts():
    assert jobs("nightly.yml")["full"]["strategy"]["matrix"]["part"] == list(PARTS)


@pytest.mark.parametrize("file", ["checks.yml", "nightly.yml"])
def test_each_command_is_a_target_of_the_makefile(file):
    targets = {line.partition(":")[0] for line in MAKEFILE.read_text().splitlines() if ":" in line}
    targets = {name for line in targets for name in line.split()}
    commands = [step["run"].split() for job in jobs(file).values() for step in job["steps"] if "run" in step]
    made = [words[1] for words in commands if words[0] == "make"]
    assert made
    assert set(made) <= targets
