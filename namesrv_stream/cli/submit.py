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
@click.option("--master", metavar="URL", help="Spark's master (default: this machine).")
@click.option("--py-files", metavar="FILES", help="Zip files of Python for executors, separated by commas.")
@click.option("-s", "settings", multiple=True, callback=key_values, metavar="KEY=VALUE", help="Same as --set.")
@click.option(
    "--conf",
    "spark_options",
    multiple=True,
    callback=key_values,
    metavar="KEY=VALUE",
    help="Set any other option of Spark; repeatable.",
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
    """Run the streaming job with spark-submit.

    Or another program of jobs/, from any folder, with the settings of conf/. ARGUMENTS are those of the program, such
    as --standby. This process becomes spark-submit. Java uses the class archive of `namesrv-stream archive` if it
    exists.
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
    """Fetch the jars of Spark, and print their folders.

    With `kafka` or `s3` those of Kafka or S3. Existing jars are not fetched again. For spark-submit use
    --jars "$(namesrv-stream jars)/*.jar".
    """
    for part in parts or ("spark",):
        click.echo(retrieved_jars(part))


@click.command("archive")
def archive() -> None:
    """Create a class archive, so that the job starts sooner.

    190 MB of Java classes; a start takes a third less time. `submit` uses it, and so do the Spark sessions of `up`, of
    `replay` and of the notebooks.

    This runs the job for a minute with a Kafka of its own. Run it again after an update of Java, pyspark or the jars:
    Java ignores an archive that does not fit.
    """
    from namesrv_stream.tools.local.class_archive import record_archive  # noqa: PLC0415 -- `submit` needs no Kafka

    record_archive(ARCHIVE, say)
    click.echo(ARCHIVE)
