"""jobs/route_registry.py under spark-submit, on local[*] and on a standalone cluster, with conf/spark-defaults.conf."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import psutil
import pyspark
import pytest
import yaml

from namesrv_stream.tools.local.jars import CHECKOUT
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


PAGE = (CHECKOUT / "docs" / "operations.md").read_text("utf-8")
RECIPE = re.search(r"### A standalone cluster.*?```sh\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.mark.full
def test_the_recipe_for_a_cluster_ships_the_package_to_executors_and_opens_no_port_to_other_machines(
    heartbeats, tmp_path, monkeypatch
):
    monkeypatch.chdir(CHECKOUT)
    of_job = " ".join(f"--set '{key}={text}'" for key, text in heartbeats.options.items())
    recipe = RECIPE.replace("7077", str(free_ports(1))).replace("namesrv_stream.zip", f"{tmp_path}/namesrv_stream.zip")
    path = f"PATH={Path(sys.executable).parent}:$PATH SPARK_WORKER_DIR={tmp_path}/work"
    program = f"export {path}\nunset SPARK_HOME SPARK_LOCAL_IP\n{recipe.rstrip()} {of_job}\n"
    heartbeats.say(registration(1), registration(2))
    env = environment(python_without_the_package(tmp_path))
    with running_shell(program, tmp_path / "cluster.log", env) as cluster:
        heartbeats.await_offset(2)
        assert heartbeats.live() == [address(1), address(2)]
        children = psutil.Process(cluster.pid).children(recursive=True)
        sockets = [each for child in children for each in child.net_connections() if each.status == psutil.CONN_LISTEN]
    assert len(sockets) >= 4
    assert {each.laddr.ip.removeprefix("::ffff:") for each in sockets} == {HOST}
    [executor] = (tmp_path / "work").glob("app-*/0")
    assert (executor / "namesrv_stream.zip").exists()
