import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from namesrv_stream.tools.local.process import OwnedProcess
from tests.waiting import LIMIT_S, until


@pytest.fixture
def log(tmp_path):
    return tmp_path / "child.log"


def parent_of_a_child(log, then=""):
    """Another Python which owns a `sleep` and waits; it prints the child's pid."""
    program = f"""
        import os, signal
        from pathlib import Path
        from namesrv_stream.tools.local.process import OwnedProcess
        child = OwnedProcess(["sleep", "600"], Path({str(log)!r}))
        {then}
        print(child.pid, flush=True)
        input()
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("then", ["", "os.kill(child.pid, signal.SIGSTOP)"], ids=["running", "paused"])
def test_child_ends_with_a_parent_that_was_killed(log, then):
    with parent_of_a_child(log, then) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(LIMIT_S)  # raises TimeoutExpired while it still runs


def test_a_child_that_ignores_sigterm_is_killed_after_the_limit(log):
    child = OwnedProcess(["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], log)
    until(lambda: "ready" in log.read_text())
    child.stop(limit_s=0.2)
    assert child.exit_code == -signal.SIGKILL


def test_a_childs_output_is_in_its_log_and_its_exit_code_is_known(log):
    log.write_text("earlier\n")
    child = OwnedProcess(["/bin/sh", "-c", "echo out; echo err >&2; exit 7"], log)
    until(lambda: child.exit_code is not None)
    assert (child.exit_code, log.read_text()) == (7, "earlier\nout\nerr\n")
    child.stop()
