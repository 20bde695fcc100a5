"""The commands of docs/console.md, run as they are written, but for the console's address."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clock import now_ms
from tests.console.background import BackgroundConsole
from tests.console.conftest import A, B, make_settings
from tests.registry import PublishedRegistry

DOCUMENT = Path(__file__).parents[2] / "docs/console.md"
BLOCKS = re.findall(r"<!-- tested: against a console -->\n```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]


@pytest.fixture(scope="module")
def url(tmp_path_factory, nobody):
    """A console on a registry with the demo's names."""
    root = str(tmp_path_factory.mktemp("docs") / "registry")
    registry = PublishedRegistry(root, now_ms() - 60_000)
    registry.register(A, "cluster-a", "broker-a-0", zone_name="zone-1", topics=("cart_changed",))
    registry.register(B, "cluster-a", "broker-a-1", zone_name="zone-2", topics=("cart_changed",))
    with BackgroundConsole(make_settings(root, nobody)) as console:
        yield console.url


def test_every_part_of_the_document_has_its_commands():
    assert len(BLOCKS) == 2
    assert shutil.which("curl"), "the document's commands need curl"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_document_is_answered(url, command):
    line = command.replace("curl -s", "curl -sf").replace("http://127.0.0.1:9870", url)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
