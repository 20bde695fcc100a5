"""Runs pytest three times at once for `make test`, each line with its run's name.

Tests with Spark are in one process, with one session and one Kafka: a second session costs 100 s of CPU more. Those
with Kafka alone, which wait half of the time, are in two, and the others, of lower priority, take what CPU is left.
"""

import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread

import click
import psutil
import pytest

ALWAYS = "not full and not deploy"
RUNS = {
    "plain": (12, ["-n", "3", "--dist", "loadfile", "-m", f"{ALWAYS} and not spark and not system"]),
    "kafka": (3, ["-n", "2", "--dist", "loadfile", "-m", f"{ALWAYS} and system and not spark"]),
    "spark": (0, ["-m", f"{ALWAYS} and spark"]),
}
"""Name of a run -> how much it is niced, and the options of pytest."""

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""Least room in memory for the some 20,000 files of the tests, which take 600 MB."""

LAST_LINES_S = 10
INTERRUPTED_AGAIN_S = 20
"""A test of the command line may take an interrupt for its own. The servers end within some 10 seconds."""


class Run:
    """A run in a process group of its own, whose lines a thread shows."""

    def __init__(self, name, files):
        niced, options = RUNS[name]
        command = [sys.executable, "-m", "pytest", "-o", f"cache_dir=.pytest_cache/{name}", *options]
        # Not sessions of their own: Linux gives each session a third of the CPU, whatever its priority is (autogroup).
        # With more threads of delta-rs, tables of a few rows take a quarter more CPU.
        environment = {"TOKIO_WORKER_THREADS": "1", **os.environ, "TMPDIR": files}
        self._process = subprocess.Popen(
            ["nice", "-n", str(niced), *command],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            process_group=0,
        )  # fmt: skip
        self.name = name
        self.result = ""
        self.failed = []
        self._again_s = math.inf
        self._shows = Thread(target=self._show, daemon=True)
        self._shows.start()

    def _show(self):
        for line in self._process.stdout:
            if line.startswith("="):  # a heading of pytest, of which the last one is the result
                self.result = line.strip("= \n")
            elif line.startswith(("FAILED ", "ERROR ")):  # a line of pytest's summary
                self.failed.append(line.rstrip())
            click.echo(f"{self.name} | {line.rstrip()}")

    def interrupt(self):
        """Do what Ctrl-C does: pytest ends its servers and says so."""
        self._again_s = time.monotonic() + INTERRUPTED_AGAIN_S
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)

    def wait(self):
        """Return pytest's exit code. A server that outlives its test may hold the pipe."""
        while self._process.poll() is None:
            try:
                self._process.wait(1)
            except subprocess.TimeoutExpired:
                if time.monotonic() > self._again_s:
                    self.interrupt()
        self._shows.join(LAST_LINES_S)
        return self._process.returncode


def has_room_in_memory():
    """Return whether the files of the tests may be in memory: there is room, and programs may run there."""
    if not os.access(MEMORY, os.W_OK):
        return False
    is_noexec = os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return not is_noexec and min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) > ROOM_BYTES


def main(names):
    is_in_memory = has_room_in_memory()
    files = tempfile.mkdtemp(prefix="namesrv-stream-test.", dir=MEMORY if is_in_memory else None)
    runs = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: [run.interrupt() for run in runs])
    runs += [Run(name, files) for name in names or RUNS]
    codes = {run.wait() for run in runs}
    for run in runs:
        click.echo("\n".join([*run.failed, f"{run.name}: {run.result}"]))
    if codes <= {pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED}:
        shutil.rmtree(files, ignore_errors=True)
    else:
        click.echo(f"Files of the tests: {shutil.move(files, tempfile.gettempdir()) if is_in_memory else files}")
    return int(codes != {pytest.ExitCode.OK})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
