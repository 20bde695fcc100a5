"""jobs/route_registry.py under spark-submit, on local[*] and on a standalone cluster, with conf/spark-defaults.conf."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pyspark
import pytest
import yaml

from namesrv_stream.tools.local.jars import CHECKOUT, retrieved_jars
from namesrv_stream.tools.local.process import HOST, OwnedProcess, free_ports
from tests.system.heartbeats import address, registration
from tests.waiting import until

SPARK_HOME = Path(pyspark.__file__).parent
JOB = CHECKOUT / "jobs" / "route_registry.py"
CHART_VALUES = CHECKOUT / "deploy" / "helm" / "namesrv-stream" / "values.yaml"
GRACE_S = yaml.safe_load(CHART_VALUES.read_text())["job"]["terminationGracePeriodSeconds"]
"""Time from SIGTERM to SIGKILL that the chart gives the job."""


def environment(python):
    """Return the environment of a user who has Spark and its configuration, and nothing else of ours."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    return kept | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_CONF_DIR": str(CHECKOUT / "conf"),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": str(python),
    }


def spark_submit(*options, settings):
    of_job = [part for key, text in settings.items() for part in ("-s", f"{key}={text}")]
    return [SPARK_HOME / "bin" / "spark-submit", *options, JOB, *of_job]


def submitted(job, *options, limit_s=200):
    """Run a job of jobs/ that ends by itself on local[2]; return its output."""
    return subprocess.run(
        [SPARK_HOME / "bin" / "spark-submit", "--master", "local[2]", "--driver-memory", "1g", job, *options],
        cwd=CHECKOUT,
        env=environment(sys.executable),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


@contextlib.contextmanager
def running(command, log, env):
    """A process that is stopped at the end of the `with` if it still runs then."""
    process = OwnedProcess(command, log, env)
    try:
        yield process
    finally:
        process.stop()


@contextlib.contextmanager
def running_shell(commands, log, env=None):
    """A shell with commands of a page; all that it has started is stopped with it at the end of the `with`."""
    with running(["bash", "-euo", "pipefail", "-c", commands], log, env) as shell:
        try:
            yield shell
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)


@contextlib.contextmanager
def running_job(command, log, env):
    """The job within the `with`, which SIGTERM to what was started must end in order."""
    with running(command, log, env) as job:
        yield
        os.kill(job.pid, signal.SIGTERM)
        assert exit_code_within_grace(job) == 0, log.read_text()[-5000:]
        assert "Traceback" not in log.read_text()


def exit_code_within_grace(process):
    until(lambda: process.exit_code is not None, GRACE_S)
    return process.exit_code


@contextlib.contextmanager
def standalone_cluster(folder, env):
    """A master and one worker on this machine; the master's URL."""
    port = free_ports(1)
    url = f"spark://{HOST}:{port}"
    start, of_both = SPARK_HOME / "bin" / "spark-class", ["--host", HOST, "--webui-port", "0"]
    master = [start, "org.apache.spark.deploy.master.Master", *of_both, "--port", str(port)]
    worker = [start, "org.apache.spark.deploy.worker.Worker", *of_both, "--cores", "2", "--memory", "1g"]
    with (
        running(master, folder / "master.log", env),
        running([*worker, "--work-dir", folder / "work", url], folder / "worker.log", env),
    ):
        yield url


def python_without_the_package(folder):
    """An interpreter with all dependencies of the package, and without the package itself."""
    venv.create(folder / "python", with_pip=False)
    of_tests = sysconfig.get_path("purelib")
    of_venv = sysconfig.get_path("purelib", "venv", {"base": str(folder / "python")})
    Path(of_venv, "dependencies.pth").write_text(
        of_tests
    )  # whose own .pth files, the package's among them, do not count
    python = folder / "python" / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import pyspark; import namesrv_stream.errors"], cwd=folder, capture_output=True, check=False
    )  # a module of it: an editable install leaves a folder of the name, with what a wheel has besides modules
    assert b"No module named 'namesrv_stream" in found.stderr
    return python


def package_zip(folder):
    return shutil.make_archive(str(folder / "namesrv_stream"), "zip", CHECKOUT, "namesrv_stream")


@pytest.mark.full
def test_a_standalone_cluster_runs_the_package_that_py_files_ships(heartbeats, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = environment(python_without_the_package(tmp_path))
    jars = ",".join(map(str, sorted(retrieved_jars("spark").glob("*.jar"))))
    shipped = ["--jars", jars, "--py-files", package_zip(tmp_path)]
    small = ["--driver-memory", "600m", "--executor-memory", "600m", "--total-executor-cores", "2"]
    heartbeats.say(*map(registration, range(1, 6)))
    with standalone_cluster(tmp_path, env) as master:
        command = spark_submit("--master", master, *shipped, *small, settings=heartbeats.options)
        with running_job(command, tmp_path / "job.log", env):
            heartbeats.await_offset(5)
            assert heartbeats.live() == sorted(map(address, range(1, 6)))
    executors = list((tmp_path / "work").glob("app-*/0"))
    assert len(executors) == 1
    assert (executors[0] / "namesrv_stream.zip").exists()
