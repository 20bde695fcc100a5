"""Entry of the command line: the list of commands, imported lazily, their shared options, and errors as one line."""

from __future__ import annotations

import copy
import importlib
import logging
import traceback
from dataclasses import replace
from datetime import UTC, tzinfo
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click

from namesrv_stream.cli.output import say
from namesrv_stream.config import Invocation, log_notes, printed_settings
from namesrv_stream.errors import NamesrvError, did_you_mean, masked
from namesrv_stream.reporting.logs import set_up_logging
from namesrv_stream.reporting.texts import SHOWN_ZONE

DEBUG = "namesrv_stream.debug"
"""Key in click's meta; its value is True if --debug was given."""


class LazyCommand(NamedTuple):
    """Place of a command, `module:attribute` in this package, and its heading and words in the help."""

    target: str
    heading: str
    summary: str


_LOOK, _CHANGE, _KEEP, _RUN = "Query", "Change (each sends a record to Kafka)", "Back up and repair", "Run"
_BESIDE = "Run, from a checkout"
"""Heading of the commands whose modules are beside this package and not in it."""

COMMANDS = {
    "status": LazyCommand("cli.status:status", _LOOK, "Show the state of job, Kafka, gateways and tables."),
    "topicRoute": LazyCommand("cli.routes:topic_route", _LOOK, "Show the route of a topic."),
    "topicList": LazyCommand("cli.routes:topic_list", _LOOK, "List topics with their states and queues."),
    "clusterList": LazyCommand("cli.routes:cluster_list", _LOOK, "Show the health, clusters and brokers."),
    "brokerList": LazyCommand("cli.routes:broker_list", _LOOK, "List the brokers that are up or down."),
    "history": LazyCommand("cli.what_happened:history", _LOOK, "List events of brokers and topics."),
    "why": LazyCommand("cli.what_happened:why", _LOOK, "Show the history of a broker or a topic."),
    "incidents": LazyCommand("cli.what_happened:incidents", _LOOK, "List outages of brokers and what they did."),
    "impact": LazyCommand("cli.foresight:what_if_gone", _LOOK, "Show what topics would lose if brokers were gone."),
    "diff": LazyCommand("cli.what_happened:diff", _LOOK, "Compare two snapshots or times."),
    "snapshots": LazyCommand("cli.what_happened:snapshots", _LOOK, "List the published snapshots."),
    "rejected": LazyCommand("cli.what_happened:rejected", _LOOK, "List rejected records and requests."),
    "getKvConfig": LazyCommand("cli.routes:get_kv_config", _LOOK, "Print one value of the KV table."),
    "listKvConfig": LazyCommand("cli.routes:list_kv_config", _LOOK, "List a namespace of the KV table."),
    "getNamesrvConfig": LazyCommand("cli.routes:get_namesrv_config", _LOOK, "Print all settings in force."),
    "updateKvConfig": LazyCommand("cli.commanding:update_kv_config", _CHANGE, "Set a value in the KV table."),
    "deleteKvConfig": LazyCommand("cli.commanding:delete_kv_config", _CHANGE, "Delete a value from the KV table."),
    "wipeWritePerm": LazyCommand("cli.commanding:wipe_write_perm", _CHANGE, "Make a broker group read-only."),
    "addWritePerm": LazyCommand("cli.commanding:add_write_perm", _CHANGE, "Make a broker group writable."),
    "deleteTopic": LazyCommand("cli.commanding:delete_topic", _CHANGE, "Remove a topic from the routes."),
    "updateNamesrvConfig": LazyCommand(
        "cli.commanding:update_namesrv_config", _CHANGE, "Change a setting at run time."
    ),
    "retireBroker": LazyCommand("cli.commanding:retire_broker", _CHANGE, "Mark a down broker as permanently removed."),
    "acknowledge": LazyCommand("cli.commanding:acknowledge", _CHANGE, "Say that a problem is known, and why."),
    "endAcknowledgement": LazyCommand(
        "cli.commanding:end_acknowledgement", _CHANGE, "End an acknowledgement before its time."
    ),
    "expectAbsence": LazyCommand("cli.absences:expect_absence", _CHANGE, "Say what is away by plan, and until when."),
    "listAbsences": LazyCommand("cli.absences:list_absences", _LOOK, "List the planned absences."),
    "endAbsence": LazyCommand("cli.absences:end_absence", _CHANGE, "End a planned absence before its time."),
    "liftExpiryGuard": LazyCommand("cli.commanding:lift_expiry_guard", _CHANGE, "Let suspect brokers expire now."),
    "compare": LazyCommand("cli.inspection:compare", _LOOK, "Compare a NameServer with the registry."),
    "export": LazyCommand("cli.backups:export", _KEEP, "Write the tables of one snapshot to a file."),
    "import": LazyCommand("cli.backups:import_", _KEEP, "Create a registry from an exported file."),
    "backup": LazyCommand("cli.backups:backup", _KEEP, "Export the newest snapshot to a folder."),
    "restore": LazyCommand("cli.backups:restore", _KEEP, "Publish the tables of an earlier snapshot."),
    "repair": LazyCommand("cli.backups:repair_", _KEEP, "Repair tables with damaged files."),
    "doctor": LazyCommand("cli.inspection:doctor", _RUN, "Check Kafka, storage, job, tables and certificate."),
    "up": LazyCommand("cli.on_this_machine:up", _RUN, "Run everything on this machine, until Ctrl-C."),
    "demo": LazyCommand("cli.on_this_machine:demo", _RUN, "Show an outage and its end."),
    "gateway": LazyCommand("gateway.launch:gateway", _RUN, "Serve RocketMQ brokers and clients."),
    "fleet": LazyCommand("cli.fleet:fleet", _RUN, "Simulate brokers."),
    "console": LazyCommand("console.serving:console", _RUN, "Serve the web page and the HTTP API."),
    "submit": LazyCommand("cli.submit:submit", _RUN, "Run the streaming job with spark-submit."),
    "records": LazyCommand("cli.records:records", _RUN, "Print the JSON Schema of the records on Kafka."),
    "archive": LazyCommand("cli.submit:archive", _RUN, "Create a class archive, so that the job starts sooner."),
    "jars": LazyCommand("cli.submit:jars", _RUN, "Fetch the jars of Spark."),
    "replay": LazyCommand("replay.replay_run:replay", _BESIDE, "Replay scenario cases through the rules or the job."),
    "demo-rocketmq": LazyCommand("real_rocketmq.demo:demo_rocketmq", _BESIDE, "Show a real RocketMQ cluster."),
}


def key_values(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the values of a repeatable option KEY=VALUE as a dict, or refuse one without `=` or key."""
    if wrong := [value for value in values if value.find("=") < 1]:
        raise click.BadParameter(f"expected KEY=VALUE, not '{wrong[0]}'.")
    return dict(value.split("=", 1) for value in values)


def _note(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Put the value of -c, --root or --set into the invocation.

    A command's invocation begins as a copy of the program's.
    """
    given = context.obj if isinstance(context.obj, Invocation) else Invocation(None, {})
    if option.name == "config":
        context.obj = replace(given, file=value or given.file)
    else:
        root = {} if value is None else {"delta.root": value}
        settings = key_values(context, option, value) if option.multiple else root
        context.obj = replace(given, options={**given.options, **settings})


def _note_debug(context: click.Context, _parameter: click.Parameter, debug: bool) -> None:
    if debug or context.parent is None:
        context.meta[DEBUG] = debug
        set_up_logging(logging.DEBUG if debug else logging.WARNING)


_NOTED: dict[str, Any] = {"expose_value": False, "callback": _note}


def settings_options(*names_of_set: str) -> list[click.Option]:
    """Return -c, --root and the option for any setting, to which the programs of jobs/ give a short name too."""
    return [
        click.Option(
            ["-c", "--config"],
            type=click.Path(path_type=Path),
            help="Read settings from this file (Java properties).",
            **_NOTED,
        ),
        click.Option(["--root"], metavar="FOLDER", help="Folder or URL of the tables (setting delta.root).", **_NOTED),
        click.Option(names_of_set, multiple=True, metavar="KEY=VALUE", help="Set any setting; repeatable.", **_NOTED),
    ]


def _note_zone(context: click.Context, _parameter: click.Parameter, name: str | None) -> None:
    """Set the zone of times, for this command alone if it runs within another program."""
    if name is None and context.parent is not None:
        return
    zone: tzinfo = UTC
    if name is not None:
        from namesrv_stream.answers.times import zone_named  # noqa: PLC0415 -- it loads the tables' libraries

        try:
            zone = zone_named(name)
        except NamesrvError as error:
            raise click.BadParameter(str(error), context) from error
    token = SHOWN_ZONE.set(zone)
    context.call_on_close(lambda: SHOWN_ZONE.reset(token))


ZONE = click.Option(
    ["--tz"],
    metavar="ZONE",
    is_eager=True,
    expose_value=False,
    callback=_note_zone,
    help="Time zone for input and output (default: UTC).",
)
_DEBUG = click.Option(
    ["--debug"],
    is_flag=True,
    expose_value=False,
    callback=_note_debug,
    help="Show tracebacks and the logs of libraries.",
)
SHARED = (*settings_options("--set"), ZONE, _DEBUG)
"""Options that are accepted before and after the name of every command. The last value given wins."""


class LazyGroup(click.Group):
    """Click group that imports each of COMMANDS when it is called; click's own `commands` stays empty."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, but refuse arguments that are not UTF-8: neither JSON nor a table can hold them."""
        for argument in args:
            try:
                argument.encode()
            except UnicodeEncodeError:
                problem = f"{argument!a} is not UTF-8. Set the terminal to UTF-8."
                raise click.UsageError(problem, ctx) from None
        return super().parse_args(ctx, args)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return all names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command. RocketMQ's names are camelCase; any case is accepted."""
        name = {each.lower(): each for each in COMMANDS}.get(cmd_name.lower())
        if name is None:
            return None
        module, attribute = COMMANDS[name].target.split(":")
        if COMMANDS[name].heading != _BESIDE:
            module = f"namesrv_stream.{module}"
        elif find_spec(module.partition(".")[0]) is None:
            raise click.UsageError(f"{name} is not in the installed package. Run it from a checkout of the project.")
        return _with_shared_options(getattr(importlib.import_module(module), attribute))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, but name the nearest command if there is none of this name."""
        command = self.get_command(ctx, args[0])
        if command is None and not args[0].startswith("-"):
            ctx.fail(f"no command '{args[0]}'. {did_you_mean(args[0], COMMANDS)}--help lists all.")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help's list of commands without importing any of them."""
        for heading in dict.fromkeys(command.heading for command in COMMANDS.values()):
            rows = [(name, command.summary) for name, command in COMMANDS.items() if command.heading == heading]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Print an error as one line, with --debug after its traceback, and exit with its status."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click handles these, also the end of a reader of our output, as in `| head`
        except Exception as error:
            if ctx.meta.get(DEBUG):
                click.echo(masked(traceback.format_exc()), nl=False, err=True)
            if isinstance(error, NamesrvError):
                say(str(error))
                ctx.exit(error.exit_status)
            message = " ".join(str(error).split()).removesuffix(".")  # delta-rs writes several lines of an object store
            what = f"unexpected {type(error).__name__}: {message}."
            if isinstance(error, OSError) and error.strerror:
                place = error.filename or "an output or a file"
                what = f"{place}: {error.strerror.lower()}. Check the free space, and that this user may write there."
            say(f"{what} --debug shows where.")
            ctx.exit(1)


def _with_shared_options(command: click.Command) -> click.Command:
    """Return a copy of the command that also accepts SHARED, except spellings that the command uses itself.

    The help of a demo, which refuses settings, does not list them.
    """
    own = {spelling for parameter in command.params for spelling in parameter.opts}
    extended = copy.copy(command)
    extended.params = list(command.params)
    for option in SHARED:
        reduced = copy.copy(option)
        reduced.opts = [spelling for spelling in option.opts if spelling not in own]
        reduced.hidden = option.callback is _note and str(command.name).startswith("demo")
        extended.params += [reduced] if reduced.opts else []
    return extended


@click.command(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
)
@click.option("-p", "--print", "print_only", is_flag=True, help="Print all settings in force.")
@click.version_option(package_name="namesrv-stream", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context, print_only: bool) -> None:
    """Route registry for RocketMQ on Kafka, Spark and Delta Lake."""
    if print_only:
        settings = context.obj.settings
        log_notes(settings)
        click.echo(printed_settings(settings), nl=False)
        context.exit()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)


main.params += SHARED
