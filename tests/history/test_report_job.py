"""jobs/churn_report.py under spark-submit, as conf/spark-defaults.conf says."""

import subprocess
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from namesrv_stream.fleet.chronicle import HOUR_MS, Chronicle, chronicle_plan
from namesrv_stream.local.jars import CHECKOUT
from namesrv_stream.tables.root import Root
from tests.history.by_rules import publish_by_rules
from tests.system.test_cluster import SPARK_HOME, environment
from tests.tables.rows import NOW

pytestmark = pytest.mark.spark

START_MS = int(datetime(2026, 11, 14, tzinfo=UTC).timestamp() * 1000)
LIMIT_S = 200


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = Root(str(tmp_path_factory.mktemp("history") / "registry"))
    publish_by_rules(Chronicle(chronicle_plan(seed=1), START_MS, 1).records(), place, NOW, 6 * HOUR_MS, [])
    return place


def submitted(*options):
    submit = [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "1g"]
    command = [*submit, CHECKOUT / "jobs" / "churn_report.py", *options]
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment(sys.executable),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


class References(HTMLParser):
    """What a browser would fetch for a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_the_job_writes_a_page_that_fetches_nothing(root, tmp_path):
    page = tmp_path / "report.html"
    done = submitted("--root", root.url, "--since", "2026-11-14", "--out", page)
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout == f"2026-11-14 00:00 to 2026-11-15 00:00: {page}\n"
    text = page.read_text("utf-8")
    references = References()
    references.feed(text)
    assert len(references.found) == 5
    assert all(reference.startswith("data:image/png;base64,") for reference in references.found)
    assert "url(" not in text
    assert "@import" not in text


def test_a_folder_without_a_registry_is_one_message(tmp_path):
    done = submitted("--root", tmp_path / "nothing", "--out", tmp_path / "report.html")
    assert done.returncode == 1
    said = done.stdout + done.stderr  # spark-submit puts a driver's standard error into its standard output
    assert [line for line in said.splitlines() if line.startswith("churn_report:") and "holds no registry" in line]
    assert "Traceback" not in said
    assert not (tmp_path / "report.html").exists()
