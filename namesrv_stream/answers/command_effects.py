"""Tell what a command would take from topics, before it is sent."""

from __future__ import annotations

from namesrv_stream.answers.definitions import down_brokers, lost_topics, topic_verdict
from namesrv_stream.answers.impact import impact
from namesrv_stream.answers.model import NotFoundError
from namesrv_stream.answers.questions import AskImpact
from namesrv_stream.answers.trials import write_queues
from namesrv_stream.answers.verdict import system_topics
from namesrv_stream.reporting.texts import broker_text, counted, named
from namesrv_stream.rules.record_types import Command, DeleteTopic, RetireBroker, WipeWritePerm
from namesrv_stream.tables.moment import RegistryAt

_NAMED = 3


def effect_text(registry: RegistryAt, command: Command) -> str | None:
    """Return the sentence; None for a command that takes nothing, or names what is not there."""
    match command:
        case WipeWritePerm(broker_name=name):
            try:
                found = impact(registry, AskImpact(wiped=[name]))
            except NotFoundError:
                return None
            return f"{name} read-only: {found.text}"
        case DeleteTopic():
            return _of_deletion(registry, command)
        case RetireBroker():
            return _of_retirement(registry, command)
    return None


def _of_deletion(registry: RegistryAt, command: DeleteTopic) -> str | None:
    rows = registry.queues.get(command.topic, ())
    of_cluster = set(registry.clusters.get(command.cluster_name, ())) if command.cluster_name else None
    left = [row for row in rows if of_cluster is not None and row.broker_name not in of_cluster]
    removed = len(rows) - len(left)
    if not removed:
        return None
    before, after = (topic_verdict(some, registry.brokers) for some in (rows, left))
    queues = counted(write_queues(rows, registry.brokers) - write_queues(left, registry.brokers), "write queue")
    loses = "" if left else " and loses its route"
    if left and before.is_writable and not after.is_writable:
        loses = " and loses writes"
    return f"{command.topic} is removed from {counted(removed, 'broker group')} ({queues}){loses}."


def _of_retirement(registry: RegistryAt, command: RetireBroker) -> str | None:
    name = command.broker_name
    down = [each for each in down_brokers(registry) if each.broker_name == name]
    key = (command.cluster_name, name, command.broker_id)
    if key not in {each[:3] for each in down} or len(down) > 1:
        return None
    lost = lost_topics(registry)
    system = system_topics(registry, lost)
    gone = sorted(each for each, of in lost.items() if of == {name} and each not in system | set(registry.queues))
    who = broker_text(name, command.broker_id)
    if not gone:
        return f"{who} is no longer expected; no topic is without a route because of it."
    return f"{who} is no longer expected, nor {counted(len(gone), 'topic')} without a route ({named(gone, _NAMED)})."
