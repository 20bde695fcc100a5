"""Runs pytest three times at once for `make test`, each line with its run's name.

Tests with Spark are in one process, with one session and one Kafka: a second session costs 100 s of CPU more. Those
with Kafka alone, which wait half of the time, are in two, and the others, of lower priority, take what CPU is left.
pytest-xdist alone would give all of them one priority, and the leak checks of conftest.py need runs without servers.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

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

MEMORY = "/dev/shm"
ROOM_BYTES = 4 << 30
"""Least room in memory for the some 20,000 files of the tests, which take 600 MB."""


def start(name, files):
    """Start a run in a process group of its own: a Ctrl-C reaches it through this process alone."""
    niced, options = RUNS[name]
    command = ["nice", "-n", str(niced), sys.executable, "-m", "pytest", "-o", f"cache_dir=.pytest_cache/{name}"]
    # With more threads of delta-rs, tables of a few rows take a quarter more CPU.
    environment = {"TOKIO_WORKER_THREADS": "1", **os.environ, "TMPDIR": files}
    # Not sessions of their own: Linux gives each session a third of the CPU, whatever its priority is (autogroup).
    return subprocess.Popen(
        [*command, *options],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", process_group=0,
    )  # fmt: skip


def shown(name, process):
    """Show the lines of a run. Return those that name failed tests, then the result.

    The result is the last line: a server that outlives its test may hold the pipe.
    """
    failed, result = [], ""
    for line in process.stdout:
        if line.startswith("="):  # a heading of pytest, of which the last one is the result
            result = line.strip("= \n")
        elif line.startswith(("FAILED ", "ERROR ")):  # a line of pytest's summary
            failed.append(line.rstrip())
        click.echo(f"{name} | {line.rstrip()}")
        if re.search(r" in [0-9.]+s\b", result):
            break
    return [*failed, f"{name}: {result}"]


def has_room_in_memory():
    """Return whether the files of the tests may be in memory: there is room, and programs may run there."""
    if not os.access(MEMORY, os.W_OK) or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return False
    return min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) > ROOM_BYTES


def main(names):
    is_in_memory = has_room_in_memory()
    files = tempfile.mkdtemp(prefix="namesrv-stream-test.", dir=MEMORY if is_in_memory else None)
    runs = {}

    def interrupt(*_):
        for run in runs.values():
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGINT)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    runs |= {name: start(name, files) for name in names or RUNS}
    with ThreadPoolExecutor() as threads:
        for lines in list(threads.map(shown, runs, runs.values())):
            click.echo("\n".join(lines))
    codes = {run.wait() for run in runs.values()}
    if codes <= {pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED}:
        shutil.rmtree(files, ignore_errors=True)
    else:
        click.echo(f"Files of the tests: {shutil.move(files, tempfile.gettempdir()) if is_in_memory else files}")
    return int(codes != {pytest.ExitCode.OK})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
