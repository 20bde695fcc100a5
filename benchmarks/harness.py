"""What all benchmarks share: their command, tables and pictures, the machine's load, and the processes they measure."""

from __future__ import annotations

import functools
import math
import os
import statistics
import sys
import tempfile
import textwrap
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.peers import Peer, registration
from namesrv_stream.config import as_options
from namesrv_stream.tools.local import submission
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.process import HOST, OwnedProcess, free_ports
from namesrv_stream.wire.remoting_command import RemotingCommand

Options = Mapping[str, object]
Figures = Mapping[str, str]
_WIDTH_IN, _HEIGHT_IN, _PLOTS_A_ROW, _MAX_TICKS = 3.4, 2.6, 3, 9


class Bench:
    """A run of a benchmark: a folder that it may fill, and what it prints. `plot`: the file of its picture."""

    def __init__(self, folder: Path, plot: Path | None = None) -> None:
        self.folder = folder
        self.plot = plot
        self.console = Console(width=160)
        self._load_before = os.getloadavg()[0]

    def rows(self, headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
        """Print a table of lines."""
        table = Table(*headings, title=title)
        for row in rows:
            table.add_row(*row)
        self.console.print(table)

    def columns(self, columns: Mapping[str, Figures], title: str | None = None) -> None:
        """Print a table with a column for each measured thing; a figure that one lacks is a dash."""
        names = dict.fromkeys(name for figures in columns.values() for name in figures)
        lines = ((name, *(figures.get(name, "-") for figures in columns.values())) for name in names)
        self.rows(("figure", *columns), lines, title)

    def machine(self) -> str:
        """Return the number of cores, and the load average before and after."""
        before, after = self._load_before, os.getloadavg()[0]
        return f"{os.cpu_count()} cores; load average {before:.1f} before and {after:.1f} after"

    def draw(self, size: str, sizes: Sequence[float], figures: Mapping[str, Sequence[float]]) -> None:
        """Draw each figure over what `size` names, if `--plot` asks for it."""
        if self.plot is not None:
            draw(self.plot, size, sizes, figures, self.machine())


def option(name: str, default: object = None, text: str | None = None, **more: Any) -> Callable[[Any], Any]:
    """Return an option of `benchmark`; one whose default is a tuple may be given several times."""
    own: dict[str, Any] = {"multiple": True} if isinstance(default, tuple) else {}
    if isinstance(default, tuple) and default:
        own["type"] = type(default[0])
    return click.option(*name.split(), default=default, show_default=True, help=text, **(own | more))


def benchmark(
    *options: Callable[[Any], Any], plot: str | bool = False
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function that takes a `Bench` and these options.

    The machine's load is printed at the end, and the process exits with 1 if the function returns True. `plot`: the
    command has the option --plot; a text is its default.
    """

    def command(measure: Callable[..., Any]) -> click.Command:
        @functools.wraps(measure)
        def run(plot: Path | None = None, **chosen: Any) -> None:
            with tempfile.TemporaryDirectory(prefix="namesrv-bench-") as folder:
                bench = Bench(Path(folder), plot)
                has_failed = measure(bench, **chosen)
            bench.console.print(bench.machine())
            sys.exit(has_failed is True)

        own = [
            option(
                "--plot",
                plot if isinstance(plot, str) else None,
                "Draw the figures in this file.",
                type=click.Path(path_type=Path),
            )
        ]
        made: Any = run
        for each in reversed([*options, *(own if plot else [])]):
            made = each(made)
        return click.command()(made)

    return command


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile by nearest rank, infinity without values."""
    return sorted(values)[min(len(values), math.ceil(share * len(values))) - 1] if values else math.inf


def timed(act: Callable[[], object], times: int = 1, before: Callable[[], object] = lambda: None) -> float:
    """Return the seconds of an action, the median of some, each after `before`."""
    taken_s = []
    for _ in range(times):
        before()
        began_s = time.perf_counter()
        act()
        taken_s.append(time.perf_counter() - began_s)
    return statistics.median(taken_s)


def draw(path: Path, size: str, sizes: Sequence[float], figures: Mapping[str, Sequence[float]], where: str) -> None:
    """Write a picture with a plot of each figure over `sizes`; `size` names what they count, `where` the machine.

    A few sizes have a tick each on a logarithmic axis. Many are the minutes of a course.
    """
    import matplotlib as mpl  # noqa: PLC0415  # its import takes a second, and few draw

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    is_course, columns = len(sizes) > _MAX_TICKS, min(_PLOTS_A_ROW, len(figures))
    rows = -(-len(figures) // columns)
    size_in = (columns * _WIDTH_IN, rows * _HEIGHT_IN)
    drawn, axes = plt.subplots(rows, columns, figsize=size_in, squeeze=False, layout="constrained")
    for axis, (name, values) in zip(axes.flat, figures.items(), strict=False):
        axis.plot(sizes, values, marker="" if is_course else "o", color="#0072b2")
        axis.set_title(textwrap.fill(name, 36), fontsize=9)
        if not is_course:
            axis.set_xscale("log")
            axis.set_xticks(sizes, [f"{each:,}" for each in sizes])
            axis.minorticks_off()
        axis.set_ylim(0, 1.1 * max(values) or 1)
        axis.tick_params(labelsize=7)
        axis.set_xlabel(size, fontsize=8)
        axis.grid(visible=True, alpha=0.3)
    for unused in axes.flat[len(figures) :]:
        unused.set_visible(False)
    drawn.suptitle(where, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(drawn)


def program(root: Path, options: Options, command: str) -> list[str]:
    """Return the words that run a command of namesrv-stream on the tables under `root` with these settings."""
    executable = Path(sys.executable).with_name("namesrv-stream")
    return [str(executable), "--root", str(root), *as_options(options), command]


@contextmanager
def running_kafka(folder: Path) -> Iterator[tuple[LocalKafka, dict[str, object]]]:
    """Run Kafka within the `with`. Yield it, and the settings by which gateway and job reach it."""
    with LocalKafka(folder / "kafka") as kafka:
        yield kafka, {"kafka.bootstrap.servers": kafka.bootstrap_servers}


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
def console_process(folder: Path, options: Options) -> Iterator[tuple[str, int]]:
    """Run a console on the tables in `folder`/registry within the `with`. Yield its address and its process id.

    It has read a snapshot.
    """
    port = free_ports(1)
    process = OwnedProcess(
        program(folder / "registry", {"console.port": port, **options}, "console"), folder / "console.log"
    )
    address = f"http://{HOST}:{port}"
    try:
        wait_until(lambda: _is_ready(address), "the console is ready")
        yield address, process.pid
    finally:
        process.stop()


def _is_ready(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{address}/readyz"):
        return True
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


def job_parts(job: int, others: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the processes of each part: the job's JVM, its Python, its workers, and the others."""
    found: dict[str, list[int]] = {"JVM": [], "driver's Python": [], "workers": []}
    for each in [psutil.Process(job), *psutil.Process(job).children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # a child that ends meanwhile, or that nobody has waited for
            found[_part(each)].append(each.pid)
    return found | {name: [pid] for name, pid in others.items()}


def _part(process: psutil.Process) -> str:
    if "pyspark.daemon" in " ".join(process.cmdline()):
        return "workers"
    return "JVM" if process.name() == "java" else "driver's Python"


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


def memory_mb(pid: int | str = "self", *, highest: bool = False) -> float:
    """Return the resident memory of a process, or the highest that it had; 0 of one that has ended."""
    wanted = "VmHWM:" if highest else "VmRSS:"
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(wanted)), 0.0)
    return 0.0


def wait_until(is_so: Callable[[], bool], what: str, limit_s: float = 120.0, every_s: float = 0.2) -> None:
    """Return once `is_so()` is true. Raises TimeoutError."""
    until_s = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what}: not within {limit_s:.0f} s")
        time.sleep(every_s)


def now_ms() -> int:
    """Return the present time in epoch milliseconds."""
    return time.time_ns() // 1_000_000
