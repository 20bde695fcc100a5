"""jobs/route_registry.py under spark-submit, on local[*] and on a standalone cluster, with conf/spark-defaults.conf."""

import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import psutil
import pytest

from namesrv_stream.tools.local.jars import CHECKOUT
from namesrv_stream.tools.local.process import HOST, free_ports
from tests.system.clusters import environment, running_shell
from tests.system.heartbeats import address, registration


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


PAGE = (CHECKOUT / "docs" / "run.md").read_text("utf-8")
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
