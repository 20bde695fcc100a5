"""Check Kafka: whether it answers, the topic's settings, and this client's rights."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from namesrv_stream.answers.job_status import facts_from_kafka, job_state, newest_row
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import KafkaRefusedError
from namesrv_stream.kafka.election import group_of
from namesrv_stream.kafka.librdkafka import answered, opened
from namesrv_stream.kafka.topic import (
    TopicFacts,
    describe_topic,
    require_one_order,
    wait_for_kafka,
)
from namesrv_stream.tables.job_progress import job_progress
from namesrv_stream.tables.root import Root
from namesrv_stream.tools.doctor import Finding, State

GATEWAY_RIGHTS = {AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS}
JOB_RIGHTS = {AclOperation.DESCRIBE, AclOperation.READ, AclOperation.DESCRIBE_CONFIGS}

_ANSWER_LIMIT_S = 10.0
_STANDS_STILL = ("dead", "waiting", "not answering", "no ticks")
_GROUPS_ARE_LOADING = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
_POLL_S = 0.1


def check_kafka(
    settings: NamesrvSettings, rights: set[AclOperation], *, is_candidate: bool = False
) -> Iterator[Finding]:
    """Check that Kafka answers, the topic, and that this client has `rights` on the topic.

    `is_candidate`: this client takes part in the election of the active job, by a consumer group.
    """
    kafka, topic = kafka_client_arguments(settings), settings.kafka_topic
    started = time.monotonic()
    wait_for_kafka(kafka, limit_s=0)
    took_ms = (time.monotonic() - started) * 1000
    yield Finding("Kafka", "ok", f"{settings.kafka_bootstrap_servers} answers within {took_ms:.0f} ms")
    if is_candidate:
        yield _right_to_take_part(kafka, group_of(topic, Root(settings.delta_root).hadoop_url))
    facts = describe_topic(kafka, topic)
    if facts is None:
        missing = f"topic {topic} does not exist yet, or this client may not describe it"
        yield Finding("topic", "warning", missing, "The job or the gateway creates it if it has the right Create.")
        return
    yield from _topic(facts, kafka)
    yield _rights(kafka, topic, rights)


def check_job(settings: NamesrvSettings) -> Iterator[Finding]:
    """Check that the active job does its work, by its report in Kafka and by the tables."""
    root = Root(settings.delta_root, settings.storage_options or None)
    row = newest_row(root)
    kafka = facts_from_kafka(settings, root, row)
    if row is None and not kafka.jobs:
        yield Finding("job", "not checked", "no job runs, and no tables can be read")
        return
    state = job_state(job_progress(row, _now_ms()).state if row else None, kafka)
    problem = f": {kafka.report.problem}" if kafka.report is not None and kafka.report.problem else ""
    if state == "running":
        yield Finding("job", "ok", state)
    elif kafka.is_other_log:
        yield Finding("job", "failed", str(kafka.problem))
    elif state == "unknown":
        yield Finding("job", "not checked", "the state of the job cannot be read from Kafka")
    else:
        kind: State = "failed" if state in _STANDS_STILL else "warning"
        yield Finding("job", kind, f"{state}{problem}", "`namesrv-stream status` has the next step.")


def _topic(facts: TopicFacts, kafka: dict[str, Any]) -> Iterator[Finding]:
    require_one_order(facts, kafka)
    yield from (Finding("topic", "warning", problem) for problem in facts.warnings)
    if not facts.warnings:
        found = f"{facts.topic} has one partition, LogAppendTime and {facts.replica_count} replicas"
        yield Finding("topic", "ok", found)


def _rights(kafka: dict[str, Any], topic: str, needed: set[AclOperation]) -> Finding:
    admin = opened(AdminClient, kafka, kafka["bootstrap.servers"])
    asked = admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=_ANSWER_LIMIT_S
    )
    try:
        granted = set(answered(asked[topic], _ANSWER_LIMIT_S).authorized_operations or ())
    except Exception as error:  # librdkafka's own kinds, and the time limit
        raise KafkaRefusedError(kafka["bootstrap.servers"], str(error)) from error
    if missing := sorted(each.name.title().replace("_", "") for each in needed - granted):
        operations = " ".join(f"--operation {name}" for name in missing)
        next_step = f"Grant them: kafka-acls.sh --add --topic {topic} {operations} --allow-principal User:..."
        return Finding("rights", "failed", f"topic {topic}: this client lacks {', '.join(missing)}", next_step)
    return Finding("rights", "ok", f"topic {topic}: {', '.join(sorted(each.name for each in needed))}")


def _right_to_take_part(kafka: dict[str, Any], group: str) -> Finding:
    """Check that this client has READ on the consumer group that elects the active job."""
    try:
        granted = _rights_on_group(opened(AdminClient, kafka, kafka["bootstrap.servers"]), group)
    except (KafkaException, TimeoutError) as error:
        problem = f"consumer group {group}: {error or 'no answer within the limit'}"
        next_step = "Check that Kafka has its topic __consumer_offsets; without it no standby takes over."
        return Finding("election", "failed", problem, next_step)
    if AclOperation.READ in granted:
        return Finding("election", "ok", f"consumer group {group}: READ")
    return Finding(
        "election",
        "failed",
        f"consumer group {group}: this client lacks READ, so it never takes over as a standby",
        "Grant it: kafka-acls.sh --add --group namesrv-stream- --resource-pattern-type prefixed --operation Read "
        "--allow-principal User:...",
    )


def _rights_on_group(admin: AdminClient, group: str) -> set[AclOperation]:
    """Return this client's rights on a consumer group. Waits while Kafka still loads its groups.

    Raises KafkaException.
    """
    deadline = time.monotonic() + _ANSWER_LIMIT_S
    while True:
        [asked] = admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=_ANSWER_LIMIT_S
        ).values()
        try:
            return set(answered(asked, _ANSWER_LIMIT_S).authorized_operations or ())
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return set()
            if code not in _GROUPS_ARE_LOADING or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
