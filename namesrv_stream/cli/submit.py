"""`submit`: a program of jobs/ by spark-submit."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import click

from namesrv_stream.cli.entry import DEBUG, key_values
from namesrv_stream.config import Invocation, as_options
from namesrv_stream.errors import masked
from namesrv_stream.tools.local.folder import is_in_service
from namesrv_stream.tools.local.submission import PROGRAMS, submission

_SPARK_KEYS = {"master": "spark.master", "py_files": "spark.submit.pyFiles"}


@click.command("submit", context_settings={"ignore_unknown_options": True})
@click.option(
    "--program", type=click.Choice(PROGRAMS), default=PROGRAMS[0], show_default=True, help="A program of jobs/."
)
@click.option("--master", metavar="URL", help="Spark's master; without it this machine.")
@click.option("--py-files", metavar="FILES", help="Zip files of Python for executors, with commas between them.")
@click.option("-s", "settings", multiple=True, callback=key_values, metavar="KEY=VALUE", help="As --set.")
@click.option(
    "--conf",
    "spark_options",
    multiple=True,
    callback=key_values,
    metavar="KEY=VALUE",
    help="Any other option of Spark, over conf/spark-defaults.conf. Repeatable.",
)
@click.option("--take-over", is_flag=True, help="Do not ask before the job of an `up` on this machine is replaced.")
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

    ARGUMENTS are the program's, such as --standby. This process becomes spark-submit. Where `namesrv-stream archive`
    has made an archive of classes, Java uses it.
    """
    if program == PROGRAMS[0] and "--standby" not in arguments and not named["take_over"]:
        _ask_if_served(replace(context.obj, options={**context.obj.options, **settings}))
    debug = ["--debug"] if context.meta.get(DEBUG) and program == PROGRAMS[0] else []
    given = [*_of_invocation(context.obj), *as_options(settings), *debug, *arguments]
    of_names = {key: value for name, key in _SPARK_KEYS.items() if (value := named[name]) is not None}
    command, environment = submission(program, given, spark_options={**spark_options, **of_names})
    os.execve(command[0], command, environment)


def _ask_if_served(invocation: Invocation) -> None:
    """Ask whether to replace the job of an `up` on this registry. Raises click.UsageError without a terminal."""
    root = invocation.settings.delta_root
    if not is_in_service(root):
        return
    served = f"`namesrv-stream up` serves {masked(root)}, and this job would replace its job"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{served}. Give --take-over if that is meant, or --standby to wait for its end.")
    click.confirm(f"{served}. Replace it?", abort=True)


def _of_invocation(invocation: Invocation) -> list[str]:
    """Return the options -c, --root and --set that were given, as a program of jobs/ takes them."""
    file = [] if invocation.file is None else ["-c", str(invocation.file)]
    return [*file, *as_options(invocation.options)]
