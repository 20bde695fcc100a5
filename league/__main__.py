"""Play the scenarios against RocketMQ's NameServer and the gateway: `make league`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console

import league.scenarios  # noqa: F401 -- fills SCENARIOS
from league.report import markdown, terminal_table
from league.scenario import SCENARIOS, Needs, Scenario
from league.sides import Gateways, NameServers, Side
from namesrv_stream.tools.local.jars import CHECKOUT
from namesrv_stream.tools.local.kafka_server import LocalKafka
from namesrv_stream.tools.local.spark import local_session
from real_rocketmq.servers import Release

PAGE = CHECKOUT / "docs" / "league.md"
SIDES = ("4.9.7", "5.4.0", "gateway")


@contextmanager
def open_side(name: str, folder: Path) -> Iterator[Side]:
    """Provide a side, by its name in the table, with all that it needs, within the `with`."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as open_things:
        if name == "gateway":
            kafka = open_things.enter_context(LocalKafka(folder / "kafka"))
            spark = local_session("league", {"spark.driver.memory": "2g"}, log=folder / "spark.log")
            open_things.callback(spark.stop)
            yield open_things.enter_context(Gateways(folder, kafka.bootstrap_servers, spark))
        else:
            release = Release.V4 if name == "4.9.7" else Release.V5
            yield open_things.enter_context(NameServers(folder, release))


def play(side: Side, scenarios: list[Scenario], log: Callable[[str], None]) -> dict[str, str | None]:
    """Return the wrong result of each scenario, None if all was right, by its rule."""
    found = {}
    for each in scenarios:
        if side.is_4x and Needs.V5 in each.needs:
            continue
        started_s = time.monotonic()
        found[each.rule] = each.judge(side)
        log(f"{side.name}, {time.monotonic() - started_s:5.1f} s: {each.rule}: {found[each.rule] or 'right'}")
    return found


@click.command()
@click.argument("word", default="")
@click.option("--side", "names", multiple=True, default=SIDES, type=click.Choice(SIDES), help="Play on these alone.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for the servers' logs, which are kept.")
def main(word: str, names: tuple[str, ...], keep: Path | None) -> None:
    """Play the scenarios that have WORD in their rule.

    Without WORD and --side all are played on all sides, and docs/league.md is written.
    """
    console = Console(width=None if sys.stdout.isatty() else 160)
    scenarios = [each for each in SCENARIOS if word in each.rule]
    started_s = time.monotonic()
    with TemporaryDirectory() as folder:
        found = {}
        for name in names:
            with open_side(name, (keep or Path(folder)) / name) as side:
                found[name] = play(side, scenarios, lambda line: console.print(line, markup=False, highlight=False))
    verdicts = [{name: found[name][each.rule] for name in names if each.rule in found[name]} for each in scenarios]
    console.print(terminal_table(scenarios, verdicts, names))
    if not word and set(names) == set(SIDES):
        PAGE.write_text(markdown(scenarios, verdicts, names, time.monotonic() - started_s, os.cpu_count() or 1))
        console.print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
