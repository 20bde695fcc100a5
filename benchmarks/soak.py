"""Run the whole stack under churn, and check that nothing grows.

    make soak                                             # a quarter of an hour
    make soak ARGS='--minutes 30'

Kafka, job, gateway and console are processes of their own, as users run them, but each snapshot is kept for three
minutes only. Brokers register through the gateway, change topics, die and return; clients look topics up, and watchers
of the console come and go. Descriptors, threads and resident memory of each process and the files of each folder are
looked at once a minute. The exit status is 1 if one of them rises over the second half by more than its bound, by the
line of best fit less its error, or if at the end there are more files than theirs.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import click
import psutil

from benchmarks.harness import (
    Bench,
    benchmark,
    console_process,
    gateway_process,
    job_parts,
    job_process,
    option,
    running_kafka,
)
from benchmarks.job import Tables
from benchmarks.soak_peers import BROKERS, CLIENTS, WATCHERS
from namesrv_stream.tools.local.process import free_ports

RISES_A_MINUTE = {"descriptors": 1.0, "threads": 1.0, "resident MB": 1.0}
"""Bounds of the rise over the second half. Brokers and watchers come and go: a descriptor a minute is no leak yet."""

PROBLEMS = "requests that failed"
MOST = {
    "files: tables": 3_000.0,
    "files: checkpoint": 3_000.0,
    PROBLEMS: 0.0,
    "resident MB: JVM": 1_700.0,
    "resident MB: Kafka": 1_000.0,
}
"""Bounds of the last look. A JVM fills its heap, of 1 GB and 512 MB here, within hours; only its end can be bounded."""

MAINTAINED = {"snapshot.exact": "3m", "maintenanceMillis": 60_000}
"""Settings with which files reach within minutes the number that they have for ever. The defaults take hours."""

BATCHES, LOOKUPS = "micro-batches", "lookups' p99, ms"
"""Figures without a bound."""

Look = dict[str, float]


class Verdict(NamedTuple):
    """One line of the table. `bound` is that of the rise or of the last look; None: there is none."""

    figure: str
    first: float
    last: float
    rise_a_minute: float
    bound: float | None
    is_fine: bool


class Course(NamedTuple):
    """All looks, with the minute of each since the first one."""

    minutes: list[float]
    looks: list[Look]

    def values(self, figure: str) -> list[float]:
        """Return the values of a figure, at each minute."""
        return [look[figure] for look in self.looks]

    def verdicts(self) -> list[Verdict]:
        """Return a verdict on each figure that was there at the first and at the last look."""
        both = [figure for figure in self.looks[0] if figure in self.looks[-1]]
        return [self._verdict(figure) for figure in both]

    def _verdict(self, figure: str) -> Verdict:
        values, half = self.values(figure), len(self.minutes) // 2
        rise, error = rise_a_minute(self.minutes[half:], values[half:])
        bound = RISES_A_MINUTE.get(figure.partition(":")[0])
        if figure in MOST:
            return Verdict(figure, values[0], values[-1], rise, MOST[figure], values[-1] <= MOST[figure])
        return Verdict(figure, values[0], values[-1], rise, bound, bound is None or rise - error <= bound)


def rise_a_minute(minutes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return the slope of the line of best fit, and twice its standard error: pools of threads go up and down."""
    fit = statistics.linear_regression(minutes, values)
    residuals = [value - fit.intercept - fit.slope * minute for minute, value in zip(minutes, values, strict=True)]
    spread = math.sqrt(sum(each * each for each in residuals) / max(1, len(minutes) - 2))
    return fit.slope, 2 * spread / math.sqrt(len(minutes) * statistics.pvariance(minutes))


class Site(NamedTuple):
    """The running stack. `others`: the process ids beside the job's."""

    folder: Path
    job: int
    others: Mapping[str, int]

    def look(self) -> Look:
        """Return all figures of processes and folders."""
        found: Look = {}
        for name, pids in job_parts(self.job, self.others).items():
            for pid in pids:
                with suppress(psutil.NoSuchProcess):
                    _add(found, name, psutil.Process(pid))
        folders = {
            "tables": self.folder / "registry",
            "checkpoint": self.checkpoint,
            "Kafka": self.folder / "kafka",
        }
        for name, folder in folders.items():
            sizes = list(_sizes(folder))
            found[f"files: {name}"], found[f"MB: {name}"] = len(sizes), sum(sizes) / 2**20
        found["MB: logs"] = sum(log.stat().st_size for log in self.folder.glob("*.log")) / 2**20
        found[BATCHES] = self.batches()
        return found

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint."""
        return self.folder / "checkpoint"

    def batches(self) -> int:
        """Return the number of micro-batches that Spark has committed."""
        commits = self.checkpoint.glob("**/commits/[0-9]*")
        return max((int(commit.name) for commit in commits), default=-1) + 1


def _add(found: Look, part: str, process: psutil.Process) -> None:
    with process.oneshot():
        figures = {
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
            "resident MB": process.memory_info().rss / 2**20,
        }
    for kind, value in figures.items():
        found[f"{kind}: {part}"] = found.get(f"{kind}: {part}", 0) + value


def _sizes(folder: Path) -> Iterator[int]:
    for each in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if each.is_file():
                yield each.stat().st_size


@contextmanager
def running_stack(folder: Path, settings: Mapping[str, object]) -> Iterator[tuple[Site, tuple[int, int]]]:
    """Run everything but the peers within the `with`. Yield it, with the ports of gateway and console."""
    with running_kafka(folder) as (kafka, reached), ExitStack() as running:
        options = {**reached, "checkpoint.location": folder / "checkpoint", **MAINTAINED, **settings}
        job = running.enter_context(job_process(folder, options | {"job.metricsPort": free_ports(1)}))
        port, gateway = running.enter_context(gateway_process(folder, options))
        Tables(folder / "registry").wait_for_publication(0)
        address, console = running.enter_context(console_process(folder, {}))
        assert kafka.pid is not None, "it runs"
        others = {"gateway": gateway, "console": console, "Kafka": kafka.pid}
        yield Site(folder, job, others), (port, int(address.rpartition(":")[2]))


def soak(
    folder: Path, seconds: float, every_s: float, settings: Mapping[str, object] | None = None, batches: int = 0
) -> Course:
    """Run everything for that many seconds and micro-batches, and look at it every `every_s`."""
    course = Course([], [])
    with running_stack(folder, settings or {}) as (site, ports):
        command = [sys.executable, "-m", "benchmarks.soak_peers", *map(str, ports), str(every_s)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as peers:
            assert peers.stdout is not None
            began_s, problems = time.monotonic(), 0
            try:
                while time.monotonic() - began_s < seconds or site.batches() < batches:
                    seen = json.loads(peers.stdout.readline() or "null")
                    if seen is None:
                        raise RuntimeError(f"the peers have ended: see their error above, and the logs in {folder}")
                    problems += len(seen["problems"])
                    course.minutes.append((time.monotonic() - began_s) / 60)
                    course.looks.append(site.look() | {LOOKUPS: seen["p99_ms"], PROBLEMS: problems})
            finally:
                peers.terminate()
    return course


def line_of(verdict: Verdict) -> tuple[str, ...]:
    """Return the line of a verdict."""
    bound = "-" if verdict.bound is None else f"{verdict.bound:,.0f}"
    of_last = " at the end" if verdict.figure in MOST else ""
    values = (f"{verdict.first:,.0f}", f"{verdict.last:,.0f}", f"{verdict.rise_a_minute:+,.1f}")
    return verdict.figure, *values, f"{bound}{of_last}", "ok" if verdict.is_fine else "NOT OK"


@benchmark(
    option("--minutes", 15.0),
    option("--every every_s", 60.0, "Seconds."),
    option("--set options", (), "A setting of job and gateway.", metavar="KEY=VALUE"),
    option("--folder", None, "For data and logs, kept; a temporary one unless set.", type=click.Path(path_type=Path)),
    plot="data/soak.svg",
)
def main(bench: Bench, minutes: float, every_s: float, options: tuple[str, ...], folder: Path | None) -> bool:
    """Print the verdicts."""
    place = folder or bench.folder
    place.mkdir(parents=True, exist_ok=True)
    course = soak(place, minutes * 60, every_s, dict(each.split("=", 1) for each in options))
    verdicts = course.verdicts()
    title = f"{BROKERS} brokers, {CLIENTS} clients, {WATCHERS} watchers for {minutes:g} minutes"
    bench.rows(("figure", "first", "last", "a minute, second half", "bound", ""), map(line_of, verdicts), title)
    bench.draw("minutes", course.minutes, {each.figure: course.values(each.figure) for each in verdicts})
    print(f"curves: {bench.plot}")
    return not all(verdict.is_fine for verdict in verdicts)


if __name__ == "__main__":
    main()
