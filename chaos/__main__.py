"""`make chaos`: one incident after the other, in an order that the seed decides, for as long as there is time.

After each of them every snapshot, and what readers saw, has to be what the rules make of the log.
"""

from __future__ import annotations

import math
import random
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.harness import percentile
from chaos.incidents import ALL, ON_REQUEST
from chaos.world import LEASE_MS, World
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.rows import BrokerEventRow
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import BROKER_EVENT
from namesrv_stream.tools.local.spark import local_session

out = Console()


@click.command()
@click.option("--seed", type=int, help="Of the fleet and of the order of incidents; printed at the start.")
@click.option("--minutes", type=float, default=20, show_default=True, help="No incident begins after that.")
@click.option("--only", "names", multiple=True, type=click.Choice(list(ALL | ON_REQUEST)), help="These, in this order.")
@click.option("--times", type=int, help="Each incident so often, however long that takes.")
def main(seed: int | None, minutes: float, names: tuple[str, ...], times: int | None) -> None:
    """End jobs, Kafka and gateway under churn, and compare what is left with the rules."""
    seed = seed if seed is not None else random.SystemRandom().randrange(10**6)
    folder = Path(tempfile.mkdtemp(prefix="namesrv-chaos-"))
    out.print(f"seed {seed}, logs in {folder}")
    chosen = list(names)
    if times is not None:
        each_time, minutes = (chosen or list(ALL)) * times, math.inf
        chosen = random.Random(seed).sample(each_time, len(each_time))
    try:
        run(folder, seed, minutes, chosen)
    except NamesrvError as error:
        out.print(f"seed {seed}: {error}", markup=False)
        sys.exit(1)
    shutil.rmtree(folder)


def run(folder: Path, seed: int, minutes: float, names: list[str]) -> None:
    """Each of `names` once, or all of them in turn until the time is up. Raises NamesrvError, above all a difference.

    `folder` gets logs and tables.
    """
    rng = random.Random(seed)
    spark = local_session("chaos-reader", cores="1", log=folder / "reader.log")
    happened: dict[str, list[dict[str, float]]] = defaultdict(list)
    ends_s = time.monotonic() + 60 * minutes
    with World(folder, seed, spark) as world:
        for name in names or _in_turn(rng):
            if time.monotonic() > ends_s:
                break
            happened[name].append((ALL | ON_REQUEST)[name](world, rng))
            world.check()
            out.print(_line(name, len(world.verifier.snapshots), happened[name][-1]), soft_wrap=True)
        last = world.start_job()
        world.await_published(last)
        last.stop(limit_s=60)
        world.check()
        out.print(_table(happened))
        out.print({name: f"{value:.0f}" for name, value in expiry_figures(world.settings.delta_root).items()})
        looks = {type(each).__name__: each.looks for each in world.onlookers}
        out.print(f"{len(world.verifier.snapshots)} snapshots and {looks} looks, none torn")
    spark.stop()


def _line(name: str, snapshots: int, figures: dict[str, float]) -> str:
    measured = ", ".join(f"{figure} {value:.1f}" for figure, value in figures.items())
    return f"{time.strftime('%X')} {name}: {snapshots} snapshots equal the rules'. {measured}"


def _in_turn(rng: random.Random) -> Iterator[str]:
    while True:
        yield from rng.sample(list(ALL), len(ALL))


def _table(happened: dict[str, list[dict[str, float]]]) -> Table:
    """Return the number of times that each incident happened, and the smallest and largest of each figure."""
    table = Table("incident", "times", "figure", "least", "most")
    for name, all_figures in sorted(happened.items()):
        if not all_figures[0]:
            table.add_row(name, str(len(all_figures)))
        for figure in all_figures[0]:
            values = [figures[figure] for figures in all_figures]
            table.add_row(name, str(len(all_figures)), figure, f"{min(values):.1f}", f"{max(values):.1f}")
    return table


def expiry_figures(root: str) -> dict[str, float]:
    """Milliseconds from deadlines to the ticks that ended the leases, and to the snapshots that showed it."""
    reader = Registry(root)
    published_ms = {row.epoch: row.published_at for row in reader.read(lambda snapshots: snapshots.readable())}
    lines: list[BrokerEventRow] = rows_from_arrow(BROKER_EVENT, reader.newest()[BROKER_EVENT.name])
    ended = [line for line in lines if line.type == "EXPIRED"]
    deadlines = [(line, (line.last_heard_at or 0) + LEASE_MS) for line in ended]
    ticks = [line.event_time - deadline_ms for line, deadline_ms in deadlines]
    seen = [published_ms[line.epoch] - deadline_ms for line, deadline_ms in deadlines]
    return {
        "expiries": len(ended),
        "tick after deadline, p50 ms": percentile(ticks, 0.5),
        "tick after deadline, p99 ms": percentile(ticks, 0.99),
        "published after deadline, p50 ms": percentile(seen, 0.5),
        "published after deadline, p99 ms": percentile(seen, 0.99),
    }


if __name__ == "__main__":
    main()
