"""Check operators' commands, send them as records of the Kafka contract, and look for their effect in the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import get_args

import msgspec

from namesrv_stream.answers.definitions import down_brokers, lost_topics
from namesrv_stream.answers.events import events_of_record, with_changes
from namesrv_stream.answers.model import BadQuestionError
from namesrv_stream.answers.sentences import story_of_group
from namesrv_stream.config import NamesrvSettings, checked_changes, kafka_client_arguments
from namesrv_stream.errors import MalformedRecordError, NamesrvError, did_you_mean
from namesrv_stream.records import decode_record, encode_record
from namesrv_stream.reporting.texts import broker_text
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
from namesrv_stream.tables.moment import RegistryAt

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

MAX_REASON_CHARS = 500
_DELIVERY_LIMIT_MS = 15_000


def parsed_order(body: bytes) -> OperatorCommand:
    """Return the command in a body. Raises MalformedRecordError or BadQuestionError."""
    command = decode_record(body)
    if not isinstance(command, OperatorCommand):
        kinds = ", ".join(str(kind.__struct_config__.tag) for kind in get_args(OperatorCommand))
        raise BadQuestionError(f"{command.__struct_config__.tag} is not an operator command. Use {kinds}.")
    return command


def checked_order(settings: NamesrvSettings, command: OperatorCommand) -> OperatorCommand:
    """Return the command as the job will accept it.

    Raises BadQuestionError if the job would reject it, if the history cannot keep its reason, or if it is an order
    configuration that clients cannot read. For changed settings it raises SettingError or ConfigBlackListError.
    """
    if command.reason is not None:
        check_reason(command.reason)
    try:
        decode_record(encode_record(command))
    except MalformedRecordError as error:
        raise BadQuestionError(f"not sent, because the job would reject it: {error.reason}.") from error
    if problem := problem_of_put(command):
        raise BadQuestionError(f"not sent: {problem}.")
    if isinstance(command, UpdateNamesrvConfig):
        return msgspec.structs.replace(command, properties=checked_changes(settings, command.properties))
    return command


def check_reason(reason: str | None) -> None:
    """Raise BadQuestionError for a command without a reason, or with one that the history cannot keep."""
    if reason is None or not reason.strip():
        raise BadQuestionError('a command needs a "reason", which the history keeps.')
    if len(reason) > MAX_REASON_CHARS or not reason.isprintable():
        raise BadQuestionError(f"the reason must be one line of at most {MAX_REASON_CHARS} printable characters.")


class BrokerIsUpError(NamesrvError):
    """A broker to retire is up (A7). `holder` is the address that holds its id."""

    def __init__(self, command: RetireBroker, holder: str, what: str) -> None:
        super().__init__(f"{what}: {_broker_of(command)} is up ({holder}). Only brokers that are down can be retired.")
        self.holder = holder


def check_retirement(command: OperatorCommand, tables: RouteTables) -> None:
    """Raise BrokerIsUpError for a broker to retire that is up: the job would refuse the command (A7)."""
    if not isinstance(command, RetireBroker):
        return
    if holder := holder_of(command, tables.brokers.get(command.broker_name, {}).get(command.broker_id)):
        raise BrokerIsUpError(command, holder, "not sent")


def _broker_of(command: RetireBroker) -> str:
    return f"{broker_text(command.broker_name, command.broker_id)} in {command.cluster_name}"


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


def outcome(command: OperatorCommand, registry: RegistryAt, at: LogPosition, after_epoch: int) -> str:
    """Return what came of a command, by the lines of the history that its record made in a later epoch than one.

    Raises BrokerIsUpError for a retirement that the job has refused: the broker came back before the record.
    """
    lines = with_changes(registry, events_of_record(registry, at, after_epoch))
    for line in lines:
        if isinstance(command, RetireBroker) and line.held_id and line.broker_addr:
            raise BrokerIsUpError(command, line.broker_addr, f"rejected by the job in snapshot {line.epoch}")
    return story_of_group(lines) if lines else ""


class UnknownNameError(NamesrvError):
    """A command names what the tables do not have. `names` are these names, and `down` broker names that are down."""

    def __init__(self, unknown: Sequence[tuple[str, str, Iterable[str]]], how: str, down: Collection[str]) -> None:
        told = " ".join(
            f"{name} is down, so the routes do not have it."
            if kind == "broker group" and name in down
            else f"no {kind} '{name}' now. {did_you_mean(name, known)}"
            for kind, name, known in unknown
        )
        super().__init__(f"not sent: {told.rstrip()} {how} sends it anyway.")
        self.names = [name for _, name, _ in unknown]


def check_names(command: OperatorCommand, registry: RegistryAt, how: str) -> None:
    """Raise UnknownNameError if a name in the command is not in the tables. `how` a sender sends it all the same.

    A record that is on its way may add the name. RocketMQ's request 205 answers 0 rows in place of an error (A1), and
    so does a gateway.
    """
    gone = _gone(command, registry)
    if unknown := [each for each in names_in(command, registry.routes, gone) if each[1] not in each[2]]:
        raise UnknownNameError(unknown, how, {each.broker_name for each in down_brokers(registry)})


def _gone(command: OperatorCommand, registry: RegistryAt) -> set[str]:
    """Return the names that a command may have beside those of the routes: brokers that are down, or their topics.

    A deletion in one cluster ends nothing on names that are down.
    """
    match command:
        case DeleteTopic(cluster_name=cluster) if not cluster:
            return {*lost_topics(registry)}
        case RetireBroker():
            return {f"{broker_text(name, number)} in {cluster}" for cluster, name, number, *_ in down_brokers(registry)}
    return set()


def names_in(
    command: OperatorCommand, tables: RouteTables, gone: Collection[str] = ()
) -> Iterable[tuple[str, str, Collection[str]]]:
    """Yield the kind of each name in the command, the name, and the known names of that kind, `gone` ones too."""
    match command:
        case WipeWritePerm(broker_name=name) | AddWritePerm(broker_name=name):
            yield "broker group", name, tables.brokers
        case PutKvConfig():
            yield from (("broker group", name, tables.brokers) for name in ordered_brokers(command))
        case DeleteKvConfig(namespace=namespace, key=key):
            yield "KV value", f"{namespace}/{key}", [f"{namespace}/{each}" for each in tables.kv.get(namespace, ())]
        case DeleteTopic(topic=topic, cluster_name=cluster):
            yield "topic", topic, {*tables.queues, *gone}
            if cluster:
                yield "cluster", cluster, tables.clusters
        case RetireBroker():
            yield "down broker", _broker_of(command), gone
