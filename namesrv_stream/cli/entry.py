"""Options that all commands share, and the list of commands."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from namesrv_stream.cli.group import DEBUG, LazyCommand, LazyGroup, say
from namesrv_stream.config import Invocation, settings_without_effect, to_properties_text
from namesrv_stream.logs import set_up_logging

_LOOK, _CHANGE, _RUN = "Look", "Change (a record on Kafka each)", "Run"

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
    "addWritePerm": LazyCommand("namesrv_stream.cli.changes:add_write_perm", _CHANGE, "Make them writable again."),
    "deleteTopic": LazyCommand("namesrv_stream.cli.changes:delete_topic", _CHANGE, "Remove a topic from the routes."),
    "updateNamesrvConfig": LazyCommand(
        "namesrv_stream.cli.changes:update_namesrv_config", _CHANGE, "Change a setting at run time."
    ),
    "up": LazyCommand("namesrv_stream.cli.up:up", _RUN, "Kafka, the job and brokers on this machine, until Ctrl-C."),
    "demo": LazyCommand("namesrv_stream.cli.demo:demo", _RUN, "The same as a story, which ends by itself."),
    "demo-rocketmq": LazyCommand(
        "namesrv_stream.cli.demo_rocketmq:demo_rocketmq", _RUN, "A real RocketMQ broker and client, as a story."
    ),
    "gateway": LazyCommand(
        "namesrv_stream.gateway.command:gateway", _RUN, "Name server for real RocketMQ brokers and clients."
    ),
    "fleet": LazyCommand("namesrv_stream.cli.fleet:fleet", _RUN, "Simulated brokers against any Kafka."),
    "jars": LazyCommand("namesrv_stream.cli.jars:jars", _RUN, "Fetch the jars of Spark, once."),
    "replay": LazyCommand("namesrv_stream.replay.command:replay", _RUN, "Scenario cases through rules or stream."),
}


def key_values(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return the values of a repeatable option KEY=VALUE as a dict, or refuse one without `=`."""
    wrong = [value for value in values if "=" not in value]
    if wrong:
        raise click.BadParameter(f"{wrong[0]} is no KEY=VALUE.")
    return dict(value.split("=", 1) for value in values)


def _note_debug(context: click.Context, _parameter: click.Parameter, debug: bool) -> None:
    context.meta[DEBUG] = debug
    set_up_logging(logging.DEBUG if debug else logging.WARNING)


@click.command(
    cls=LazyGroup,
    lazy=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="Settings, Java properties.")
@click.option("-p", "--print", "print_only", is_flag=True, help="Print all settings in force and end.")
@click.option("--root", metavar="FOLDER", help="Where the tables are (setting delta.root).")
@click.option(
    "--set", "options", multiple=True, callback=key_values, metavar="KEY=VALUE", help="Any setting; repeatable."
)
@click.option(
    "--debug", is_flag=True, expose_value=False, callback=_note_debug, help="Tracebacks, and what libraries log."
)
@click.version_option(package_name="namesrv-stream", message="%(prog)s %(version)s")
@click.pass_context
def main(
    context: click.Context, file: Path | None, print_only: bool, root: str | None, options: dict[str, str]
) -> None:
    """Route registry of a RocketMQ cluster: Kafka to Spark to Delta Lake, and lookups from there."""
    context.obj = Invocation(file, options | ({"delta.root": root} if root is not None else {}))
    if print_only:
        for key in settings_without_effect(context.obj.settings):
            say(f"setting {key} has no effect here.")
        click.echo(to_properties_text(context.obj.settings), nl=False)
        context.exit()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)
