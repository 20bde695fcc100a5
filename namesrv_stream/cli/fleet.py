"""`fleet`: simulated brokers that send to a Kafka, or with --history a new registry with their whole past."""

from __future__ import annotations

import math
import time
from pathlib import Path

import click
from click.core import ParameterSource

from namesrv_stream.cli.output import say
from namesrv_stream.reporting.logs import errors_alone
from namesrv_stream.reporting.progress_lines import progress
from namesrv_stream.tools.fleet.chronicle import DAY_MS, MINUTE_MS, SHAPE, Chronicle, chronicle_plan
from namesrv_stream.tools.fleet.fleet_run import fleet as live_fleet

_LONGEST_DAYS = 3660
_LEAST_BATCH_HOURS, _MOST_BATCH_HOURS = 0.05, 744
_SHAPE = ("brokers", "clusters", "slaves_per_master", "topics", "zones")
_WITH_HISTORY = (*_SHAPE, "seed", "history_days", "out", "batch_hours")


@click.pass_context
def _run(
    context: click.Context, /, history_days: float | None, out: Path, batch_hours: float, **options: object
) -> None:
    if history_days is None:
        assert live_fleet.callback is not None
        context.invoke(live_fleet.callback, **options)
        return
    given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if useless := [name for name in given if name not in _WITH_HISTORY]:
        raise click.UsageError(f"--{useless[0].replace('_', '-')} has no effect with --history.")
    shape = {name: options[name] for name in _SHAPE if name in given}
    _make_history(history_days, int(str(options["seed"])), shape, out, batch_hours)


def _make_history(days: float, seed: int, shape: dict[str, object], out: Path, batch_hours: float) -> None:
    from namesrv_stream.tools.replay.past import publish_history  # noqa: PLC0415 -- Spark takes seconds to load

    end_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
    chronicle = Chronicle(chronicle_plan(seed, **shape), end_ms - round(days * DAY_MS), days)
    with (
        errors_alone("namesrv_stream.job"),  # no warnings of CreateTime and missing ticks: the past needs both
        progress("namesrv-stream", "starting Kafka") as shown,
    ):
        publish_history(chronicle.records(), out, round(chronicle.records_an_hour * batch_hours), say, shown)
    say(f"the history is in {out}: namesrv-stream --root {out} history")


def _number(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Return `value`, or raise BadParameter if it is nan, which click accepts in every range."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is no number.")
    return value


fleet = click.Command(
    "fleet",
    params=[
        *live_fleet.params,
        click.Option(
            ["--history", "history_days"],
            type=click.FloatRange(0, _LONGEST_DAYS, min_open=True),
            callback=_number,
            metavar="DAYS",
            help="Publish a past of this many days, with incidents, through a Kafka and a job of its own, and end. "
            f"Default: {', '.join(f'--{name} {count}' for name, count in SHAPE.items())}.",
        ),
        click.Option(
            ["--out"],
            type=click.Path(path_type=Path, file_okay=False),
            default=Path("data/history"),
            show_default=True,
            help="Folder of the registry that --history makes.",
        ),
        click.Option(
            ["--batch-hours"],
            type=click.FloatRange(_LEAST_BATCH_HOURS, _MOST_BATCH_HOURS),
            callback=_number,
            default=1.0,
            show_default=True,
            help="Hours that --history puts into one epoch.",
        ),
    ],
    callback=_run,
    help=live_fleet.help,
)
