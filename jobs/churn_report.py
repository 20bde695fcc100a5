"""The churn of a period as one HTML file that needs no network:

    SPARK_CONF_DIR=conf spark-submit jobs/churn_report.py --root data/registry --since 2026-11-01 --out report.html

Needs matplotlib: pip install 'namesrv-stream[analysis]'.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
from pyspark.sql import SparkSession

from namesrv_stream.config import load_settings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.history.report import churn_report
from namesrv_stream.history.views import register_views
from namesrv_stream.logs import set_up_logging
from namesrv_stream.tables.root import Root

DEFAULT_DAYS = 30
_DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])


@click.command()
@click.option("-c", "--config", type=click.Path(path_type=Path), help="Properties file with the settings.")
@click.option("--root", metavar="FOLDER", help="Where the tables are (setting delta.root).")
@click.option("--since", type=_DAY, help=f"UTC; {DEFAULT_DAYS} days before --until unless given.")
@click.option("--until", type=_DAY, help="UTC; the newest snapshot's event time unless given.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The HTML file.")
def main(config: Path | None, root: str | None, since: datetime | None, until: datetime | None, out: Path) -> None:
    """Write the report of a period."""
    set_up_logging()
    try:
        settings = load_settings(config, os.environ, {} if root is None else {"delta.root": root})
        spark = SparkSession.builder.appName("churn-report").getOrCreate()
        try:
            snapshot = register_views(spark, Root(settings.delta_root, settings.storage_options or None))
            newest = datetime.fromtimestamp((snapshot.event_time or snapshot.published_at) / 1000, UTC)
            end = until.replace(tzinfo=UTC) if until else newest
            start = since.replace(tzinfo=UTC) if since else end - timedelta(days=DEFAULT_DAYS)
            out.write_text(churn_report(spark, start, end), "utf-8")
        finally:
            spark.stop()
    except NamesrvError as error:
        click.echo(f"churn_report: {error}", err=True)
        sys.exit(error.exit_status)
    click.echo(f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}: {out}")


if __name__ == "__main__":
    main()
