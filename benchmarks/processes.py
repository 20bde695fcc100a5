"""The gateway and the job as processes of their own, as users run them, and the CPU time that they take."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.peers import Peer, registration
from namesrv_stream.config import as_options
from namesrv_stream.tools.local import submission
from namesrv_stream.tools.local.ports import HOST, free_ports
from namesrv_stream.tools.local.process import OwnedProcess
from namesrv_stream.wire.remoting_command import RemotingCommand

Options = Mapping[str, object]


def program(root: Path, options: Options, command: str) -> list[str]:
    """Return the words that run a command of namesrv-stream on the tables under `root` with these settings."""
    executable = Path(sys.executable).with_name("namesrv-stream")
    return [str(executable), "--root", str(root), *as_options(options), command]


@contextmanager
def gateway_process(
    folder: Path, options: Options, *, log: str = "gateway.log", asked: RemotingCommand | None = None
) -> Iterator[tuple[int, int]]:
    """Run a gateway on the tables in `folder`/registry within the `with`. Yield its port and its process id.

    It has reached Kafka and answered the registration `asked`. If `options` name no Kafka, it reaches none and may not
    have started yet. Its log is `folder`/`log`.
    """
    port, silent = free_ports(1), free_ports(1)
    own = {"listenPort": port, "bindAddress": HOST, "kafka.bootstrap.servers": f"{HOST}:{silent}", **options}
    process = OwnedProcess(program(folder / "registry", own, "gateway"), folder / log, env=dict(os.environ))
    warm = asked or registration(0, 1, cluster="warm")
    try:
        if "kafka.bootstrap.servers" in options:
            wait_until(lambda: _answers(port, warm), "the gateway has a way to Kafka")
        yield port, process.pid
    finally:
        process.stop()


def _answers(port: int, asked: RemotingCommand) -> bool:
    with suppress(OSError), closing(Peer(port)) as peer:
        return peer.ask(asked).code == 0
    return False


@contextmanager
def job_process(
    folder: Path, options: Options, spark_options: Mapping[str, str] | None = None, *, archive: bool = True
) -> Iterator[int]:
    """Run the job by `namesrv-stream submit` on the tables in `folder`/registry. Yield its process id.

    `spark_options`: win over conf/spark-defaults.conf. Its log is `folder`/job.log. It may not have started yet. Java
    uses the archive of classes, if there is one, or with `archive` False none.
    """
    own = {"delta.root": folder / "registry", **options}
    given = {"spark.master": "local[2]", **(spark_options or {})}
    if not archive:
        submission.ARCHIVE = folder / "no archive"
    command, environment = submission.submission("route_registry", as_options(own), spark_options=given)
    process = OwnedProcess(command, folder / "job.log", env=environment)
    try:
        yield process.pid
    finally:
        process.stop(60)


def machine_text(before: float) -> str:
    """Return the number of cores, and the load average before and after a measurement."""
    return f"{os.cpu_count()} cores; load average {before:.1f} before and {os.getloadavg()[0]:.1f} after"


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and its present children have taken so far."""
    process = psutil.Process(pid)
    return cpu_seconds_of([pid, *(child.pid for child in process.children(recursive=True))])


def cpu_seconds_of(pids: Iterable[int]) -> float:
    """Return the CPU time of these processes alone, without those that have ended."""
    found = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            found += times.user + times.system
    return found


def cpu_by_part(parts: Mapping[str, Iterable[int]]) -> dict[str, float]:
    """Return the CPU time of the processes of each part so far."""
    return {name: cpu_seconds_of(pids) for name, pids in parts.items()}


def cores(before_s: Mapping[str, float], after_s: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return the cores that each part has taken between two results of `cpu_by_part`."""
    return {name: (taken_s - before_s[name]) / seconds for name, taken_s in after_s.items()}


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process; 0 of one that has ended."""
    with suppress(psutil.NoSuchProcess):
        resident: int = psutil.Process(pid).memory_info().rss
        return resident / 2**20
    return 0.0


def wait_until(is_so: Callable[[], bool], what: str, limit_s: float = 120.0) -> None:
    """Return once `is_so()` is true. Raises TimeoutError."""
    until_s = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what}: not within {limit_s:.0f} s")
        time.sleep(0.2)
