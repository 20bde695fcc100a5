"""Command that fetches jars, for a package that was installed from a wheel; in a checkout `make install` does it."""

from __future__ import annotations

import click

from namesrv_stream.local.jars import retrieved_jars

CONFIGURATIONS = ("spark", "kafka", "s3")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(CONFIGURATIONS), metavar="[spark] [kafka] [s3]")
def jars(parts: tuple[str, ...]) -> None:
    """Fetch the jars of Spark (and with `kafka` or `s3` those of Kafka or S3), and print their folders.

    Jars that are there are not fetched again. spark-submit takes them as --jars "$(namesrv-stream jars)/*.jar".
    """
    for part in parts or ("spark",):
        click.echo(retrieved_jars(part))
