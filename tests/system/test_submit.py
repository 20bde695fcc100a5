"""`namesrv-stream archive` and `submit`: the job from another folder, with an archive of Java's classes."""

import json
import re
import sys
from pathlib import Path

import pytest

from namesrv_stream.config import as_options
from namesrv_stream.errors import NamesrvError
from namesrv_stream.tools.local import submission as driver
from namesrv_stream.tools.local.class_archive import record_archive
from namesrv_stream.tools.local.submission import submission
from tests.system.clusters import running_job
from tests.system.heartbeats import address, registration

pytestmark = pytest.mark.system  # of those too that start a Kafka or a JVM of their own

PROGRAM = Path(sys.executable).with_name("namesrv-stream")


@pytest.fixture(scope="module")
def archive(kafka, tmp_path_factory):
    """An archive in a folder whose name has a space."""
    made = tmp_path_factory.mktemp("my jars") / "job.jsa"
    made.touch(mode=0o444)  # an old one, as Java leaves it
    steps = []
    record_archive(made, steps.append)
    assert steps[-1] == "waiting for Java to write the archive"
    return made


@pytest.mark.full
def test_the_job_starts_with_the_archive_from_any_folder_and_sigterm_ends_it_in_order(
    heartbeats, archive, tmp_path, monkeypatch
):
    monkeypatch.setattr(driver, "ARCHIVE", archive)
    monkeypatch.chdir(tmp_path)
    heartbeats.say(registration(1))
    classes = tmp_path / "classes.txt"
    options = {"spark.master": "local[2]", "spark.driver.defaultJavaOptions": f"-Xlog:class+load:file={classes}"}
    given = {**heartbeats.options, "log.format": "json"}
    command, environment = submission("route_registry", as_options(given), spark_options=options)
    with running_job(command, tmp_path / "job.log", environment):
        heartbeats.await_offset(1)
        assert heartbeats.live() == [address(1)]
    loaded = classes.read_text()
    for name in ("org.apache.spark.SparkContext", "org.apache.kafka.clients.admin.KafkaAdminClient"):
        assert re.search(rf"{re.escape(name)} source: shared objects file \(top\)", loaded), name
    lines = [json.loads(line) for line in (tmp_path / "job.log").read_text().splitlines() if line.startswith("{")]
    assert lines[-1]["message"] == "the job has stopped cleanly"


@pytest.mark.full
def test_a_job_that_cannot_start_leaves_no_archive_and_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/no/such/python")
    with pytest.raises(NamesrvError, match="/no/such/python"):
        record_archive(tmp_path / "job.jsa", lambda _step: None)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named_before_anything_starts(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NamesrvError, match=r"cannot write to .*file"):
        record_archive(tmp_path / "file" / "job.jsa", pytest.fail)
