"""Measure the first answer about a moment of a registry with 1,000,000 rows of `topic`, by command line and by HTTP.

    .venv/bin/python -m benchmarks.past                          # makes data/past first, in some 20 minutes
    .venv/bin/python -m benchmarks.past --root data/past         # measures what is there

100 brokers have 10,000 topics each. For 29 days one of 20 small brokers, with 20 topics, leaves or returns each minute;
maintenance thins the snapshots out as it does in the job. Each answer of the command line is a process of its own. The
console is asked once for each moment, so nothing is remembered; then the same question again. All ask by epoch: the
registry's times are ahead of this machine's, and a time that has not come is refused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click

from benchmarks.files import FILE, SetClock, Simulation, under_set_clock
from benchmarks.harness import Bench, benchmark, console_process, option, program
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import DAY_MS, HOUR_MS

_MINUTE_MS = 60_000
_DAYS = 29
_AGO_MS = {"now": 0, "10 minutes ago": 10 * _MINUTE_MS, "a day ago": DAY_MS, "29 days ago": _DAYS * DAY_MS - HOUR_MS}
_COMMANDS = (("clusterList",), ("topicRoute", "-t", "shared_0"))
_PATHS = ("clusters", "topics/shared_0", "overview", "topics?limit=100")


def _make(place: Path) -> None:
    """Write 29 days of changes, one publication an hour and in the last hour one a change."""
    simulation = Simulation(place, 20, SetClock.of_this_process(), large=100)
    begin_ms = simulation.now_ms
    for hour in range(1, _DAYS * 24):
        simulation.step(begin_ms + hour * HOUR_MS, _MINUTE_MS, 6 * HOUR_MS)
    for minute in range(1, 61):
        simulation.step(begin_ms + (_DAYS * 24 - 1) * HOUR_MS + minute * _MINUTE_MS, _MINUTE_MS, HOUR_MS)


def _seconds(url: str) -> float | None:
    """Return how long an answer took, None if there is none."""
    begun_s = time.perf_counter()
    try:
        with urllib.request.urlopen(url) as answer:
            answer.read()
    except OSError:
        return None
    return time.perf_counter() - begun_s


def _measured(root: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield lines: the question, and for each moment the seconds, by HTTP also those of the second answer."""
    registry = Registry(root)
    newest_ms = registry.newest().now_ms
    epochs = [registry.at(at_ms=newest_ms - ago_ms).snapshot.epoch for ago_ms in _AGO_MS.values()]
    for command in _COMMANDS:
        cells = []
        for epoch in epochs:
            begun_s = time.perf_counter()
            asked = [*program(root, {}, command[0]), *command[1:], "--json", "--as-of", str(epoch)]
            subprocess.run(asked, check=True, stdout=subprocess.DEVNULL)
            cells.append(f"{time.perf_counter() - begun_s:.2f}")
        yield " ".join(command), *cells
    for path in _PATHS:
        with console_process(folder, {"delta.root": root}) as (address, _):
            asked_at = [f"{address}/v1/{path}{'&' if '?' in path else '?'}epoch={epoch}" for epoch in epochs]
            yield f"/v1/{path}", *[f"{_seconds(url) or -1:.2f} ({_seconds(url) or -1:.2f})" for url in asked_at]


@benchmark(
    option("--root", None, "Tables that an earlier run has made.", type=click.Path(path_type=Path, exists=True)),
    option("--make", None, "Only make the tables.", type=click.Path(path_type=Path), hidden=True),
)
def main(bench: Bench, root: Path | None, make: Path | None) -> None:
    """Print the seconds of each answer."""
    if make is not None:
        _make(make)
        return
    if root is None:
        root = Path("data/past")
        shutil.rmtree(root, ignore_errors=True)
        if status := under_set_clock(bench.folder, "benchmarks.past", "--make", str(root)):
            sys.exit(status)
    assert FILE not in os.environ
    lines = _measured(root, bench.folder)
    bench.rows(("seconds to the answer", *_AGO_MS), lines, "1,000,000 rows of topic, a change a minute")


if __name__ == "__main__":
    main()
