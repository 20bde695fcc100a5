"""Compare the figures that users feel most with those of another commit, and with the bounds in benchmarks/bounds.toml.

    make bench-guard                figures of this checkout beside floors and RocketMQ's NameServer, in six minutes
    make bench-guard BASE=v0.1.0    besides, beside those of that commit: three runs of both in turn, in half an hour

A figure beside another commit's is the one that tells of a change: both are of one machine and one hour. The other
ratios differ from machine to machine, because a JVM and Python profit differently from a processor. This checkout's
programs measure both commits. If they ask for names that the other commit's package lacks, its own programs measure it,
and the table says so. Run it on a quiet machine. The exit code is 1 if a figure is beyond its bound.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.gateway import of_gateway, of_name_server, publish_cluster
from benchmarks.harness import Bench, benchmark, option, program, running_kafka, timed
from benchmarks.large_registry import Plan
from benchmarks.publication import SparkSite, batch_time_ms, change_latency_ms, floor_latency_ms, floor_of_keys_ms
from benchmarks.scale import measure
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.tools.local.spark import local_session

HERE = Path(__file__).parents[1]
BOUNDS = Path(__file__).with_name("bounds.toml")
WORSE_AT_MOST = 1.1
CHANGES = 20
HEARTBEATS = 3_000
STARTS = 5
SECONDS = 4.0
LOADS = (
    "lookups, 8 x 16 in flight",
    "registrations of 20 topics, unchanged, 64 brokers",
    "registrations of 20 topics, changed, 64 brokers",
    "registrations of 10,000 topics, unchanged, 8 brokers",
    "registrations of 10,000 topics, changed, 8 brokers",
)


class Figure(NamedTuple):
    """The cost of one operation, such as a lookup, and that of its floor or peer. Both are in seconds."""

    cost: float
    beside: float


def of_the_job(folder: Path) -> dict[str, Figure]:
    """Return the time from the append of a change to its snapshot, and that of a batch of heartbeats."""
    with running_kafka(folder) as (kafka, _):
        spark = local_session("guard", {"spark.driver.memory": "2g"}, log=folder / "spark.log")
        site = SparkSite(spark, kafka.bootstrap_servers, folder)
        change_ms, floor_ms = (statistics.median(of(site, CHANGES)) for of in (change_latency_ms, floor_latency_ms))
        heartbeats_ms, keys_ms = batch_time_ms(site, HEARTBEATS, 3)[0], floor_of_keys_ms(site, HEARTBEATS, 3)
        spark.stop()
    return {
        "a change in a snapshot / one Spark append": Figure(change_ms / 1e3, floor_ms / 1e3),
        f"{HEARTBEATS:,} heartbeats in one batch / an empty processor": Figure(heartbeats_ms / 1e3, keys_ms / 1e3),
    }


def of_requests(folder: Path) -> dict[str, Figure]:
    """Return the time between two answers of the gateway under load, beside the NameServer's."""
    theirs, ours = of_name_server(folder / "namesrv", SECONDS, LOADS), of_gateway(folder, SECONDS, LOADS)
    costs = {load: Figure(1 / ours[load].per_second, 1 / theirs[load].per_second) for load in LOADS}
    return {f"{load} / the NameServer": figure for load, figure in costs.items()}


def of_rows(folder: Path) -> dict[str, Figure]:
    """Return what a change costs the gateway among many rows, beside few rows and beside no change."""
    for topics in (100, 10_000):
        (folder / str(topics)).mkdir()
    few, many = (
        measure(Plan(10, topics, has_own_topics=False), folder / str(topics), CHANGES, with_bulk=False)
        for topics in (100, 10_000)
    )
    cpu, stall = "CPU of the gateway a change, ms", "longest wait for a lookup meanwhile, ms"
    idle_stall_ms = many["longest wait for a lookup while nothing changes, ms"]
    return {
        "CPU of a change, 100,000 rows / 1,000 rows": Figure(many[cpu] / 1e3, few[cpu] / 1e3),
        "longest wait for a lookup, changes among 100,000 rows / no change": Figure(
            many[stall] / 1e3, idle_stall_ms / 1e3
        ),
    }


def of_the_command_line(folder: Path) -> dict[str, Figure]:
    """Return the time of a command that reads a route, beside that of importing what reads the tables."""
    publish_cluster(folder)
    asked = [*program(folder, {}, "topicRoute"), "-t", "topic-00001"]
    floor = [sys.executable, "-c", "import click, deltalake, pyarrow, pydantic"]
    return {"first answer of the command line / its imports": Figure(_start_s(asked), _start_s(floor))}


def _start_s(command: list[str]) -> float:
    return timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), STARTS)


PARTS = {"job": of_the_job, "requests": of_requests, "rows": of_rows, "cli": of_the_command_line}


def figures(parts: Iterable[str]) -> dict[str, Figure]:
    """Measure the figures of these parts of the code that this process imports."""
    found: dict[str, Figure] = {}
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="namesrv-guard-") as folder:
            found |= PARTS[part](Path(folder))
    return found


class Base(NamedTuple):
    """Another commit in a folder, and whether its own programs measure it."""

    folder: Path
    has_own_programs: bool


@contextmanager
def checkout(commit: str) -> Iterator[Base]:
    """Check a commit out within the `with`, with the environment and the jars of this checkout.

    Its benchmarks are this checkout's. If these do not import with its package, they are its own.
    """
    with tempfile.TemporaryDirectory(prefix="namesrv-base-") as name:
        folder, own = Path(name, "checkout"), Path(name, "own")
        git = ["git", "-C", str(HERE), "worktree"]
        subprocess.run([*git, "add", "--detach", str(folder), commit], check=True)
        try:
            programs = folder / "benchmarks"
            programs.rename(own)
            for each in (".venv", "jars", "benchmarks"):
                (folder / each).symlink_to(HERE / each)
            imported = [sys.executable, "-c", "import benchmarks.guard"]
            failed = subprocess.run(imported, cwd=folder, env=_environment(folder), capture_output=True, check=False)
            if failed.returncode:
                programs.unlink()
                own.rename(programs)
                guard = programs / "guard.py"
                if not guard.exists() or '"--json' not in guard.read_text("utf-8"):
                    raise click.ClickException(f"{commit} has no benchmark that prints JSON: choose a later BASE")
            yield Base(folder, has_own_programs=failed.returncode != 0)
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(folder)}


def figures_of(folder: Path, parts: Iterable[str]) -> dict[str, Figure]:
    """Measure the code of a checkout in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.guard", "--json", *(f"--only={part}" for part in parts)]
    done = subprocess.run(command, cwd=folder, env=_environment(folder), stdout=subprocess.PIPE, check=True)
    return {name: Figure(*each) for name, each in json.loads(done.stdout).items()}


def worse(here: list[dict[str, Figure]], there: list[dict[str, Figure]], name: str) -> list[float]:
    """Return how many times the other commit's cost this one has, lowest first, of each pair of runs."""
    return sorted(ours[name].cost / theirs[name].cost for ours, theirs in zip(here, there, strict=True))


def lines_of(
    here: list[dict[str, Figure]], there: list[dict[str, Figure]], bounds: Mapping[str, float]
) -> Iterator[tuple[str, ...]]:
    """Yield a line for each figure; the last cell is empty unless the figure is beyond a bound.

    A figure that the other commit's own programs do not measure is beside none of its.
    """
    for name, limit in bounds.items():
        ratio = statistics.median(each[name].cost / each[name].beside for each in here)
        ratios = worse(here, there, name) if there and name in there[0] else []
        is_kept = ratio <= limit and (not ratios or statistics.median(ratios) <= WORSE_AT_MOST)
        beside = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios else "-"
        cost_ms = f"{1e3 * statistics.median(each[name].cost for each in here):,.3g}"
        yield name, cost_ms, f"{ratio:.2f}", f"{limit}", beside, f"{WORSE_AT_MOST}", "" if is_kept else "[red]beyond[/]"


@benchmark(
    option("--base", None, "Measure this commit as well.", metavar="COMMIT"),
    option("--runs", 3, "Of both commits in turn."),
    option("--only parts", (), "Some of the figures.", type=click.Choice(list(PARTS))),
    option("--json is_json", False, "Print the figures of one run alone, as JSON.", is_flag=True),
)
def main(bench: Bench, base: str | None, runs: int, parts: Sequence[str], *, is_json: bool) -> bool:
    """Print each figure with its bounds; the exit code is 1 if one is beyond."""
    set_up_logging(logging.WARNING)
    parts = parts or list(PARTS)
    if is_json:
        print(json.dumps(figures(parts)))
        sys.exit()
    here: list[dict[str, Figure]] = []
    there: list[dict[str, Figure]] = []
    title = None
    if base is None:
        here.append(figures(parts))
    else:
        with checkout(base) as other:
            if other.has_own_programs:
                title = f"{base} is measured by its own programs: this checkout's do not import with its package"
            for _ in range(runs):
                there.append(figures_of(other.folder, parts))
                here.append(figures_of(HERE, parts))
    bounds = {name: bound["at_most"] for name, bound in tomllib.loads(BOUNDS.read_text("utf-8")).items()}
    assert bounds.keys() >= here[0].keys(), f"{BOUNDS.name} lacks {here[0].keys() - bounds.keys()}"
    lines = list(lines_of(here, there, {name: limit for name, limit in bounds.items() if name in here[0]}))
    bench.rows(("figure", "ms", "ratio", "at most", "beside BASE", "at most", ""), lines, title)
    return any(line[-1] for line in lines)


if __name__ == "__main__":
    main()
