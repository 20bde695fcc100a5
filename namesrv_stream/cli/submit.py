"""The commands `submit`, which runs a program under Spark, `jars` and `archive`, which prepare files for it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from namesrv_stream.cli.entry import DEBUG, key_values
from namesrv_stream.cli.output import say
from namesrv_stream.config import as_options, java_properties
from namesrv_stream.tools.local.jars import retrieved_jars
from namesrv_stream.tools.local.submission import ARCHIVE, PROGRAMS, submission

_SPARK_KEYS = {"master": "spark.master", "py_files": "spark.submit.pyFiles"}


@click.command("submit", context_settings={"ignore_unknown_options": True})
@click.option("--program", type=click.Choice(PROGRAMS), default=PROGRAMS[0], help="A program of jobs/.")
@click.option("--master", metavar="URL", help="Spark's master; without it this machine.")
@click.option("--py-files", metavar="FILES", help="Zip files of Python for executors, with commas between them.")
@click.option("-s", "settings", multiple=True, callback=key_values, metavar="KEY=VALUE", help="As --set.")
@click.option(
    "--conf",
    "spark_options",
    multiple=True,
    callback=key_values,
    metavar="KEY=VALUE",
    help="Any other option of Spark, over those of spark-defaults.conf. Repeatable.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def submit(
    context: click.Context,
    /,
    program: str,
    settings: dict[str, str],
    spark_options: dict[str, str],
    arguments: tuple[str, ...],
    **named: Any,
) -> None:
    """Run the job, or another program of jobs/, by spark-submit with the settings of conf/, from any folder.

    ARGUMENTS are the program's, such as --standby. This process becomes spark-submit. Java uses the archive of classes
    that `namesrv-stream archive` makes, if there is one.
    """
    options = {**context.obj.options, **settings}
    in_force = replace(context.obj, options=options).settings
    is_job = program == PROGRAMS[0]
    debug = ["--debug"] if context.meta.get(DEBUG) and is_job else []
    file = [] if context.obj.file is None else ["-c", str(context.obj.file)]
    given = [*file, *as_options(options), *debug, *arguments]
    of_names = {key: value for name, key in _SPARK_KEYS.items() if (value := named[name]) is not None}
    of_java = " ".join(f'"-D{name}={value}"' for name, value in java_properties(in_force).items())
    of_executors = {"spark.executor.defaultJavaOptions": of_java} if of_java else {}
    temp = Path(in_force.job_temp_folder) if is_job else None
    options_of_spark = {**of_executors, **spark_options, **of_names}
    command, environment = submission(program, given, spark_options=options_of_spark, temp=temp)
    os.execve(command[0], command, environment)


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(["spark", "kafka", "s3"]), metavar="[spark] [kafka] [s3]")
def jars(parts: tuple[str, ...]) -> None:
    """Fetch the jars of Spark (and with `kafka` or `s3` those of Kafka or S3), and print their folders.

    Jars that exist are not fetched again. For spark-submit use --jars "$(namesrv-stream jars)/*.jar".
    """
    for part in parts or ("spark",):
        click.echo(retrieved_jars(part))


@click.command("archive")
def archive() -> None:
    """Make an archive (190 MB) of the Java classes that the job loads. The job then starts a third sooner.

    `submit` uses it, and so do the Spark sessions of `up`, of `replay` and of the notebooks.

    This runs the job for a minute with a Kafka of its own. Run it again after an update of Java, pyspark or the jars,
    because Java ignores an archive that does not fit.
    """
    from namesrv_stream.tools.local.class_archive import record_archive  # noqa: PLC0415 -- `submit` needs no Kafka

    record_archive(ARCHIVE, say)
    click.echo(ARCHIVE)
