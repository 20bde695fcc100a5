"""The state of the job now, from the newest snapshot, the sign of progress and, on request, Kafka.

Processes that show it ask Kafka again and again: one answer everywhere, in 10 s.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec
from deltalake.exceptions import DeltaError

from namesrv_stream.answers.definitions import DownBroker, LostTopics, down_brokers, lost_topics, up_brokers
from namesrv_stream.answers.model import AnswerModel
from namesrv_stream.answers.verdict import Doubt, topic_verdicts, verdict_of
from namesrv_stream.config import NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError, masked
from namesrv_stream.reporting.texts import Time
from namesrv_stream.rules.rows import SnapshotRow, is_other_id
from namesrv_stream.tables.job_progress import JobProgress, ProgressFile, State, is_stale, job_progress
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import SnapshotTable

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from namesrv_stream.kafka.election import (  # only for types: a status without Kafka loads no client
        Candidate,
        JobReport,
    )

OfTables = State | Literal["not started"]
JobState = OfTables | Literal[
    "dead", "standby", "taking over", "waiting", "not answering", "no ticks", "other log", "unknown"
]  # fmt: skip
JOB_STATES: tuple[str, ...] = tuple(name for kind in get_args(JobState) for name in get_args(kind))
DOUBT_AFTER_MS = 10_000
"""Age of what is known, without a job that runs, from which on the present counts as not known."""

_DOUBTS: dict[JobState, str] = {
    "catching up": "job catching up",
    "starting": "job starting",
    "taking over": "job taking over",
    "stopped in order": "no job running",
    "silent": "no updates",
    "dead": "no job running",
    "standby": "no active job",
    "waiting": "job blocked",
    "not answering": "job not responding",
    "no ticks": "no records from Kafka",
    "other log": "tables of another Kafka topic",
    "unknown": "Kafka unreachable",
}
"""State of a job that does not run -> why the present is not known."""

_KAFKA_LIMIT_MS = 2_000
_NOT_ASKED = "not asked"
_NO_ROOM_BYTES = 1024**2

ASK_EVERY_S = 2.0
"""The pause between two questions. The job notices a JVM that stands still after 5 s, and Kafka answers within 2 s."""

_ASK_AGAIN_S = 1.0
"""The pause before the question whether there is really no job any more."""


class FromKafka(NamedTuple):
    """Facts about the registry that Kafka returned; `problem` is the reason if some are missing.

    `records_behind` is the number of records that the newest snapshot does not have yet, ticks included. `jobs` are the
    candidates of the election, the active job first. If they are not known they are None, and `notice` is the reason.
    `report` is what the active job reports of itself, None if there is none. `newest_record_ms` is the append time of
    the newest record. `is_other_log`: the topic is not that of the tables.
    """

    records_behind: int | None = None
    jobs: Sequence[Candidate] | None = None
    problem: str | None = None
    is_other_log: bool = False
    notice: str | None = None
    report: JobReport | None = None
    newest_record_ms: int | None = None

    @property
    def active_job(self) -> Candidate | None:
        """The job that holds the lock, None if none does or that is not known."""
        return next((job for job in self.jobs or () if job.is_active), None)


NOT_ASKED = FromKafka(problem=_NOT_ASKED)


class Health(NamedTuple):
    """The job's progress at a moment; `row` is the newest snapshot with the times of the sign of progress.

    `is_stale`: brokers are live, and the tables are so far behind that lookups may be wrong.
    """

    progress: JobProgress
    is_stale: bool
    row: SnapshotRow
    now_ms: int

    @property
    def doubt(self) -> Doubt | None:
        """Why the present is not known, as far as the tables tell without Kafka; None if it is."""
        return doubt_of(job_state(self.progress.state, NOT_ASKED), self.row, self.now_ms)


class Status(AnswerModel):
    """The state of the job now. `stale`: lookups may be wrong.

    `health` is the text of the verdict about the newest snapshot, and `unknown_since` the time up to which it is known,
    null while the job runs.

    `job_problem` is what keeps the active job from its work. `log_silent_millis` is the age of the newest record, which
    grows if no gateway sends a tick. `problem`: why no newer snapshot can be read.
    """

    root: str
    state: JobState
    job_problem: str | None
    since: Time
    lag_millis: int | None
    stale: bool
    active_job: str | None
    waiting_jobs: list[str]
    epoch: int
    term: int
    run_id: str
    query_id: str | None
    batch_id: int | None
    event_time: Time | None
    published_at: Time
    age_millis: int
    records_behind: int | None
    kafka: str
    log_silent_millis: int | None
    clusters: int
    broker_names: int
    brokers_up: int
    brokers_down: int | None
    topics: int
    rejected_records: int
    changed_settings: dict[str, str]
    problem: str | None
    history_problem: str | None
    health: str | None
    health_level: Literal["ok", "warning", "critical"]
    unknown_since: Time | None
    topics_without_route: int | None
    topics_not_writable: int | None


def log_silent_ms(kafka: FromKafka, now_ms: int) -> int | None:
    """Return the age of the newest record in Kafka, None if it is not known."""
    return None if kafka.newest_record_ms is None else max(0, now_ms - kafka.newest_record_ms)


def newest_row(root: Root) -> SnapshotRow | None:
    """Return the newest row of `snapshot` with the times of the sign of progress, None if it cannot be read."""
    with suppress(NamesrvError, DeltaError, OSError):
        return ProgressFile(root).row_now(SnapshotTable(root).newest())
    return None


def health(registry: RegistryAt, now_ms: int) -> Health:
    """Return the job's progress, from the newest snapshot."""
    row = ProgressFile(registry.root).row_now(registry.snapshot)
    return Health(job_progress(row, now_ms), bool(registry.live) and is_stale(row, now_ms), row, now_ms)


def status(
    registry: RegistryAt, found: Health, doubt: Doubt | None, kafka: FromKafka = NOT_ASKED, problem: str | None = None
) -> Status:
    """Return the state of the job, with the numbers of the newest snapshot."""
    row, active, state = registry.snapshot, kafka.active_job, job_state(found.progress.state, kafka)
    return Status.of(
        row,
        root=masked(registry.root.url),
        state=state,
        job_problem=kafka.report.problem if kafka.report is not None else None,
        since=Time(found.progress.since_ms),
        lag_millis=found.progress.lag_ms,
        stale=found.is_stale,
        active_job=active and active.run_id,
        waiting_jobs=[job.run_id for job in kafka.jobs or () if not job.is_active],
        age_millis=found.now_ms - row.published_at,
        records_behind=kafka.records_behind,
        kafka=kafka.problem or "reachable",
        log_silent_millis=log_silent_ms(kafka, found.now_ms),
        **_counts(registry, doubt),
        rejected_records=registry.rejected_count(),
        changed_settings=dict(registry.namesrv_config),
        problem=problem,
    )


def doubt_of(state: JobState, row: SnapshotRow, now_ms: int, ran_at_ms: int = 0) -> Doubt | None:
    """Return why the present is not known, None if the job runs or has run until a moment ago.

    `row`: the newest one, as it holds now. `ran_at_ms`: when the job was last seen running, 0 if never.
    """
    known_ms = min(row.event_time or row.published_at, row.published_at)
    if state not in _DOUBTS or now_ms - max(ran_at_ms, known_ms) <= DOUBT_AFTER_MS:
        return None
    return Doubt(known_ms, _DOUBTS[state])


def _counts(registry: RegistryAt, doubt: Doubt | None) -> dict[str, object]:
    """Return the numbers of the overview. If the history cannot be read, those of the tables alone, and why."""
    down: list[DownBroker] = []
    lost: LostTopics = {}
    told = problem = None
    try:
        down = down_brokers(registry)
        lost = lost_topics(registry)
        told = verdict_of(registry, doubt)
    except (NamesrvError, DeltaError, OSError) as error:
        problem = str(error)
    brokers, topics = [*up_brokers(registry), *(each[:3] for each in down)], topic_verdicts(registry, lost)
    clusters, names, _ = map(set, zip(*brokers, strict=True)) if brokers else ((), (), ())
    return {
        "clusters": len(clusters),
        "broker_names": len(names),
        "brokers_up": len(brokers) - len(down),
        "brokers_down": len(down) if problem is None else None,
        "topics": len(topics.of) - len(topics.system),
        "history_problem": problem,
        "health": told and told.text,
        "health_level": told.level if told else "warning",
        "unknown_since": told and told.unknown_since,
        "topics_without_route": told and told.topics.without_route,
        "topics_not_writable": told and told.topics.not_writable,
    }


def job_state(of_tables: OfTables | None, kafka: FromKafka) -> JobState:
    """Return the job's state from Kafka, and from the tables where Kafka cannot tell.

    `of_tables` is None if the tables cannot be read, "not started" if there are none yet. A job that takes no part in
    the election has died, however new its last publication is. Tables do not show for 90 s that a job has stopped to
    publish, so a Kafka that does not answer leaves the state unknown.
    """
    if kafka.is_other_log:
        return "other log"
    is_stopped = of_tables == "stopped in order"
    if kafka.jobs is None:
        is_known = kafka.problem == _NOT_ASKED or (kafka.problem is None and of_tables != "silent") or is_stopped
        return of_tables if of_tables is not None and is_known else "unknown"
    if not kafka.jobs:
        return of_tables if of_tables in ("stopped in order", "not started") else "dead"
    if kafka.active_job is None:  # members have no partition while they are balanced anew
        if of_tables == "not started":
            return "starting"
        if of_tables == "silent":  # as after an outage of Kafka: one of them goes on
            return "taking over"
        return "standby" if of_tables in ("stopped in order", None) else of_tables
    return _reported(of_tables, kafka)


def _reported(of_tables: OfTables | None, kafka: FromKafka) -> JobState:
    """Return the state of a job that holds the lock, as it reports it."""
    role, problem = (kafka.report.role, kafka.report.problem) if kafka.report is not None else ("active", None)
    if role in ("standby", "starting"):
        return "starting" if of_tables in ("stopped in order", "starting", "not started") else "taking over"
    if role == "waiting":
        return "waiting"
    if problem is not None:
        return "not answering"
    match of_tables:
        case "silent":
            return "no ticks" if kafka.records_behind == 0 else "waiting"
        case "stopped in order" | "not started":
            return "starting"
    return of_tables or "running"


def storage_problem(root: Root) -> str | None:
    """Return that the disk of the tables is full, None if it is not or this machine does not see it."""
    if "://" in root.url:
        return None
    try:
        free = shutil.disk_usage(Path(root.url)).free
    except OSError:
        return None
    return f"the disk of {root.url} is full" if free < _NO_ROOM_BYTES else None


def facts_from_kafka(settings: NamesrvSettings, root: Root, read: SnapshotRow | None) -> FromKafka:
    """Return from Kafka how far behind the tables are, which jobs wait, and what the active one reports.

    `read`: the newest row as it holds now, None if the tables cannot be read.
    """
    from namesrv_stream.kafka.topic import end_offsets, newest_timestamp_ms  # noqa: PLC0415  # see Candidate

    kafka = {"socket.timeout.ms": _KAFKA_LIMIT_MS} | kafka_client_arguments(settings)
    try:
        ends = end_offsets(kafka, settings.kafka_topic)
        facts = _election(kafka, settings, root)._replace(
            newest_record_ms=newest_timestamp_ms(kafka, settings.kafka_topic)
        )
    except NamesrvError as error:
        return FromKafka(problem=str(error))
    if read is None:
        return facts
    if (other := _other_log(kafka, settings, read)) is not None:
        return facts._replace(problem=other, is_other_log=True)
    behind = [end - read.offsets.get(partition, 0) for partition, end in ends.items()]
    if not behind:
        problem = f"Kafka at {settings.kafka_bootstrap_servers} has no topic {settings.kafka_topic}."
        return facts._replace(problem=problem)
    if min(behind) < 0:
        problem = f"the tables are ahead of {settings.kafka_topic}: they belong to another topic or another Kafka."
        return facts._replace(problem=problem)
    return facts._replace(records_behind=sum(behind))


def _election(kafka: dict[str, Any], settings: NamesrvSettings, root: Root) -> FromKafka:
    """Return the jobs of the election and the report of the active one; a report of a former one is left out."""
    from namesrv_stream.kafka.election import candidates, report_of_holder  # noqa: PLC0415  # see Candidate

    topic = settings.kafka_topic
    try:
        facts = FromKafka(jobs=candidates(kafka, topic, root.hadoop_url))
        report = report_of_holder(kafka, topic, root.hadoop_url)
    except NamesrvError as error:  # also while Kafka makes its table of groups
        return FromKafka(notice=f"the active job is unknown: {error}")
    if report is None or facts.active_job is None:
        return facts
    if report.run_id != facts.active_job.run_id:
        report = msgspec.structs.replace(report, role="starting", problem=None)
    return facts._replace(report=report)


def _other_log(kafka: dict[str, Any], settings: NamesrvSettings, snapshot: SnapshotRow) -> str | None:
    """Return the problem if the topic is not that of the tables; None if it is, or if that is not known."""
    from namesrv_stream.kafka.topic import describe_topic  # noqa: PLC0415  # a status without Kafka loads no client

    try:
        facts = describe_topic(kafka, settings.kafka_topic)
    except NamesrvError:
        return None
    if facts is None:
        return None
    is_elsewhere = is_other_id(facts.cluster_id, snapshot.kafka_cluster_id)
    if not is_elsewhere and not is_other_id(facts.topic_id, snapshot.kafka_topic_id):
        return None
    return (
        f"the tables belong to another topic than {settings.kafka_topic} at {settings.kafka_bootstrap_servers}, "
        f"{'in another Kafka' if is_elsewhere else 'with another ID'}. Check delta.root, kafka.bootstrap.servers and "
        "kafka.topic. If the former topic is lost and this one replaces it, start the job once with --accept-new-log."
    )


class JobWatch:
    """Asks from `start` to `stop`, in a thread. `facts` are Kafka's newest answers.

    `row` returns the newest row as it holds now, None if there is none. A doubt begins DOUBT_AFTER_MS after the last
    look that found a job that runs; one question that fails is none. Tables alone find no job: see `doubt_of`.
    """

    def __init__(self, settings: NamesrvSettings, root: Root, row: Callable[[], SnapshotRow | None]) -> None:
        self._settings = settings
        self._root = root
        self._row = row
        self._stop = threading.Event()
        self.facts: FromKafka = NOT_ASKED
        self._doubt: Doubt | None = None
        self._has_looked = False
        self._ran_at_ms = 0

    def start(self) -> None:
        """Start the thread, which nobody waits for: a Kafka that is away answers late."""
        threading.Thread(target=self._run, name="job-watch", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end after its present question."""
        self._stop.set()

    @property
    def doubt(self) -> Doubt | None:
        """Why the present is not known, None if it is. Before the first look the tables tell."""
        if not self._has_looked:
            self._watch_doubt(self._row())
        return self._doubt

    def _watch_doubt(self, row: SnapshotRow | None) -> None:
        if row is None:
            self._doubt = None
            return
        now_ms = time.time_ns() // 1_000_000
        state = job_state(job_progress(row, now_ms).state, self.facts)
        if state not in _DOUBTS and self.facts is not NOT_ASKED:
            self._ran_at_ms = now_ms
        self._doubt = doubt_of(state, row, now_ms, self._ran_at_ms)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                row = self._row()
                facts = facts_from_kafka(self._settings, self._root, row)
                if facts.jobs is not None and not facts.jobs and self.facts.jobs:
                    # one job has left, and the next one may be about to join, or its last row to be read
                    self._stop.wait(_ASK_AGAIN_S)
                    row = self._row()
                    facts = facts_from_kafka(self._settings, self._root, row)
                self.facts = facts
                self._watch_doubt(row)
                self._has_looked = True
            except Exception:  # the state is shown by the tables until the next question
                log.exception("cannot determine the state of the job: internal error")
                self.facts = NOT_ASKED
            self._stop.wait(ASK_EVERY_S)
