"""The documentation as a site: it builds without a warning, and can be read without the internet."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console import pictures

PROJECT = Path(__file__).parents[1]
_LOADED = re.compile(r"""<(?:script|img|link rel="(?:stylesheet|icon)")[^>]*(?:src|href)="(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    mkdocs = Path(sys.executable).with_name("mkdocs")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [mkdocs, "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_page_of_the_docs_is_in_the_navigation_and_nothing_else():
    pages = {str(file.relative_to(PROJECT / "docs")) for file in (PROJECT / "docs").rglob("*.md")}
    text = (PROJECT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert set(re.findall(r"- (?:\w+: )?([\w./-]+\.md)", text)) == {*pages, "index.md"}


def test_each_picture_is_made_by_the_command_that_makes_all():
    assert {file.stem for file in (PROJECT / "docs").rglob("*.png")} == pictures.NAMES
    assert json.loads(pictures.PARTS.read_text()).keys() == pictures.NAMES


def test_no_diagram_needs_a_program_to_be_drawn():
    """Mermaid's own is loaded from the web."""
    pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
    assert [page.name for page in pages if "```mermaid" in page.read_text()] == []


def test_search_works_in_pages_from_the_disk(site):
    assert (site / "search" / "search_index.js").read_text().startswith("var __index = {")
    assert '<script src="assets/iframe-worker.js">' in (site / "index.html").read_text()
    assert (site / "assets" / "iframe-worker.js").exists()


def test_no_page_loads_anything_from_elsewhere(site):
    assert [str(page) for page in site.rglob("*.html") if _LOADED.search(page.read_text())] == []
