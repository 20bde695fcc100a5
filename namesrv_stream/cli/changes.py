"""Commands that change the registry: each sends one record to Kafka, which the job applies in the order of the log."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterable

import click

from namesrv_stream.cli.group import say
from namesrv_stream.cli.output import time_text
from namesrv_stream.cli.view import open_reader
from namesrv_stream.config import Invocation, NamesrvSettings, checked_changes, kafka_client_arguments
from namesrv_stream.errors import MalformedRecordError, NamesrvError, did_you_mean
from namesrv_stream.records import decode_record, encode_record
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.order_config import problem_of_put, unknown_brokers
from namesrv_stream.rules.requests import (
    AddWritePerm,
    Command,
    DeleteKvConfig,
    DeleteTopic,
    LiftExpiryGuard,
    PutKvConfig,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.rows import LogPosition, SnapshotRow
from namesrv_stream.tables.reader import RegistryView

DEFAULT_WAIT_S = 30.0
_DELIVERY_LIMIT_MS = 15_000
_POLL_S = 0.2


class NotAcceptedError(NamesrvError):
    """Refusal to send a command that the job would write to the table `rejected`."""

    exit_status = 2

    def __init__(self, reason: str) -> None:
        super().__init__(f"nothing was sent, because the job would reject it: {reason}. Correct that argument.")
        self.reason = reason


class OrderConfigError(NamesrvError):
    """Refusal to send an order configuration that clients cannot read. A gateway takes it, as a NameServer does."""

    exit_status = 2

    def __init__(self, problem: str) -> None:
        super().__init__(f"nothing was sent: {problem}.")


class NotPublishedError(NamesrvError):
    """End of the time that `--wait` allows before a snapshot had the record."""

    def __init__(self, at: LogPosition, waited_s: float) -> None:
        super().__init__(
            f"offset {at.offset} is on Kafka, but no snapshot has passed it within {waited_s:g} s. "
            "Is the job running? It will apply the record; `namesrv-stream status` shows how far behind the tables are."
        )
        self.at = at


class OtherLogError(NamesrvError):
    """Refusal to wait: the tables were made from another log than the one to which the record was sent."""

    def __init__(self, at: LogPosition, snapshot: SnapshotRow) -> None:
        super().__init__(
            f"the tables had passed offset {snapshot.offsets[at.partition]} before this record got offset {at.offset}: "
            "they are of another topic or another Kafka. Check kafka.bootstrap.servers, kafka.topic and delta.root."
        )
        self.at = at


def _login() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _checked_name(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if not name or not name.isprintable():
        raise click.BadParameter("a name that can be printed is accepted")
    return name


requested_by_option = click.option(
    "--as",
    "requested_by",
    metavar="NAME",
    default=_login,
    callback=_checked_name,
    help="Name to record in the history as the sender. Default: the login.",
)


def _change(name: str) -> Callable[[Callable[..., Command]], click.Command]:
    """Return a decorator that makes a command from a function, which returns the record or raises a NamesrvError."""

    def decorate(record: Callable[..., Command]) -> click.Command:
        @click.command(name, help=record.__doc__)
        @click.option(
            "--wait",
            "wait_s",
            type=click.FloatRange(min=0),
            is_flag=False,
            flag_value=DEFAULT_WAIT_S,
            metavar="[SECONDS]",
            help=f"Wait until it is published, {DEFAULT_WAIT_S:g} s at most unless given.",
        )
        @requested_by_option
        @click.pass_obj
        def command(invocation: Invocation, /, wait_s: float | None, requested_by: str, **fields: str) -> None:
            _put(invocation, record(invocation, requested_by=requested_by, **fields), wait_s)

        command.params = [*getattr(record, "__click_params__", [])[::-1], *command.params]
        return command

    return decorate


def _put(invocation: Invocation, request: Command, wait_s: float | None) -> None:
    _check(request)
    before = _newest(invocation.settings)
    if before is not None:
        _warn_of_unknown(request, before.routes)
    elif names := [f"{kind} {name}" for kind, name, _ in _names(request, RouteTables())]:
        place = invocation.settings.delta_root
        say(
            f"warning: the tables at {place} cannot be read here, so nothing tells whether there is {', '.join(names)}."
        )
    at = _sent(invocation.settings, request)
    click.echo(f"{invocation.settings.kafka_topic} partition {at.partition} offset {at.offset}")
    if wait_s is not None:
        if before is not None and before.snapshot.offsets.get(at.partition, 0) > at.offset:
            raise OtherLogError(at, before.snapshot)
        _wait(invocation.settings, at, wait_s)


def _check(request: Command) -> None:
    try:
        decode_record(encode_record(request))
    except MalformedRecordError as error:
        raise NotAcceptedError(error.reason) from error
    if problem := problem_of_put(request):
        raise OrderConfigError(problem)


def _newest(settings: NamesrvSettings) -> RegistryView | None:
    """Return the newest snapshot, None if this machine cannot read the tables: the record can be sent without them."""
    try:
        return open_reader(settings).follow()
    except NamesrvError:
        return None


def _sent(settings: NamesrvSettings, request: Command) -> LogPosition:
    from namesrv_stream.kafka.producer import HeartbeatProducer  # noqa: PLC0415  # lookups start without kafka

    kafka, limit_ms = kafka_client_arguments(settings), _DELIVERY_LIMIT_MS
    with HeartbeatProducer(kafka, settings.kafka_topic, delivery_timeout_ms=limit_ms) as producer:
        return producer.send(request).result()


def _wait(settings: NamesrvSettings, at: LogPosition, limit_s: float) -> None:
    say(f"waiting up to {limit_s:g} s for a snapshot that has offset {at.offset} ...")
    reader = open_reader(settings)
    deadline = time.monotonic() + limit_s
    while (snapshot := reader.follow().snapshot).offsets.get(at.partition, 0) <= at.offset:
        if time.monotonic() > deadline:
            raise NotPublishedError(at, limit_s)
        time.sleep(_POLL_S)
    click.echo(f"published with epoch {snapshot.epoch} at {time_text(snapshot.published_at)}")


def _warn_of_unknown(request: Command, tables: RouteTables) -> None:
    """Warn of names that are not in the tables. The command is sent all the same: a record may be about to add them."""
    for kind, name, known in _names(request, tables):
        if name not in known:
            say(f"warning: {kind} {name} is not in the tables now. {did_you_mean(name, known)}".rstrip())


def _names(request: Command, tables: RouteTables) -> Iterable[tuple[str, str, Iterable[str]]]:
    """Yield each name in the command with its kind before it and the known names of that kind after it."""
    match request:
        case WipeWritePerm(broker_name=name) | AddWritePerm(broker_name=name):
            yield "broker", name, tables.brokers
        case DeleteKvConfig(namespace=namespace, key=key):
            yield "value", f"{namespace}/{key}", [f"{namespace}/{each}" for each in tables.kv.get(namespace, ())]
        case DeleteTopic(topic=topic, cluster_name=cluster):
            yield "topic", topic, tables.queues
            if cluster:
                yield "cluster", cluster, tables.clusters


@_change("updateKvConfig")
@click.option("-s", "--namespace", required=True)
@click.option("-k", "--key", required=True)
@click.option("-v", "--value", required=True)
@click.option("--yes", is_flag=True, help="Do not ask whether broker names that are not in the tables are right.")
def update_kv_config(  # noqa: PLR0913, PLR0917  # one argument an option
    invocation: Invocation, requested_by: str, namespace: str, key: str, value: str, yes: bool
) -> Command:
    """Put a value into the KV table. Makes the namespace if it is missing."""
    request = PutKvConfig(namespace=namespace, key=key, value=value, requested_by=requested_by)
    if not yes:
        _ask_about_brokers(invocation.settings, request)
    return request


def _ask_about_brokers(settings: NamesrvSettings, request: Command) -> None:
    """Ask before an order configuration is put that names brokers which are not in the tables."""
    if problem_of_put(request) or not unknown_brokers(request, ()):
        return
    newest = _newest(settings)
    if newest is not None and (unknown := unknown_brokers(request, newest.routes.brokers)):
        advice = did_you_mean(unknown[0], newest.routes.brokers)
        say(f"no broker {', '.join(unknown)} is in the tables now. {advice}--yes puts the value without asking.")
        click.confirm("Put it all the same?", abort=True, err=True)


@_change("deleteKvConfig")
@click.option("-s", "--namespace", required=True)
@click.option("-k", "--key", required=True)
def delete_kv_config(_invocation: Invocation, requested_by: str, namespace: str, key: str) -> Command:
    """Delete a value from the KV table."""
    return DeleteKvConfig(namespace=namespace, key=key, requested_by=requested_by)


@_change("wipeWritePerm")
@click.option("-b", "--broker", required=True, metavar="NAME")
def wipe_write_perm(_invocation: Invocation, requested_by: str, broker: str) -> Command:
    """Make all topics of a broker name read-only, until it registers with a new data version."""
    return WipeWritePerm(broker_name=broker, requested_by=requested_by)


@_change("addWritePerm")
@click.option("-b", "--broker", required=True, metavar="NAME")
def add_write_perm(_invocation: Invocation, requested_by: str, broker: str) -> Command:
    """Make all topics of a broker name readable and writable, also those that were write-only or read-only before."""
    return AddWritePerm(broker_name=broker, requested_by=requested_by)


@_change("deleteTopic")
@click.option("-t", "--topic", required=True)
@click.option("-c", "--cluster", help="Remove it only from brokers of this cluster.")
def delete_topic(_invocation: Invocation, requested_by: str, topic: str, cluster: str | None) -> Command:
    """Remove a topic from the routes. A broker that still has the topic adds it again with its next registration."""
    return DeleteTopic(topic=topic, cluster_name=cluster, requested_by=requested_by)


@_change("liftExpiryGuard")
def lift_expiry_guard(_invocation: Invocation, requested_by: str) -> Command:
    """End the leases of all silent brokers that the guard against mass expiry holds (setting expiryGuardRatio)."""
    return LiftExpiryGuard(requested_by=requested_by)


@_change("updateNamesrvConfig")
@click.option("-k", "--key", required=True)
@click.option("-v", "--value", required=True)
def update_namesrv_config(invocation: Invocation, requested_by: str, key: str, value: str) -> Command:
    """Change a setting of all running processes. Accepts only settings that docs/configuration.md calls live."""
    return UpdateNamesrvConfig(properties=checked_changes(invocation.settings, {key: value}), requested_by=requested_by)
