"""The notebooks: executed from nothing on a seeded history, and as they are committed."""

import base64
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import nbformat
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from nbclient import NotebookClient

from namesrv_stream.analysis import palette
from namesrv_stream.tables.root import Root
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.answers.seeded import HOUR_MS, SeededRegistry
from tests.tables.rows import NOW

FOLDER = CHECKOUT / "notebooks"
FILES = sorted(FOLDER.glob("*.ipynb"))
DATA_COLOURS = {
    "churn_history": [
        palette.IN_ROUTES,
        palette.IN_ROUTES,
        palette.VERMILION,
        palette.VERMILION,
        palette.GREEN,
        palette.BLUE,
    ],
    "route_queries": [],
}
"""The colours in which data is drawn, of each plot in order."""
SAID_OF_SAMPLE = {"churn_history": {3}, "route_queries": set()}
"""Places of the plots with a sentence in place of bars: all leases of the sample expire after exactly 120 s."""
LEGEND_PIXELS = 400
"""A colour has no more of them where nothing but the legend shows it."""
LARGEST_BYTES = 500_000
"""The parts of a notebook with which a web page shows it."""
DAYS = 2


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = tmp_path_factory.mktemp("history") / "registry"
    program = Path(sys.executable).with_name("namesrv-stream")
    subprocess.run([program, "fleet", "--history", str(DAYS), "--seed", "7", "--out", place], check=True)
    return place


def outputs_of(book):
    """Return the outputs of each cell with code."""
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


def assert_plots_have_data(book, colours, said=frozenset()):
    plots = [imread(BytesIO(image))[..., :3] for image in images_of(book)]
    pixels = [
        np.count_nonzero(np.abs(plot - to_rgb(colour)).max(axis=-1) < 1 / 512)
        for number, (plot, colour) in enumerate(zip(plots, colours, strict=True))
        if number not in said
    ]
    assert min(pixels, default=LEGEND_PIXELS + 1) > LEGEND_PIXELS, pixels


def executed(file, root, monkeypatch):
    monkeypatch.setenv("REGISTRY_ROOT", str(root))
    book = nbformat.read(file, as_version=4)
    NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    return book


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.system
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_notebook_runs_from_nothing_and_shows_what_the_committed_one_does(monkeypatch, root, file):
    book = executed(file, root, monkeypatch)
    committed = nbformat.read(file, as_version=4)
    assert [bool(outputs) for outputs in outputs_of(book)] == [bool(outputs) for outputs in outputs_of(committed)]
    assert_plots_have_data(book, DATA_COLOURS[file.stem], SAID_OF_SAMPLE[file.stem])


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_notebook_runs_on_a_registry_in_which_nothing_has_happened_yet(monkeypatch, tmp_path, file):
    registry = SeededRegistry(Root(str(tmp_path / "registry")), NOW)
    registry.register(NOW - HOUR_MS, "10.0.0.1:10911", "broker-a", topics=("T",))
    registry.publish(at_ms=NOW)
    book = executed(file, tmp_path / "registry", monkeypatch)
    assert len(images_of(book)) == len(DATA_COLOURS[file.stem])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_committed_notebook_shows_its_outputs_on_a_web_page_and_no_warnings_and_no_path_of_a_machine(file):
    book = nbformat.read(file, as_version=4)
    nbformat.validate(book)
    executed = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert executed == list(range(1, len(executed) + 1))
    assert not [output for outputs in outputs_of(book) for output in outputs if output.output_type == "error"]
    assert_plots_have_data(book, DATA_COLOURS[file.stem], SAID_OF_SAMPLE[file.stem])
    assert file.stat().st_size < LARGEST_BYTES
    assert not [output for outputs in outputs_of(book) for output in outputs if output.get("name") == "stderr"]
    assert not [text for text in texts_of(book) if re.search(r"/(home|root|Users|work|tmp|var)/", text)]


def test_both_notebooks_are_there():
    assert {file.stem for file in FILES} == set(DATA_COLOURS)
