"""Check operators' commands, send them as records of the Kafka contract, and look for them in the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import get_args

import msgspec

from namesrv_stream.answers.definitions import Past, down_brokers
from namesrv_stream.answers.subject import BadQuestionError, now_of
from namesrv_stream.config import NamesrvSettings, checked_changes, kafka_client_arguments
from namesrv_stream.errors import MalformedRecordError, NamesrvError, did_you_mean
from namesrv_stream.records import decode_record, encode_record
from namesrv_stream.rules.commands import holder_of, ordered_brokers, problem_of_put
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
from namesrv_stream.rules.rows import LogPosition, SnapshotRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshot_reader import RegistryView

OperatorCommand = (
    WipeWritePerm
    | AddWritePerm
    | DeleteTopic
    | PutKvConfig
    | DeleteKvConfig
    | UpdateNamesrvConfig
    | LiftExpiryGuard
    | RetireBroker
)
"""Commands that operators send here. Brokers and mqadmin register topics at a gateway."""

_DELIVERY_LIMIT_MS = 15_000


def parsed_order(body: bytes) -> OperatorCommand:
    """Return the command in a body. Raises MalformedRecordError or BadQuestionError."""
    command = decode_record(body)
    if not isinstance(command, OperatorCommand):
        kinds = ", ".join(str(kind.__struct_config__.tag) for kind in get_args(OperatorCommand))
        raise BadQuestionError(f"{command.__struct_config__.tag} is no operator's command. Send one of {kinds}.")
    return command


def checked_order(settings: NamesrvSettings, command: OperatorCommand) -> OperatorCommand:
    """Return the command as the job will accept it.

    Raises BadQuestionError if the job would reject it or if it is an order configuration that clients cannot read. For
    changed settings it raises SettingError or ConfigBlackListError.
    """
    try:
        decode_record(encode_record(command))
    except MalformedRecordError as error:
        raise BadQuestionError(f"nothing was sent, because the job would reject it: {error.reason}.") from error
    if problem := problem_of_put(command):
        raise BadQuestionError(f"nothing was sent: {problem}.")
    if isinstance(command, UpdateNamesrvConfig):
        return msgspec.structs.replace(command, properties=checked_changes(settings, command.properties))
    return command


def check_retirement(command: OperatorCommand, root: Root, view: RegistryView) -> None:
    """Raise BadQuestionError for a broker to retire that is not down (A7): somebody holds its id, or nobody had it."""
    if not isinstance(command, RetireBroker):
        return
    broker = f"{command.broker_name} {command.broker_id} of cluster {command.cluster_name}"
    if holder := holder_of(command, view.routes.brokers.get(command.broker_name, {}).get(command.broker_id)):
        raise BadQuestionError(f"nothing was sent: {holder} is up as {broker}. Retire one that is down.")
    past = Past(root, view.snapshot, is_made=False, now_ms=now_of(view.snapshot))
    down = {f"{name} {number} of cluster {cluster}" for cluster, name, number, *_ in down_brokers(past, view.routes)}
    if broker not in down:
        advice = did_you_mean(broker, down)
        raise BadQuestionError(f"nothing was sent: {broker} is not among the brokers that are down. {advice}".rstrip())


def send_order(settings: NamesrvSettings, command: OperatorCommand) -> LogPosition:
    """Send the command, and return its place in the log. Blocks until Kafka has acknowledged it.

    Raises KafkaUnreachableError or KafkaRefusedError.
    """
    from namesrv_stream.kafka.producer import HeartbeatProducer  # noqa: PLC0415  # lookups start without Kafka

    kafka, topic = kafka_client_arguments(settings), settings.kafka_topic
    with HeartbeatProducer(kafka, topic, delivery_timeout_ms=_DELIVERY_LIMIT_MS) as producer:
        return producer.send(command).result()


def has_read(snapshot: SnapshotRow, at: LogPosition) -> bool:
    """Return whether a snapshot has the record at a place in the log."""
    return snapshot.offsets.get(at.partition, 0) > at.offset


class UnknownNameError(NamesrvError):
    """A command names what the tables do not have. `names` are these names."""

    def __init__(self, unknown: Sequence[tuple[str, str, Iterable[str]]], how: str) -> None:
        told = " ".join(f"there is no {kind} {name} now. {did_you_mean(name, known)}" for kind, name, known in unknown)
        super().__init__(f"nothing was sent: {told.rstrip()} {how} sends it all the same.")
        self.names = [name for _, name, _ in unknown]


def check_names(command: OperatorCommand, tables: RouteTables, how: str) -> None:
    """Raise UnknownNameError if a name in the command is not in the tables. `how` a sender sends it all the same.

    A record that is on its way may add the name. RocketMQ's request 205 answers 0 rows in place of an error (A1), and
    so does a gateway.
    """
    if unknown := [each for each in names_in(command, tables) if each[1] not in each[2]]:
        raise UnknownNameError(unknown, how)


def names_in(command: OperatorCommand, tables: RouteTables) -> Iterable[tuple[str, str, Collection[str]]]:
    """Yield the kind of each name in the command, the name, and the known names of that kind."""
    match command:
        case WipeWritePerm(broker_name=name) | AddWritePerm(broker_name=name):
            yield "broker", name, tables.brokers
        case PutKvConfig():
            yield from (("broker", name, tables.brokers) for name in ordered_brokers(command))
        case DeleteKvConfig(namespace=namespace, key=key):
            yield "value", f"{namespace}/{key}", [f"{namespace}/{each}" for each in tables.kv.get(namespace, ())]
        case DeleteTopic(topic=topic, cluster_name=cluster):
            yield "topic", topic, tables.queues
            if cluster:
                yield "cluster", cluster, tables.clusters
