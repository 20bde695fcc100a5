"""Options that all commands share, and the list of commands."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from namesrv_stream.cli.group import DEBUG, LazyCommand, LazyGroup
from namesrv_stream.config import Invocation, log_notes, to_properties_text
from namesrv_stream.logs import set_up_logging

_LOOK, _CHANGE, _KEEP, _RUN = "Look", "Change (a record on Kafka each)", "Keep", "Run"

COMMANDS = {
    "status": LazyCommand("namesrv_stream.cli.status:status", _LOOK, "State of the job, the served snapshot, its lag."),
    "topicRoute": LazyCommand("namesrv_stream.cli.routes:topic_route", _LOOK, "Route of a topic."),
    "topicList": LazyCommand("namesrv_stream.cli.routes:topic_list", _LOOK, "All topics, or a cluster's."),
    "clusterList": LazyCommand("namesrv_stream.cli.routes:cluster_list", _LOOK, "Clusters and their brokers."),
    "brokerList": LazyCommand("namesrv_stream.cli.routes:broker_list", _LOOK, "Live broker addresses."),
    "history": LazyCommand("namesrv_stream.cli.past:history", _LOOK, "Events of brokers and topics, newest last."),
    "why": LazyCommand("namesrv_stream.cli.compare:why", _LOOK, "Story of a broker or a topic, in sentences."),
    "diff": LazyCommand("namesrv_stream.cli.compare:diff", _LOOK, "Differences between two moments."),
    "snapshots": LazyCommand("namesrv_stream.cli.past:snapshots", _LOOK, "Published snapshots, newest last."),
    "rejected": LazyCommand("namesrv_stream.cli.past:rejected", _LOOK, "Records that were refused, newest last."),
    "getKvConfig": LazyCommand("namesrv_stream.cli.configs:get_kv_config", _LOOK, "One value of the KV table."),
    "listKvConfig": LazyCommand("namesrv_stream.cli.configs:list_kv_config", _LOOK, "A namespace of the KV table."),
    "getNamesrvConfig": LazyCommand(
        "namesrv_stream.cli.configs:get_namesrv_config", _LOOK, "Settings, with those changed at run time."
    ),
    "updateKvConfig": LazyCommand("namesrv_stream.cli.changes:update_kv_config", _CHANGE, "Put a value."),
    "deleteKvConfig": LazyCommand("namesrv_stream.cli.changes:delete_kv_config", _CHANGE, "Delete a value."),
    "wipeWritePerm": LazyCommand(
        "namesrv_stream.cli.changes:wipe_write_perm", _CHANGE, "Make all topics of a broker name read-only."
    ),
    "addWritePerm": LazyCommand(
        "namesrv_stream.cli.changes:add_write_perm", _CHANGE, "Make all topics of a broker name writable."
    ),
    "deleteTopic": LazyCommand("namesrv_stream.cli.changes:delete_topic", _CHANGE, "Remove a topic from the routes."),
    "updateNamesrvConfig": LazyCommand(
        "namesrv_stream.cli.changes:update_namesrv_config", _CHANGE, "Change a setting at run time."
    ),
    "liftExpiryGuard": LazyCommand(
        "namesrv_stream.cli.changes:lift_expiry_guard", _CHANGE, "End the leases of suspect brokers."
    ),
    "compare": LazyCommand(
        "namesrv_stream.cli.compare_namesrv:compare", _LOOK, "Compare the answers of a RocketMQ NameServer."
    ),
    "export": LazyCommand("namesrv_stream.cli.backups:export", _KEEP, "Write one snapshot's tables to a file."),
    "import": LazyCommand("namesrv_stream.cli.backups:import_", _KEEP, "Make a new registry of such a file."),
    "backup": LazyCommand("namesrv_stream.cli.backups:backup", _KEEP, "Export the newest snapshot to a folder."),
    "restore": LazyCommand("namesrv_stream.cli.backups:restore", _KEEP, "Publish an earlier epoch's tables again."),
    "repair": LazyCommand("namesrv_stream.cli.backups:repair_", _KEEP, "Mend tables with damaged files."),
    "doctor": LazyCommand("namesrv_stream.cli.doctor:doctor", _RUN, "Check this machine, Kafka and the storage."),
    "up": LazyCommand("namesrv_stream.cli.up:up", _RUN, "Run Kafka, the job and brokers here, until Ctrl-C."),
    "demo": LazyCommand("namesrv_stream.cli.demo:demo", _RUN, "Show an outage and its end as a story."),
    "demo-rocketmq": LazyCommand(
        "namesrv_stream.cli.demo_rocketmq:demo_rocketmq", _RUN, "Show a real RocketMQ broker and client as a story."
    ),
    "gateway": LazyCommand("namesrv_stream.gateway.command:gateway", _RUN, "Serve real RocketMQ brokers and clients."),
    "fleet": LazyCommand("namesrv_stream.cli.fleet:fleet", _RUN, "Simulate brokers against any Kafka."),
    "replay": LazyCommand(
        "namesrv_stream.replay.command:replay", _RUN, "Replay scenario cases through the rules or the job."
    ),
    "console": LazyCommand("namesrv_stream.console.command:console", _RUN, "Serve a page and an HTTP API."),
    "submit": LazyCommand("namesrv_stream.cli.submit:submit", _RUN, "Run the job by spark-submit."),
    "archive": LazyCommand(
        "namesrv_stream.cli.archive:archive", _RUN, "Let the job start sooner, by an archive of Java's classes."
    ),
    "jars": LazyCommand("namesrv_stream.cli.jars:jars", _RUN, "Fetch the jars of Spark, once."),
}


def _invocation(context: click.Context) -> Invocation:
    """Return the invocation with the options read so far. A command begins with that of the program."""
    if not isinstance(context.obj, Invocation):
        context.obj = Invocation(None, {})
    return context.obj


def _add_options(context: click.Context, options: Mapping[str, str]) -> None:
    given = _invocation(context)
    context.obj = replace(given, options={**given.options, **options})


def _note_file(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    if file is not None:
        context.obj = replace(_invocation(context), file=file)


def _note_root(context: click.Context, _parameter: click.Parameter, root: str | None) -> None:
    if root is not None:
        _add_options(context, {"delta.root": root})


def key_values(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the values of a repeatable option KEY=VALUE as a dict, or refuse one without `=`."""
    if wrong := [value for value in values if "=" not in value]:
        raise click.BadParameter(f"{wrong[0]} is no KEY=VALUE.")
    return dict(value.split("=", 1) for value in values)


def _note_pairs(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    _add_options(context, key_values(context, parameter, values))


def _note_debug(context: click.Context, _parameter: click.Parameter, debug: bool) -> None:
    if debug or context.parent is None:
        context.meta[DEBUG] = debug
        set_up_logging(logging.DEBUG if debug else logging.WARNING)


_FILE = click.Option(
    ["-c", "--config"],
    type=click.Path(path_type=Path),
    expose_value=False,
    callback=_note_file,
    help="File of settings, in Java properties format.",
)
_ROOT = click.Option(
    ["--root"],
    metavar="FOLDER",
    expose_value=False,
    callback=_note_root,
    help="Folder or URL of the tables (setting delta.root).",
)
_SET = click.Option(
    ["--set"],
    multiple=True,
    expose_value=False,
    callback=_note_pairs,
    metavar="KEY=VALUE",
    help="Set any setting; repeatable.",
)
_DEBUG = click.Option(
    ["--debug"],
    is_flag=True,
    expose_value=False,
    callback=_note_debug,
    help="Show tracebacks, and the logs of libraries.",
)
SHARED = (_FILE, _ROOT, _SET, _DEBUG)
"""Options that are accepted before and after the name of every command. The last value given wins."""


@click.command(
    cls=LazyGroup,
    lazy=COMMANDS,
    shared=SHARED,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("-p", "--print", "print_only", is_flag=True, help="Print all settings in force and end.")
@click.version_option(package_name="namesrv-stream", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context, print_only: bool) -> None:
    """Route registry of a RocketMQ cluster: Kafka to Spark to Delta Lake, and lookups from there."""
    settings_of = _invocation(context)
    if print_only:
        log_notes(settings_of.settings)
        click.echo(to_properties_text(settings_of.settings), nl=False)
        context.exit()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)
