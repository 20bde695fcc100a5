"""Maintenance of the registry's tables, once a day or so, while the job runs or not:

    python jobs/maintain_tables.py -c conf/namesrv.properties

It merges small files, sorts the history, deletes rows of `rejected` that are older than 90 days, and removes
files that no readable snapshot needs (VACUUM). It needs no Spark; spark-submit runs it too.
"""

from __future__ import annotations

import click

from namesrv_stream.cli.submitted import table_job
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.reporting.logs import progress
from namesrv_stream.reporting.texts import counted
from namesrv_stream.tables.maintenance import maintain
from namesrv_stream.tables.root import Root


@click.command()
@table_job("maintain_tables")
@click.option("--no-vacuum", is_flag=True, help="Keep all snapshots and files.")
def main(root: Root, settings: NamesrvSettings, no_vacuum: bool) -> None:
    """Merge small files, and remove old rejected records and files that no readable snapshot needs."""
    with progress("maintain_tables") as shown:

        def on_table(name: str) -> None:
            shown.activity = f"maintaining table {name}"

        maintained = maintain(
            root,
            vacuum=not no_vacuum,
            exact_ms=round(settings.snapshot_exact.total_seconds() * 1000),
            on_table=on_table,
        )
    for care in maintained:
        skipped_because = f"; skipped, because {care.skipped_because}" if care.skipped_because else ""
        click.echo(
            f"{care.table}: {counted(care.files_before, 'file')} before, {care.files_after} now{skipped_because}"
        )


if __name__ == "__main__":
    main()
