"""The commands of docs/console.md, run as they are written, but for the console's address."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs/console.md"
BLOCKS = re.findall(r"<!-- tested: against a console -->\n```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]


def test_every_part_of_the_document_has_its_commands():
    assert len(BLOCKS) == 2
    assert shutil.which("curl"), "the document's commands need curl"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_document_is_answered(still, command):
    line = command.replace("curl -s", "curl -sf").replace("http://127.0.0.1:9870", still.url)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
