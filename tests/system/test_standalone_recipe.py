"""The recipe of docs/operations.md for a standalone cluster, as a user copies it."""

import re
import sys
from pathlib import Path

import psutil
import pytest

from namesrv_stream.tools.local.jars import CHECKOUT
from namesrv_stream.tools.local.process import HOST, free_ports
from tests.system.heartbeats import address, registration
from tests.system.test_cluster import environment, running_shell

PAGE = (CHECKOUT / "docs" / "operations.md").read_text("utf-8")
RECIPE = re.search(r"### A standalone cluster.*?```sh\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.mark.full
def test_the_recipe_runs_the_job_and_opens_no_port_to_other_machines(heartbeats, tmp_path, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    of_job = " ".join(f"--set '{key}={text}'" for key, text in heartbeats.options.items())
    recipe = RECIPE.replace("7077", str(free_ports(1))).replace("namesrv_stream.zip", f"{tmp_path}/namesrv_stream.zip")
    path = f"PATH={Path(sys.executable).parent}:$PATH SPARK_WORKER_DIR={tmp_path}/work"
    program = f"export {path}\nunset SPARK_HOME SPARK_LOCAL_IP\n{recipe.rstrip()} {of_job}\n"
    heartbeats.say(registration(1), registration(2))
    with running_shell(program, tmp_path / "cluster.log", environment(sys.executable)) as cluster:
        heartbeats.await_offset(2)
        assert heartbeats.live() == [address(1), address(2)]
        children = psutil.Process(cluster.pid).children(recursive=True)
        sockets = [each for child in children for each in child.net_connections() if each.status == psutil.CONN_LISTEN]
    assert len(sockets) >= 4
    assert {each.laddr.ip.removeprefix("::ffff:") for each in sockets} == {HOST}
