"""A job that has no descriptor left."""

import resource

import psutil
import pytest

from benchmarks.harness import job_parts
from namesrv_stream.config import as_options
from namesrv_stream.tools.local.process import OwnedProcess
from namesrv_stream.tools.local.submission import submission
from tests.system.clusters import exit_code_within_grace
from tests.system.heartbeats import eventually, registration


@pytest.mark.full  # a minute of a job by spark-submit
@pytest.mark.parametrize("part", ["JVM", "driver's Python"])
def test_a_job_that_has_no_descriptor_left_ends_and_says_so(heartbeats, tmp_path, part):
    heartbeats.say(registration(1))
    log = tmp_path / "job.log"
    command, environment = submission(
        "route_registry", as_options(heartbeats.options), spark_options={"spark.master": "local[2]"}
    )
    job = OwnedProcess(command, log, environment)
    try:
        heartbeats.await_offset(1)
        [pid] = job_parts(job.pid, {})[part]
        process = psutil.Process(pid)
        process.rlimit(resource.RLIMIT_NOFILE, (process.num_fds(),) * 2)

        @eventually
        def has_ended():
            heartbeats.say(registration(1, counter=heartbeats.end_offset() + 1))
            assert job.exit_code is not None, log.read_text()[-3000:]

        has_ended()
        assert exit_code_within_grace(job) == 1
        reason = "route_registry: this job has no file descriptor or port left: "
        [said] = [line for line in log.read_text().splitlines() if line.startswith(reason)]
        assert "ulimit -n" in said
    finally:
        job.kill()
