"""A wheel in an environment that has the dependencies and nothing of the checkout."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from namesrv_stream.tables.root import Root
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.answers.seeded import HOUR_MS, SeededRegistry
from tests.tables.batches import batch, claim
from tests.tables.rows import NOW

PAGE = (CHECKOUT / "notebooks" / "README.md").read_text()
[COMMANDS] = re.findall(r"<!-- tested: in a wheel -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
JUPYTER_EXECUTE = "from nbclient.cli import main; main()"
"""The package that `jupyter execute` runs, which is not among the environment's own."""
WHERE = """
from namesrv_stream.tools.local.jars import CONF, JARS
print(CONF, JARS)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The file that WHEEL names, as `make wheel` sets it, and else one of the checkout."""
    if "WHEEL" in os.environ:
        return Path(os.environ["WHEEL"])
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", folder, CHECKOUT], check=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A function that runs a program of the environment in a folder of its own, and returns its output."""
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    python = place / "venv" / "bin" / "python"
    [packages] = (place / "venv").glob("lib/python*/site-packages")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel],
        check=True,
    )
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    own = {"XDG_CACHE_HOME": str(place / "cache"), "PATH": f"{python.parent}:{os.environ['PATH']}"}

    return lambda *command: output_of(command, place, own)


def output_of(command, folder, own):
    """Return what a program says that runs in a folder, with these variables and none that name the checkout."""
    clean = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "SPARK_CONF_DIR")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=clean | own, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.full
def test_a_wheel_has_all_that_runs_outside_of_the_checkout(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = ["conf/ivy.xml", "conf/spark-defaults.conf", "conf/kafka.properties", "jobs/maintain_tables.py",
             "notebooks/churn_history.ipynb", "analysis/views.sql", "py.typed"]  # fmt: skip
    assert {f"namesrv_stream/{file}" for file in files} <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


def test_an_editable_install_copies_nothing_of_the_checkout(tmp_path):
    build = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=CHECKOUT, check=True)
    [built] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        [link] = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert archive.read(link).decode() == str(CHECKOUT)


@pytest.mark.full
def test_an_installed_wheel_reads_a_registry_without_the_checkout(environment, root):
    claim(root).publish(batch(0), NOW)
    where = environment("python", "-c", "import namesrv_stream; print(namesrv_stream.__file__)")
    assert str(CHECKOUT) not in where
    assert "CREATE OR REPLACE TEMPORARY VIEW broker_dim" in environment(
        "namesrv-stream", "--root", root.url, "snapshots", "--sql"
    )
    reading = (
        "import sys; from namesrv_stream.tables.registry import open_tables as o; print(len(o(sys.argv[1])['topic']))"
    )
    assert environment("python", "-c", reading, root.url) == "2\n"


@pytest.mark.full
@pytest.mark.spark
def test_an_installed_wheel_fetches_its_jars_by_one_command_and_runs_a_notebook(environment, root):
    registry = SeededRegistry(root, NOW)
    registry.register(NOW - HOUR_MS, "10.0.0.1:10911", "broker-a", topics=("T",))
    registry.publish(at_ms=NOW)
    [folder] = environment("namesrv-stream", "jars").splitlines()
    assert list(Path(folder).glob("delta-spark*.jar"))
    conf, jars = environment("python", "-c", WHERE).split()
    assert str(CHECKOUT) not in conf + jars + folder
    assert folder.startswith(jars)
    [copy, run] = COMMANDS.splitlines()[-2:]
    run = run.replace("/your/registry", root.url).replace("jupyter execute", f"python -c '{JUPYTER_EXECUTE}'")
    environment("bash", "-euc", f"{copy}\n{run}")
    assert "broker-a 0" in environment("cat", "churn_history.ipynb")


@pytest.mark.full
def test_the_wheel_and_what_it_declares_run_the_demo_in_an_empty_folder(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    (tmp_path / "empty").mkdir()
    tools = tmp_path / "venv" / "bin"
    own = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
        "PATH": f"{tools}:{os.environ['PATH']}",
    }
    output_of([tools / "pip", "install", "--quiet", wheel], tmp_path / "empty", own)
    assert "cart_changed" in output_of([tools / "namesrv-stream", "demo"], tmp_path / "empty", own)


@pytest.fixture
def root(tmp_path):
    return Root(str(tmp_path / "registry"))
