"""jobs/churn_report.py: what is refused, and a page without Spark and by spark-submit as conf/ has it."""

import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from jobs.churn_report import main
from namesrv_stream.tables.root import Root
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.history.seeded import HOUR_MS, SeededRegistry
from tests.system.test_cluster import submitted
from tests.tables.rows import NOW

START_MS = int(datetime(2026, 11, 14, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def root(tmp_path):
    place = Root(str(tmp_path / "registry"))
    registry = SeededRegistry(place, NOW)
    registry.register(START_MS, "10.0.0.1:10911", "broker-a", topics=("T",))
    registry.publish(at_ms=START_MS + 24 * HOUR_MS)
    return place.url


def refused(*options):
    """Return the last line of error output, and the exit status."""
    done = CliRunner().invoke(main, [*map(str, options)])
    assert isinstance(done.exception, SystemExit)
    return done.stderr.splitlines()[-1], done.exit_code


def test_a_folder_without_a_registry_is_one_message(tmp_path):
    said, status = refused("--root", tmp_path / "nothing", "--out", tmp_path / "report.html")
    assert (said.startswith("churn_report: "), "holds no registry" in said, status) == (True, True, 1)


def test_without_matplotlib_the_error_names_how_to_install_it(monkeypatch, root, tmp_path):
    for module in ("report", "plots"):
        monkeypatch.delitem(sys.modules, f"namesrv_stream.analysis.{module}", raising=False)
        monkeypatch.delattr(f"namesrv_stream.analysis.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said, status = refused("--root", root, "--out", tmp_path / "report.html")
    assert said == "churn_report: plots need matplotlib: pip install 'namesrv-stream[analysis]'."
    assert status == 1


@pytest.mark.parametrize(
    ("options", "period"),
    [
        (["--since", "2026-11-14"], "2026-11-14 00:00 UTC to 2026-11-15 00:00 UTC"),
        (
            ["--since", "2026-11-14 01:30+00:00", "--tz", "Europe/Berlin"],
            "2026-11-14 02:30 CET to 2026-11-15 01:00 CET",
        ),
        (["--since", "2026-11-14", "--tz", "Europe/Berlin"], "2026-11-14 00:00 CET to 2026-11-15 01:00 CET"),
    ],
)
def test_a_page_is_written_without_spark_and_takes_times_as_every_command_does(root, tmp_path, options, period):
    page = tmp_path / "report.html"
    done = CliRunner().invoke(main, ["--root", root, *options, "--out", str(page)])
    assert done.stdout == f"{period}: {page}\n", done.output
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.full
@pytest.mark.spark
def test_spark_submit_writes_the_page(root, tmp_path):
    page = tmp_path / "report.html"
    job = CHECKOUT / "jobs" / "churn_report.py"
    done = submitted(job, "--root", root, "--since", "2026-11-14", "--out", page)
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.splitlines()[-1] == f"2026-11-14 00:00 to 2026-11-15 00:00: {page}"  # after its progress
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
