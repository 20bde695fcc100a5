"""Maintenance of the registry's tables under spark-submit, once a day or so, while the job runs or not:

    SPARK_CONF_DIR=conf spark-submit jobs/maintain_tables.py -c conf/namesrv.properties

Small files are put together, snapshot rows past retention go, and VACUUM removes files that no retained snapshot needs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from pyspark.sql import SparkSession

from namesrv_stream.config import load_settings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.logs import set_up_logging
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.root import Root


@click.command()
@click.option("-c", "--config", type=click.Path(path_type=Path), help="Properties file with the settings.")
@click.option("--root", metavar="FOLDER", help="Where the tables are (setting delta.root).")
@click.option("--no-vacuum", is_flag=True, help="Keep files that no retained snapshot needs.")
def main(config: Path | None, root: str | None, no_vacuum: bool) -> None:
    """Put small files together and remove what no retained snapshot needs."""
    set_up_logging()
    try:
        settings = load_settings(config, os.environ, {} if root is None else {"delta.root": root})
        spark = SparkSession.builder.appName("maintain-tables").getOrCreate()
        try:
            place = Root(settings.delta_root, settings.storage_options or None)
            for care in maintain(spark, place, vacuum=not no_vacuum):
                put_off = ", put off: the job was writing it" if care.is_put_off else ""
                click.echo(f"{care.table}: {care.files_before} files, now {care.files_after}{put_off}")
        finally:
            spark.stop()
    except NamesrvError as error:
        click.echo(f"maintain_tables: {error}", err=True)
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
