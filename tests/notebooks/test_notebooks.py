"""The notebooks: executed from nothing on a seeded history, and as they are committed."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from matplotlib.image import imread
from nbclient import NotebookClient

from namesrv_stream.local.jars import CHECKOUT

FOLDER = CHECKOUT / "notebooks"
FILES = sorted(FOLDER.glob("*.ipynb"))
PLOTS = {"churn_history": 6, "route_queries": 0}
LARGEST_BYTES = 500_000
"""Of a notebook, for a web page to show it."""
DAYS = 2


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = tmp_path_factory.mktemp("history") / "registry"
    program = Path(sys.executable).with_name("namesrv-stream")
    subprocess.run([program, "fleet", "--history", str(DAYS), "--seed", "7", "--out", place], check=True, timeout=280)
    return place


def outputs_of(book):
    """Of each cell with code."""
    return [cell.outputs for cell in book.cells if cell.cell_type == "code"]


def images_of(book):
    shown = [output.data for outputs in outputs_of(book) for output in outputs if "data" in output]
    return [base64.b64decode(data["image/png"]) for data in shown if "image/png" in data]


def texts_of(book):
    """All that a reader of the page sees, plots aside."""
    for cell in book.cells:
        yield cell.source
        for output in cell.get("outputs", []):
            yield output.get("text", "")
            yield from (str(data) for kind, data in output.get("data", {}).items() if kind.startswith("text/"))


def is_drawn(image, folder):
    """Whether there is more than a ground and a few lines."""
    file = folder / "plot.png"
    file.write_bytes(image)
    pixels = imread(file)
    return len({tuple(pixel) for row in pixels for pixel in row}) > 20


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.system
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_notebook_runs_from_nothing_and_shows_what_the_committed_one_does(monkeypatch, tmp_path, root, file):
    monkeypatch.setenv("REGISTRY_ROOT", str(root))
    book = nbformat.read(file, as_version=4)
    shown_before = [bool(outputs) for outputs in outputs_of(book)]
    NotebookClient(book, timeout=250, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    assert [bool(outputs) for outputs in outputs_of(book)] == shown_before
    assert len(images_of(book)) == PLOTS[file.stem]
    assert all(is_drawn(image, tmp_path) for image in images_of(book))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_committed_notebook_shows_its_outputs_on_a_web_page(file):
    book = nbformat.read(file, as_version=4)
    nbformat.validate(book)
    executed = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert executed == list(range(1, len(executed) + 1))
    assert not [output for outputs in outputs_of(book) for output in outputs if output.output_type == "error"]
    assert len(images_of(book)) == PLOTS[file.stem]
    assert file.stat().st_size < LARGEST_BYTES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_committed_notebook_has_no_warnings_and_no_path_of_a_machine(file):
    book = nbformat.read(file, as_version=4)
    assert not [output for outputs in outputs_of(book) for output in outputs if output.get("name") == "stderr"]
    assert not [text for text in texts_of(book) if re.search(r"/(home|root|Users|work|tmp|var)/", text)]


def test_both_notebooks_are_there():
    assert {file.stem for file in FILES} == set(PLOTS)
