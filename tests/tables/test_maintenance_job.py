"""jobs/maintain_tables.py: what is refused before Spark starts, and a maintenance by spark-submit as conf/ has it."""

import os
import signal
import sys

import pytest
from click.testing import CliRunner

from jobs.maintain_tables import main
from namesrv_stream.tables.schemas import BROKER_EVENT, TABLES
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.system.heartbeats import eventually
from tests.system.test_cluster import SPARK_HOME, environment, exit_code_within_grace, running, submitted
from tests.tables.rows import NOW
from tests.tables.test_publication import assert_shows_exactly, batch, claim


def test_a_folder_without_a_registry_is_one_message(tmp_path):
    done = CliRunner().invoke(main, ["--root", str(tmp_path / "nothing")])
    [said] = done.stderr.splitlines()
    assert (said.startswith("maintain_tables: "), "holds no registry" in said, done.exit_code) == (True, True, 1)


@pytest.mark.full
@pytest.mark.spark
def test_spark_submit_maintains_the_tables_and_prints_a_line_for_each(root):
    publisher = claim(root)
    for number in range(6):
        publisher.publish(batch(number), NOW)
    done = submitted(CHECKOUT / "jobs" / "maintain_tables.py", "--root", root.url)
    assert done.returncode == 0, done.stderr[-5000:]
    # A long run says each ten seconds what it does, and spark-submit prints that on standard output.
    lines = [line for line in done.stdout.splitlines() if not line.startswith("maintain_tables: ")]
    assert [line.split(":")[0] for line in lines] == list(TABLES)
    assert "broker_event: 6 files, now 1" in lines


@eventually
def await_file(path):
    assert path.exists()


@pytest.mark.full
@pytest.mark.spark
def test_sigterm_to_spark_submit_ends_a_maintenance_within_a_call_of_spark_in_order(root, tmp_path):
    """Tables that had their turn are maintained, and the next run does the others."""
    publisher = claim(root)
    for number in range(6):
        publisher.publish(batch(number), NOW)
    log, waits = tmp_path / "log", tmp_path / "waits"
    job = CHECKOUT / "tests" / "tables" / "waiting_maintenance.py"
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", job, BROKER_EVENT.name, waits]
    python_path = {"PYTHONPATH": str(CHECKOUT)}
    with running([*command, "--root", root.url], log, environment(sys.executable) | python_path) as process:
        await_file(waits)
        os.kill(process.pid, signal.SIGTERM)
        assert exit_code_within_grace(process) == 128 + signal.SIGTERM
    said = log.read_text()
    assert said.splitlines()[-1].startswith("maintain_tables: ended by a signal. "), said
    assert "Traceback" not in said
    assert_shows_exactly(root, *range(6))
    done = submitted(CHECKOUT / "jobs" / "maintain_tables.py", "--root", root.url)
    assert "broker_event: 6 files, now 1" in done.stdout.splitlines()
