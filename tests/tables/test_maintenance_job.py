"""jobs/maintain_tables.py: what it refuses, and a maintenance."""

import subprocess
import sys

from click.testing import CliRunner

from jobs.maintain_tables import main
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.tools.local.jars import CHECKOUT
from tests.tables.batches import batch, claim
from tests.tables.rows import NOW


def test_a_folder_without_a_registry_is_one_message(tmp_path):
    done = CliRunner().invoke(main, ["--root", str(tmp_path / "nothing")])
    [said] = done.stderr.splitlines()
    assert (said.startswith("maintain_tables: "), "no registry at" in said, done.exit_code) == (True, True, 1)


def test_the_program_maintains_the_tables_without_spark_and_prints_a_line_for_each(root):
    publisher = claim(root)
    for number in range(6):
        publisher.publish(batch(number), NOW)
    program = "import runpy, sys; sys.modules['pyspark'] = None; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    command = [sys.executable, "-c", program, CHECKOUT / "jobs" / "maintain_tables.py", "--root", root.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(TABLES)
    assert "broker_event: 6 files before, 1 now" in done.stdout.splitlines()
