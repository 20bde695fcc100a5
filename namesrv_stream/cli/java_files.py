"""`jars` and `archive`: files that Spark needs, or starts sooner with."""

from __future__ import annotations

import click

from namesrv_stream.cli.output import say
from namesrv_stream.tools.local.class_archive import record_archive
from namesrv_stream.tools.local.jars import retrieved_jars
from namesrv_stream.tools.local.submission import ARCHIVE

CONFIGURATIONS = ("spark", "kafka", "s3")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(CONFIGURATIONS), metavar="[spark] [kafka] [s3]")
def jars(parts: tuple[str, ...]) -> None:
    """Fetch the jars of Spark (and with `kafka` or `s3` those of Kafka or S3), and print their folders.

    Jars that are there are not fetched again. spark-submit takes them as --jars "$(namesrv-stream jars)/*.jar".
    """
    for part in parts or ("spark",):
        click.echo(retrieved_jars(part))


@click.command("archive")
def archive() -> None:
    """Make an archive (190 MB) of the Java classes that the job loads. The job then starts a third sooner.

    `submit` uses it, and so do the Spark sessions of `up`, of `replay` and of the notebooks.

    This runs the job for a minute with a Kafka of its own. Do it again after an update of Java, pyspark or
    the jars: Java does not use an archive that does not fit.
    """
    record_archive(ARCHIVE, say)
    click.echo(ARCHIVE)
