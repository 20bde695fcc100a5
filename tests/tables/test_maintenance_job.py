"""jobs/maintain_tables.py: what is refused before Spark starts, and a maintenance by spark-submit as conf/ has it."""

import pytest
from click.testing import CliRunner

from jobs.maintain_tables import main
from namesrv_stream.local.jars import CHECKOUT
from namesrv_stream.tables.schemas import TABLES
from tests.system.test_cluster import submitted
from tests.tables.rows import NOW
from tests.tables.test_publication import batch, claim


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
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == list(TABLES)
    assert "broker_event: 6 files, now 1" in lines
