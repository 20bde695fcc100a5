"""`archive`: lets the job and Spark sessions start sooner."""

import click

from namesrv_stream.cli.group import say
from namesrv_stream.local.class_archive import record_archive
from namesrv_stream.local.driver import ARCHIVE


@click.command("archive")
def archive() -> None:
    """Make an archive (190 MB) of the Java classes that the job loads. The job then starts a third sooner.

    `submit` uses it, and so do the Spark sessions of `up`, of `replay` and of the notebooks.

    This runs the job for a minute with a Kafka of its own. Do it again after an update of Java, pyspark or
    the jars: Java does not use an archive that does not fit.
    """
    record_archive(ARCHIVE, say)
    click.echo(ARCHIVE)
