"""The commands of docs/console.md, run as they are written, but for the console's address."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from namesrv_stream.console.serving import make_app
from tests.clock import now_ms
from tests.console.background import BackgroundConsole
from tests.console.conftest import A, B, make_settings
from tests.reference_docs import PATHS, questions
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


def test_the_page_of_questions_is_made_of_them():
    page = DOCUMENT.with_name("questions.md").read_text(encoding="utf-8")
    assert page == questions(), "`python -m tests.reference_docs` writes docs/questions.md"
    asked = {path for path, of_path in make_app(make_settings("r", "localhost:1")).openapi()["paths"].items()}
    named = {path.replace("NAME", "{name}").replace("TOPIC", "{topic}") for path in PATHS}
    assert named == {path for path in asked if "{" in path or path in named}


def test_every_part_of_the_document_has_its_commands():
    assert len(BLOCKS) == 2
    assert shutil.which("curl"), "the document's commands need curl"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_document_is_answered(url, command):
    line = command.replace("curl -s", "curl -sf").replace("http://127.0.0.1:9870", url)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
