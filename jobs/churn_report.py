"""Report of the churn of a period, as one HTML file that needs no network:

    .venv/bin/python jobs/churn_report.py --root data/registry --since 2026-11-01 --out report.html

It needs no Spark; spark-submit runs it too. Needs matplotlib: pip install 'namesrv-stream[analysis]'.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from namesrv_stream.cli.submitted import table_job
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import Snapshots

DEFAULT_DAYS = 30
_DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])


def _in_a_folder(_context: click.Context, _parameter: click.Parameter, file: Path) -> Path:
    if not os.access(file.absolute().parent, os.W_OK):
        raise click.BadParameter(f"{file.absolute().parent} is no folder to write to. Make it first.")
    return file


@click.command()
@table_job("churn_report")
@click.option("--since", type=_DAY, help=f"UTC; {DEFAULT_DAYS} days before --until unless given.")
@click.option("--until", type=_DAY, help="UTC; the newest snapshot's event time unless given.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    required=True,
    callback=_in_a_folder,
    help="The HTML file.",
)
def main(root: Root, _settings: NamesrvSettings, since: datetime | None, until: datetime | None, out: Path) -> None:
    """Write the churn report of a period as one HTML file."""
    from namesrv_stream.history.report import churn_report  # noqa: PLC0415 -- raises a NamesrvError without matplotlib

    end = until.replace(tzinfo=UTC) if until else _newest(root)
    start = since.replace(tzinfo=UTC) if since else end - timedelta(days=DEFAULT_DAYS)
    if start >= end:
        raise click.UsageError(f"--since {start:%Y-%m-%d %H:%M} is not before --until {end:%Y-%m-%d %H:%M}.")
    out.write_text(churn_report(root, start, end), "utf-8")
    click.echo(f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}: {out}")


def _newest(root: Root) -> datetime:
    snapshot = Snapshots(root).newest()
    return datetime.fromtimestamp((snapshot.event_time or snapshot.published_at) / 1000, UTC)


if __name__ == "__main__":
    main()
