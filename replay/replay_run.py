"""The command `namesrv-stream replay`: scenario cases through the rules or the real pipeline, results as JSON files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from namesrv_stream.reporting.logs import progress
from replay.cases import Case, load_cases
from replay.rules_engine import replay_by_rules

Replay = Callable[[Case], dict[str, Any]]

CASES_AT_ONCE = 3
"""Number of queries that share the session, because each waits for Kafka and Delta most of the time."""


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
            click.echo(f"{case.name}: {len(case.steps)} steps -> {target}")


@contextmanager
def _engine(name: str) -> Iterator[Replay]:
    if name == "rules":
        yield replay_by_rules
        return
    from replay.stream_engine import stream_engine  # noqa: PLC0415  # Spark takes seconds to load

    with stream_engine() as run:
        yield run
