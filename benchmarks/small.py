"""Measure the first answers about a small registry: seconds and seconds of CPU of whole processes.

    .venv/bin/namesrv-stream fleet --history 7 --seed 3 --out data/week
    .venv/bin/python -m benchmarks.small data/week

Each line is a process of its own: a command, a statement in DuckDB, or a Spark session with Java's start. Seconds of
CPU depend little on what else the machine does. The least of three runs is printed. A stock Spark has Delta's jars and
none of this project's settings.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks.harness import Bench, benchmark, option
from benchmarks.history import questions
from namesrv_stream.tables.root import HOUR_MS, Root
from namesrv_stream.tables.snapshots import SnapshotTable
from namesrv_stream.tools.local.jars import CHECKOUT, jars_of_sessions

_AVAILABILITY = "SELECT * FROM broker_availability"
_SESSION = "from namesrv_stream.tools.local.spark import local_session; spark = local_session('small', cores='2')"
_VIEWS = f"{_SESSION}; from namesrv_stream.analysis.views import register_views; register_views(spark, {{root!r}})"
_ASK = "from namesrv_stream.analysis.ask import ask; ask({root!r}, {statement!r})"
_END = "; process = spark.sparkContext._gateway.proc; spark.stop(); process.stdin.close(); process.wait()"
"""End of a Spark session in which the JVM ends too, so that its CPU counts as that of a child."""


def cases(root: str) -> dict[str, list[str]]:
    """Return what is measured -> its command."""
    newest = SnapshotTable(Root(root)).newest()
    assert newest.event_time is not None
    since, until = (
        datetime.fromtimestamp((newest.event_time - hours * HOUR_MS) / 1000, UTC).isoformat() for hours in (60, 6)
    )
    first = questions()[0][1]
    return {
        "command line: why broker-a-0": _namesrv(root, "why", "broker-a-0"),
        "command line: diff of two times": _namesrv(root, "diff", since, until),
        "command line: topicRoute": _namesrv(root, "topicRoute", "-t", "order_created"),
        "DuckDB: the cookbook's first statement": _python(_ASK.format(root=root, statement=_in_duckdb(first))),
        "DuckDB: broker_availability": _python(_ASK.format(root=root, statement=_AVAILABILITY)),
        "Spark: a session alone": _python(_SESSION + _END),
        "Spark: session and register_views": _python(_VIEWS.format(root=root) + _END),
        "Spark: these and the first statement": _spark(root, first),
        "Spark: these and broker_availability": _spark(root, _AVAILABILITY),
        "Spark: these and it five times": _spark(root, *[_AVAILABILITY] * 5),
        "stock Spark: a session alone": _stock("SELECT 1"),
        "stock Spark: rows of `topic`": _stock(f"SELECT count(*) FROM delta.`{Path(root).resolve()}/topic`"),
    }


def _in_duckdb(statement: str) -> str:
    return statement.replace("date_sub(known_day, 1)", "known_day - 1")


def _namesrv(root: str, *arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("namesrv-stream")), "--root", root, *arguments]


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def _spark(root: str, *statements: str) -> list[str]:
    asked = "".join(f"; spark.sql({statement!r}).collect()" for statement in statements)
    return _python(_VIEWS.format(root=root) + asked + _END)


def _stock(statement: str) -> list[str]:
    settings = {
        "spark.jars": ",".join(map(str, jars_of_sessions())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:small;create=true",
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    spark_sql = str(Path(sys.executable).with_name("spark-sql"))
    return [spark_sql, "-S", "--master", "local[2]", *options, "-e", statement]


def measure(command: list[str]) -> tuple[float, float]:
    """Return the seconds of a process, and the seconds of CPU that it and its children took."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "JDK_"))}
    before, started_s = os.times(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        environment |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
        }
        done = subprocess.run(command, env=environment, cwd=folder, stdout=output, stderr=output, check=False)
        taken_s, after = time.monotonic() - started_s, os.times()
        output.seek(0)
        if done.returncode:
            raise click.ClickException(f"{shlex.join(command)}\n{output.read()[-2000:]}")
    return taken_s, after.children_user + after.children_system - before.children_user - before.children_system


@benchmark(
    click.argument("root", type=click.Path(exists=True, file_okay=False)),
    option("--runs", 3, "Runs, of which the least counts."),
)
def main(bench: Bench, root: str, runs: int) -> None:
    """Print one line for each first answer."""
    lines = []
    for name, command in cases(str(Path(root).resolve())).items():
        found = [measure(command) for _ in range(runs)]
        lines.append((name, *(f"{min(column):.1f}" for column in zip(*found, strict=True))))
    bench.rows(("first answer", "s", "CPU, s"), lines)


if __name__ == "__main__":
    main()
