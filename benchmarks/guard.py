"""Compare the figures that users feel most with their bounds in benchmarks/bounds.toml, in under four minutes.

    make bench-guard

Each figure is a ratio of two measurements of this run: beside the floor, beside RocketMQ's NameServer 5.4.0, or beside
a small registry. Run it on a quiet machine. The exit code is 1 if a figure is beyond its bound.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.gateway import of_gateway, of_name_server
from benchmarks.large_registry import Plan
from benchmarks.publication import Bench, change_latency_ms, floor_latency_ms
from benchmarks.scale import Found, measure
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.spark import local_session

BOUNDS = Path(__file__).with_name("bounds.toml")
CHANGES = 20
SECONDS = 4.0
LOADS = {
    "lookups, 8 x 16 in flight": "lookups beside the NameServer, 8 x 16 in flight",
    "registrations of 20 topics, unchanged, 64 brokers": "unchanged registrations of 20 topics beside the NameServer",
    "registrations of 20 topics, changed, 64 brokers": "changed registrations of 20 topics beside the NameServer",
}


def of_a_change(folder: Path) -> dict[str, float]:
    """Return the time from the append of a change to its snapshot, beside the floor."""
    with LocalKafka(folder / "kafka") as kafka:
        spark = local_session("guard", {"spark.driver.memory": "2g"}, log=folder / "spark.log")
        bench = Bench(spark, kafka.bootstrap_servers, folder)
        medians = [statistics.median(latency(bench, CHANGES)) for latency in (change_latency_ms, floor_latency_ms)]
        spark.stop()
    return {"a change in a snapshot / one Spark append": medians[0] / medians[1]}


def of_requests(folder: Path) -> dict[str, float]:
    """Return the gateway's answers a second, beside the NameServer's."""
    theirs, ours = of_name_server(folder / "namesrv", SECONDS, LOADS), of_gateway(folder, SECONDS, LOADS)
    return {name: ours[load].per_second / theirs[load].per_second for load, name in LOADS.items()}


def of_rows(folder: Path) -> dict[str, float]:
    """Return what a change costs the gateway among many rows, beside few rows and beside no change."""
    few, many = (_scale(folder / str(topics), Plan(10, topics, has_own_topics=False)) for topics in (100, 10_000))
    return {
        "CPU of a change, 100,000 rows / 1,000 rows": many.cpu_a_change_s / few.cpu_a_change_s,
        "longest wait for a lookup, changes among 100,000 rows / no change": many.stall_s / many.idle_stall_s,
    }


def _scale(folder: Path, plan: Plan) -> Found:
    folder.mkdir()
    return measure(plan, folder, CHANGES, with_bulk=False)


def main() -> int:
    """Print each figure with its bound, and return the exit code."""
    set_up_logging(logging.WARNING)
    began_s, load_before = time.monotonic(), os.getloadavg()[0]
    figures: dict[str, float] = {}
    for measured in (of_a_change, of_requests, of_rows):
        with tempfile.TemporaryDirectory(prefix="namesrv-guard-") as folder:
            figures |= measured(Path(folder))
    bounds = tomllib.loads(BOUNDS.read_text("utf-8"))
    table, failed = Table("figure", "measured", "bound", ""), 0
    for name, bound in bounds.items():
        (kind, limit), figure = next(iter(bound.items())), figures.pop(name)
        is_kept = figure <= limit if kind == "at_most" else figure >= limit
        failed += not is_kept
        table.add_row(name, f"{figure:.2f}", f"{kind.replace('_', ' ')} {limit}", "" if is_kept else "[red]beyond[/]")
    assert not figures, f"{BOUNDS.name} lacks {list(figures)}"
    console = Console(width=120)
    console.print(table)
    console.print(f"{time.monotonic() - began_s:.0f} s, {os.cpu_count()} cores; load average {load_before:.1f} before")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
