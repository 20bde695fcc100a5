"""The state of the job now, from the newest snapshot, the sign of progress and, on request, Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError, masked
from namesrv_stream.questions.subject import Fields, Seen
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage import naming_damage
from namesrv_stream.tables.job_progress import JobProgress, ProgressFile, State, is_stale, job_progress
from namesrv_stream.tables.schemas import REJECTED

if TYPE_CHECKING:
    from namesrv_stream.kafka.election import Candidate  # only for types: a status without Kafka loads no client

JobState = State | Literal["standby", "waiting", "no ticks", "other log", "unknown"]
_KAFKA_LIMIT_MS = 2_000
_NOT_ASKED = "not asked"


class FromKafka(NamedTuple):
    """Facts about the registry that Kafka returned; `problem` is the reason if some are missing.

    `records_behind` is the number of records that the newest snapshot does not have yet, ticks included. `jobs` are the
    candidates of the election, the active job first. If they are not known they are None, and `notice` is the reason.
    `is_other_log`: the topic is not that of the tables.
    """

    records_behind: int | None = None
    jobs: Sequence[Candidate] | None = None
    problem: str | None = None
    is_other_log: bool = False
    notice: str | None = None


NOT_ASKED = FromKafka(problem=_NOT_ASKED)


class Health(NamedTuple):
    """The job's progress at a moment; `row` is the newest snapshot with the times of the sign of progress.

    `is_stale`: brokers are live, and the tables are so far behind that lookups may be wrong.
    """

    progress: JobProgress
    is_stale: bool
    row: SnapshotRow
    now_ms: int


class Status(Fields):
    """The state of the job now. `stale`: lookups may be wrong. `problem`: why no newer snapshot can be read."""

    root: str
    state: JobState
    since: str
    lag_millis: int | None
    stale: bool
    active_job: str | None
    waiting_jobs: list[str]
    epoch: int
    term: int
    run_id: str
    query_id: str | None
    batch_id: int | None
    event_time: str | None
    published_at: str
    age_millis: int
    records_behind: int | None
    kafka: str
    clusters: int
    broker_names: int
    live_addresses: int
    topics: int
    rejected_records: int
    changed_settings: dict[str, str]
    problem: str | None


def health(seen: Seen, now_ms: int) -> Health:
    """Return the job's progress, from the newest snapshot."""
    row = ProgressFile(seen.root).row_now(seen.snapshot)
    return Health(job_progress(row, now_ms), bool(seen.tables.live) and is_stale(row, now_ms), row, now_ms)


def status(seen: Seen, found: Health, kafka: FromKafka = NOT_ASKED, problem: str | None = None) -> Status:
    """Return the state of the job, with the numbers of the newest snapshot."""
    row, tables, jobs = seen.snapshot, seen.tables, kafka.jobs or ()
    return Status.of(
        row,
        root=masked(seen.root.url),
        state=job_state(found.progress, kafka),
        since=iso_text(found.progress.since_ms),
        lag_millis=found.progress.lag_ms,
        stale=found.is_stale,
        active_job=next((job.run_id for job in jobs if job.is_active), None),
        waiting_jobs=[job.run_id for job in jobs if not job.is_active],
        age_millis=found.now_ms - row.published_at,
        records_behind=kafka.records_behind,
        kafka=kafka.problem or "reachable",
        clusters=len(tables.clusters),
        broker_names=len(tables.brokers),
        live_addresses=len(tables.live),
        topics=len(tables.queues),
        rejected_records=_rejected_records(seen),
        changed_settings=dict(tables.namesrv_config),
        problem=problem,
    )


def _rejected_records(seen: Seen) -> int:
    """Return the number of rows of `rejected`, from the statistics of its files."""
    version = seen.snapshot.versions[REJECTED.name]
    with naming_damage(seen.root, REJECTED, version):
        return int(seen.root.open_past(REJECTED, version)[1].count())


def job_state(progress: JobProgress, kafka: FromKafka) -> JobState:
    """Return the job's state from the tables, and from the election if the tables do not show it.

    A job that takes no part in the election has died, however new its last publication is. A job that takes part and
    publishes nothing waits for the storage, for Kafka or, if it has read all records, for ticks.
    """
    if kafka.is_other_log:
        return "other log"
    has_active = any(job.is_active for job in kafka.jobs or ())
    if progress.state == "stopped in order" and kafka.jobs:
        return "starting" if has_active else "standby"
    if progress.state not in ("stopped in order", "dead"):
        return "dead" if kafka.jobs == [] else progress.state
    if progress.state == "stopped in order":
        return progress.state
    if has_active:
        return "no ticks" if kafka.records_behind == 0 else "waiting"
    if kafka.jobs:
        return "standby"
    is_unknown = kafka.jobs is None and kafka.problem != _NOT_ASKED
    return "unknown" if is_unknown else "dead"


def facts_from_kafka(settings: NamesrvSettings, seen: Seen, read: SnapshotRow) -> FromKafka:
    """Return from Kafka how far behind the tables are, and which jobs wait. `read`: the newest row as it holds now."""
    from namesrv_stream.kafka.election import candidates  # noqa: PLC0415  # a status without Kafka loads no client
    from namesrv_stream.kafka.topic import end_offsets  # noqa: PLC0415

    kafka = {"socket.timeout.ms": _KAFKA_LIMIT_MS} | kafka_client_arguments(settings)
    try:
        ends = end_offsets(kafka, settings.kafka_topic)
    except NamesrvError as error:
        return FromKafka(problem=str(error))
    try:
        facts = FromKafka(jobs=candidates(kafka, settings.kafka_topic, seen.root.hadoop_url))
    except NamesrvError as error:  # also while Kafka makes its table of groups
        facts = FromKafka(notice=f"which jobs are active is not known: {error}")
    if (other := _other_log(kafka, settings, seen.snapshot)) is not None:
        return facts._replace(problem=other, is_other_log=True)
    behind = [end - read.offsets.get(partition, 0) for partition, end in ends.items()]
    if not behind:
        problem = f"Kafka at {settings.kafka_bootstrap_servers} has no topic {settings.kafka_topic}."
        return facts._replace(problem=problem)
    if min(behind) < 0:
        problem = f"the tables are ahead of {settings.kafka_topic}: they are of another topic or another Kafka."
        return facts._replace(problem=problem)
    return facts._replace(records_behind=sum(behind))


def _other_log(kafka: dict[str, Any], settings: NamesrvSettings, snapshot: SnapshotRow) -> str | None:
    """Return the problem if the topic is not that of the tables; None if it is, or if that is not known."""
    from namesrv_stream.kafka.topic import describe_topic  # noqa: PLC0415  # a status without Kafka loads no client

    try:
        facts = describe_topic(kafka, settings.kafka_topic)
    except NamesrvError:
        return None
    if facts is None or None in (facts.topic_id, snapshot.kafka_topic_id) or facts.topic_id == snapshot.kafka_topic_id:
        return None
    return (
        f"topic {settings.kafka_topic} is not the one that the tables were made from, but has been made anew: what is "
        "sent now is not in the tables. The job goes on with it after a start with --accept-new-log."
    )
