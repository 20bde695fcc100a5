"""Report of the churn of a period, as one HTML file that needs no network:

    .venv/bin/python jobs/churn_report.py --root data/registry --since 2026-11-01 --out report.html

It needs no Spark; spark-submit runs it too. Needs matplotlib: pip install 'namesrv-stream[analysis]'.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import click

from namesrv_stream.answers.subject import ACCEPTED
from namesrv_stream.cli.submitted import table_job
from namesrv_stream.cli.view import begin_time, past_time
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.reporting.texts import SHOWN_ZONE
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import Snapshots

DEFAULT_DAYS = 30


def _in_a_folder(_context: click.Context, _parameter: click.Parameter, file: Path) -> Path:
    if not os.access(file.absolute().parent, os.W_OK):
        raise click.BadParameter(f"{file.absolute().parent} is no folder to write to. Make it first.")
    return file


@click.command()
@table_job("churn_report")
@click.option("--since", type=begin_time, metavar="TIME", help=f"{ACCEPTED}. Else {DEFAULT_DAYS} days before --until.")
@click.option("--until", type=past_time, metavar="TIME", help="Else the newest snapshot's event time.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    required=True,
    callback=_in_a_folder,
    help="The HTML file.",
)
def main(root: Root, _settings: NamesrvSettings, since: AsOf | None, until: AsOf | None, out: Path) -> None:
    """Write the churn report of a period as one HTML file. The days in it are those of UTC."""
    from namesrv_stream.analysis.report import churn_report  # noqa: PLC0415 -- raises a NamesrvError without matplotlib

    end = _time(until) or _newest(root)
    start = _time(since) or end - timedelta(days=DEFAULT_DAYS)
    period = [f"{each:%Y-%m-%d %H:%M %Z}" for each in (start, end)]
    if start >= end:
        raise click.UsageError(f"--since {period[0]} is not before --until {period[1]}.")
    out.write_text(churn_report(root, start, end), "utf-8")
    click.echo(f"{' to '.join(period)}: {out}")


def _time(given: AsOf | None) -> datetime | None:
    return None if given is None or given.at_ms is None else _shown(given.at_ms)


def _shown(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, SHOWN_ZONE.get())


def _newest(root: Root) -> datetime:
    snapshot = Snapshots(root).newest()
    return _shown(snapshot.event_time or snapshot.published_at)


if __name__ == "__main__":
    main()
