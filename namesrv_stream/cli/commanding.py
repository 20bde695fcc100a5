"""The commands that change the registry.

Each sends one record to Kafka, and the job applies records in the log's order.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import click

from namesrv_stream.answers.acknowledgements import LONGEST_MS, NAMESPACE, acknowledgement_value, acknowledgements
from namesrv_stream.answers.command_effects import effect_text
from namesrv_stream.answers.command_sending import (
    OperatorCommand,
    check_names,
    check_retirement,
    checked_order,
    has_read,
    names_in,
    outcome,
    send_order,
)
from namesrv_stream.answers.model import BadQuestionError
from namesrv_stream.answers.verdict import verdict_of
from namesrv_stream.cli.output import say, time_text
from namesrv_stream.cli.view import open_registry, seconds_option
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.config.values import parsed_duration
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    DeleteKvConfig,
    DeleteTopic,
    LiftExpiryGuard,
    PutKvConfig,
    RetireBroker,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.moment import RegistryAt

WAIT_S = 30.0
_POLL_S = 0.2


def _checked_name(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if not name or not name.isprintable():
        raise click.BadParameter("expected a name of printable characters.")
    return name


def _login() -> str:
    """Return the name of this login, or its number if the machine has no name for it, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the latter from Python 3.13 on
        return str(os.getuid())


requested_by_option = click.option(
    "--as",
    "requested_by",
    metavar="NAME",
    default=lambda: f"{_login()}@{socket.gethostname()}",
    show_default=False,
    callback=_checked_name,
    help="Record this name as the sender (default: the login).",
)
UNTIL_PUBLISHED = f"Wait until a snapshot has it (default: {WAIT_S:g} s)."


def _change(
    name: str,
    help_text: str,
    record: Callable[..., OperatorCommand],
    *options: click.Parameter,
    needs_reason: bool = False,
) -> click.Command:
    """Return a command that sends a record; `options` have the names of the record's fields."""

    @click.command(name, help=help_text)
    @click.option("--reason", metavar="TEXT", required=needs_reason, help="Record this reason in the history.")
    @seconds_option("wait", WAIT_S, UNTIL_PUBLISHED, least_s=0)
    @requested_by_option
    @click.pass_obj
    def command(invocation: Invocation, /, wait_s: float | None, yes: bool = False, **fields: str) -> None:
        send(invocation.settings, record(**fields), wait_s, is_sure=yes)

    command.params = [*options, *command.params]
    return command


def send(settings: NamesrvSettings, command: OperatorCommand, wait_s: float | None, *, is_sure: bool) -> None:
    """Check a command, send it, and say so. With `wait_s` wait until a snapshot has it, and say what came of it.

    `is_sure`: send it also for names that are not there, and without asking.
    """
    checked = checked_order(settings, command)
    before = _newest(settings)
    if before is None:
        _warn_of_names(settings, checked)
    else:
        check_retirement(checked, before.routes)
        if not is_sure:
            check_names(checked, before, "--yes")
            _show_effect(effect_text(before, checked))
    at = send_order(settings, checked)
    if wait_s is None:
        click.echo("sent; visible with the next snapshot (--wait waits for it)")
    else:
        if before is not None and has_read(before.snapshot, at):
            raise NamesrvError(
                f"sent at offset {at.offset}, but the tables are already past it (at "
                f"{before.snapshot.offsets[at.partition]}): they belong to another topic or another Kafka. Check "
                "kafka.bootstrap.servers, kafka.topic and delta.root."
            )
        after = _awaited(settings, at, wait_s)
        snapshot = after.snapshot
        came = outcome(checked, after, at, 0 if before is None else before.snapshot.epoch)
        published = time_text(snapshot.published_at, with_zone=True)
        click.echo(f"visible in snapshot {snapshot.epoch}, published {published}\n{came}".rstrip())


def _show_effect(effect: str | None) -> None:
    """Print what a command takes from topics. On a terminal, ask whether to send it."""
    if effect is None:
        return
    say(effect)
    if sys.stdin.isatty():
        click.confirm("Send it?", abort=True, err=True)


def _newest(settings: NamesrvSettings) -> RegistryAt | None:
    """Return the newest snapshot, None if this machine cannot read the tables. The record can be sent without them."""
    try:
        return open_registry(settings).newest()
    except NamesrvError:
        return None


def _warn_of_names(settings: NamesrvSettings, command: OperatorCommand) -> None:
    if names := [f"{kind} {name}" for kind, name, _ in names_in(command, RouteTables())]:
        say(
            f"warning: cannot read the tables at {settings.delta_root}, so these names are not checked: "
            f"{', '.join(names)}."
        )


def _awaited(settings: NamesrvSettings, at: LogPosition, limit_s: float) -> RegistryAt:
    say(f"sent; waiting up to {limit_s:g} s for the next snapshot ...")
    registry = open_registry(settings)
    deadline = time.monotonic() + limit_s
    while not has_read((newest := registry.newest()).snapshot, at):
        if time.monotonic() > deadline:
            raise NamesrvError(
                f"sent, but not in a snapshot within {limit_s:g} s. The job applies the record when it reads offset "
                f"{at.offset}. Check that it is running: `namesrv-stream status`."
            )
        time.sleep(_POLL_S)
    return newest


def _required(*names: str, metavar: str | None = None) -> click.Option:
    return click.Option(names, required=True, metavar=metavar)


_NAMESPACE, _KEY, _VALUE = _required("-s", "--namespace"), _required("-k", "--key"), _required("-v", "--value")
_BROKER = _required("-b", "--broker", "broker_name", metavar="NAME")
_YES = click.Option(["--yes"], is_flag=True, help="Send the command without asking, even for unknown names.")
_CLUSTER = click.Option(["-c", "--cluster", "cluster_name"], help="Remove it only from brokers in this cluster.")

update_kv_config = _change(
    "updateKvConfig",
    "Set a value in the KV table.\n\nCreates the namespace if it is missing.",
    PutKvConfig,
    _NAMESPACE,
    _KEY,
    _VALUE,
    _YES,
)
delete_kv_config = _change(
    "deleteKvConfig", "Delete a value from the KV table.", DeleteKvConfig, _NAMESPACE, _KEY, _YES
)
wipe_write_perm = _change(
    "wipeWritePerm",
    "Make all topics on a broker group read-only.\n\nThis lasts until the group registers with a new data version.",
    WipeWritePerm,
    _BROKER,
    _YES,
)
add_write_perm = _change(
    "addWritePerm",
    "Make all topics on a broker group readable and writable.\n\nAlso those that were write-only or read-only before.",
    AddWritePerm,
    _BROKER,
    _YES,
)
delete_topic = _change(
    "deleteTopic",
    "Remove a topic from the routes.\n\nA broker that still has the topic adds it again with its next registration.",
    DeleteTopic,
    _required("-t", "--topic"),
    _CLUSTER,
    _YES,
)
retire_broker = _change(
    "retireBroker",
    "Mark a broker that is down as permanently removed.\n\n"
    "It is not expected until it registers again. Its figures up to now stay as they are.",
    RetireBroker,
    _required("-c", "--cluster", "cluster_name"),
    _BROKER,
    click.Option(
        ["-i", "--id", "broker_id"], type=click.IntRange(min=0), required=True, help="Broker ID; 0 is the master."
    ),
    _YES,
    needs_reason=True,
)


def _known_cause(settings: NamesrvSettings, named: str, *, is_sure: bool, is_acknowledged: bool = False) -> str:
    """Return the id of a problem by its id or its name, as the health line has it. Raises BadQuestionError."""
    registry = open_registry(settings).newest()
    found = {each.id: each.name for each in verdict_of(registry).causes}
    if is_acknowledged:
        found = {key: found.get(key, key) for key in acknowledgements(registry)}
    same = [key for key, name in found.items() if named in (key, name)]
    if len(same) == 1 or (is_sure and not same):
        return same[0] if same else named
    known = ", ".join(f"'{name}' ({key})" for key, name in found.items() if not same or key in same)
    if same:
        raise BadQuestionError(f"not sent: {len(same)} problems are named '{named}': {known}. Give the ID.")
    which = "acknowledged problem" if is_acknowledged else "problem"
    advice = f"Known: {known}." if known else f"There is no {which} now."
    raise BadQuestionError(f"not sent: no {which} '{named}' now. {advice} --yes sends it anyway.")


def checked_length(longest_ms: int) -> Callable[[click.Context, click.Parameter, str | None], timedelta | None]:
    """Return the callback of an option that takes a duration, at most so long."""

    def checked(_context: click.Context, _option: click.Parameter, text: str | None) -> timedelta | None:
        if text is None:
            return None
        try:
            lasts = parsed_duration(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}.") from error
        if not timedelta() < lasts <= timedelta(milliseconds=longest_ms):
            raise click.BadParameter(f"use more than 0 and at most {longest_ms // 86_400_000}d.")
        return lasts

    return checked


@click.command("acknowledge")
@click.argument("cause", metavar="PROBLEM")
@click.option(
    "--for", "lasts", callback=checked_length(LONGEST_MS), default="2h", metavar="DURATION", help="How long it holds."
)
@click.option("--reason", metavar="TEXT", required=True, help="Record this reason in the history.")
@seconds_option("wait", WAIT_S, UNTIL_PUBLISHED, least_s=0)
@requested_by_option
@click.option("--yes", is_flag=True, help="Send the command even if there is no such problem now.")
@click.pass_obj
def acknowledge(
    invocation: Invocation, /, cause: str, lasts: timedelta, wait_s: float | None, *, yes: bool, **said: str
) -> None:
    """Say that a problem is known, until when and why.

    PROBLEM is its name in the health line ("zone eu-b") or its ID. It is shown beside the problem everywhere; the
    level stays.
    """
    key = _known_cause(invocation.settings, cause, is_sure=yes)
    value = acknowledgement_value(round(time.time() * 1000) + lasts // timedelta(milliseconds=1))
    record = PutKvConfig(namespace=NAMESPACE, key=key, value=value, **said)
    send(invocation.settings, record, wait_s, is_sure=yes)


@click.command("endAcknowledgement")
@click.argument("cause", metavar="PROBLEM")
@click.option("--reason", metavar="TEXT", help="Record this reason in the history.")
@seconds_option("wait", WAIT_S, UNTIL_PUBLISHED, least_s=0)
@requested_by_option
@click.option("--yes", is_flag=True, help="Send the command even if there is no such problem now.")
@click.pass_obj
def end_acknowledgement(
    invocation: Invocation, /, cause: str, wait_s: float | None, *, yes: bool, **said: str | None
) -> None:
    """End an acknowledgement before its time."""
    key = _known_cause(invocation.settings, cause, is_sure=yes, is_acknowledged=True)
    record = DeleteKvConfig(namespace=NAMESPACE, key=key, **said)
    send(invocation.settings, record, wait_s, is_sure=yes)


lift_expiry_guard = _change(
    "liftExpiryGuard",
    "Let all suspect brokers expire now.\n\n"
    "These are the silent brokers that the mass-expiry guard keeps (setting expiryGuardRatio).",
    LiftExpiryGuard,
)
update_namesrv_config = _change(
    "updateNamesrvConfig",
    "Change a setting of all running processes.\n\nSettings that take effect only at a start are rejected.",
    lambda key, value, **more: UpdateNamesrvConfig(properties={key: value}, **more),
    _KEY,
    _VALUE,
)
