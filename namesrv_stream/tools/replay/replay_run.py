"""The command `namesrv-stream replay`: scenario cases through the rules or the real pipeline, results as JSON files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console

from namesrv_stream.reporting.progress_lines import progress
from namesrv_stream.tools.replay.cases import Case, load_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Replay = Callable[[Case], dict[str, Any]]

CASES_AT_ONCE = 3
"""Number of queries that share the session: each waits for Kafka and Delta most of the time."""


@click.command()
@click.option(
    "--engine",
    type=click.Choice(["rules", "stream"]),
    default="rules",
    show_default=True,
    help="The rules by themselves, or Kafka, the streaming job and Delta.",
)
@click.option(
    "--out", "folder", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for NAME.json."
)
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="CASE.json ...")
def replay(engine: str, folder: Path, files: tuple[Path, ...]) -> None:
    """Replay scenario cases, for example an incident written down as one, and write what came of them."""
    cases = load_cases(files)
    folder.mkdir(parents=True, exist_ok=True)
    with (
        progress("namesrv-stream", f"starting to replay {len(cases)} cases") as shown,
        _engine(engine) as run,
        ThreadPoolExecutor(CASES_AT_ONCE if engine == "stream" else 1) as pool,
    ):
        for done, (case, output) in enumerate(zip(cases, pool.map(run, cases), strict=True), start=1):
            shown.activity = f"{done} of {len(cases)} cases replayed"
            target = folder / f"{case.name}.json"
            target.write_bytes(msgspec.json.format(msgspec.json.encode(output), indent=1))
            Console().print(f"{case.name}: {len(case.steps)} steps -> {target}")


@contextmanager
def _engine(name: str) -> Iterator[Replay]:
    if name == "rules":
        from namesrv_stream.tools.replay.rules_engine import replay_by_rules  # noqa: PLC0415  # each engine loads its own

        yield replay_by_rules
        return
    with stream_engine() as run:
        yield run


@contextmanager
def stream_engine(spark: SparkSession | None = None) -> Iterator[Replay]:
    """Provide one Kafka and one Spark session for all cases replayed within the `with`; `spark` is not stopped."""
    from namesrv_stream.tools.local.kafka_server import LocalKafka  # noqa: PLC0415  # as above: Spark takes seconds to load
    from namesrv_stream.tools.local.spark import local_session  # noqa: PLC0415
    from namesrv_stream.tools.replay.stream_engine import replay_by_stream  # noqa: PLC0415

    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    base_ms = int(midnight.timestamp() * 1000)
    with ExitStack() as open_things:
        work = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="namesrv-replay-")))
        kafka = open_things.enter_context(LocalKafka(work / "kafka"))
        if spark is None:
            spark = local_session("replay", log=work / "spark.log")
            open_things.callback(spark.stop)
        yield lambda case: replay_by_stream(case, spark, kafka.bootstrap_servers, work / case.name, base_ms)
