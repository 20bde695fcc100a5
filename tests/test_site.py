"""The documentation as a site: it builds without a warning, and can be read without the internet."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_search_works_in_pages_from_the_disk(site):
    assert (site / "search" / "search_index.js").read_text().startswith("var __index = {")
    assert '<script src="assets/iframe-worker.js">' in (site / "index.html").read_text()
    assert (site / "assets" / "iframe-worker.js").exists()


def test_no_page_loads_anything_from_elsewhere(site):
    assert [str(page) for page in site.rglob("*.html") if _LOADED.search(page.read_text())] == []
