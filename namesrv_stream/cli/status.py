"""`status`: one screen with the state of the job, the served snapshot and its lag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from deltalake.exceptions import DeltaError
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from namesrv_stream.cli.group import say
from namesrv_stream.cli.output import counted, duration_text, heading, iso_text, time_text
from namesrv_stream.cli.view import Answer, Served, View, root_of, show, view_options
from namesrv_stream.config import Invocation, NamesrvSettings, kafka_client_arguments
from namesrv_stream.errors import NamesrvError
from namesrv_stream.masking import masked
from namesrv_stream.rules.progress import JobProgress
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.damage import naming_damage
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import REJECTED
from namesrv_stream.wire.json_text import encode_json

if TYPE_CHECKING:
    from namesrv_stream.kafka.election import Candidate  # for types alone: --no-kafka starts without the clients

_KAFKA_LIMIT_MS = 2_000
_NOT_ASKED = "not asked"

EXIT_STATUS = {
    "running": 0,
    "starting": 3,
    "catching up": 3,
    "standby": 4,
    "stopped in order": 4,
    "waiting": 5,
    "no ticks": 5,
}
"""Exit status by state; of all others it is 1."""


class FromKafka(NamedTuple):
    """Facts about the registry that Kafka returned; `problem` is the reason if some are missing.

    `records_behind` is the number of records that the newest snapshot does not have yet, ticks included. `jobs` are the
    candidates of the election, the active job first; None if they are not known. `is_other_log`: the topic is not that
    of the tables.
    """

    records_behind: int | None = None
    jobs: Sequence[Candidate] | None = None
    problem: str | None = None
    is_other_log: bool = False


@click.command("status")
@click.option("--no-kafka", is_flag=True, help="Do not ask Kafka how far behind the tables are, and which jobs wait.")
@view_options(as_of=False)
@click.pass_context
def status(context: click.Context, no_kafka: bool, view: View) -> None:
    """Show the state of the job, and the served snapshot with its age and lag.

    Ends with 0 if the job runs, 3 if it starts or catches up, 4 if none is active and that is in order, 5 if it waits,
    else with 1. With --json it prints JSON whatever happens.
    """
    invocation: Invocation = context.obj
    settings, root = invocation.settings, root_of(invocation.settings)
    seen: list[str] = []

    def answer(served: Served) -> Answer:
        kafka = FromKafka(problem=_NOT_ASKED) if no_kafka else _from_kafka(settings, root, served)
        progress = served.progress
        seen[:] = [state := job_state(progress, kafka)]
        facts = _facts(served, progress, kafka, root) | {"state": state}
        return Answer(encode_json(facts), lambda _plain: _shown(served, progress, kafka, facts, settings))

    try:
        show(invocation, view, answer)
    except (NamesrvError, DeltaError, OSError) as error:
        if not view.as_json:
            raise
        click.echo(encode_json({"root": masked(root.url), "state": "unknown", "error": masked(str(error))}))
        context.exit(1)
    if seen:
        context.exit(EXIT_STATUS.get(seen[0], 1))


def _from_kafka(settings: NamesrvSettings, root: Root, served: Served) -> FromKafka:
    from namesrv_stream.kafka.election import candidates  # noqa: PLC0415  # --no-kafka starts without the clients
    from namesrv_stream.kafka.topic import end_offsets  # noqa: PLC0415

    kafka = {"bootstrap_timeout_ms": _KAFKA_LIMIT_MS} | kafka_client_arguments(settings)
    try:
        ends = end_offsets(kafka, settings.kafka_topic)
    except NamesrvError as error:
        return FromKafka(problem=str(error))
    jobs: Sequence[Candidate] | None = None
    try:
        jobs = candidates(kafka, settings.kafka_topic, root.hadoop_url)
    except NamesrvError as error:  # also while Kafka makes its table of groups
        say(f"warning: which jobs are active is not known: {error}")
    if (other := _other_log(kafka, settings, served.snapshot)) is not None:
        return FromKafka(jobs=jobs, problem=other, is_other_log=True)
    if not ends:
        problem = f"Kafka at {settings.kafka_bootstrap_servers} has no topic {settings.kafka_topic}."
        return FromKafka(jobs=jobs, problem=problem)
    read = (served.row_now or served.snapshot).offsets
    behind = [end - read.get(partition, 0) for partition, end in ends.items()]
    if min(behind) < 0:
        problem = f"the tables are ahead of {settings.kafka_topic}: they are of another topic or another Kafka."
        return FromKafka(jobs=jobs, problem=problem)
    return FromKafka(sum(behind), jobs)


def _other_log(kafka: dict[str, Any], settings: NamesrvSettings, snapshot: SnapshotRow) -> str | None:
    """Return that the topic is not the one of the tables, None if it is or if that is not known."""
    from namesrv_stream.kafka.topic import describe_topic  # noqa: PLC0415  # --no-kafka starts without the clients

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


def _facts(served: Served, progress: JobProgress, kafka: FromKafka, root: Root) -> dict[str, object]:
    snapshot, tables = served.snapshot, served.tables
    return {
        "root": masked(root.url),
        "state": progress.state,
        "since": iso_text(progress.since_ms),
        "lagMillis": progress.lag_ms,
        "activeJob": next((job.run_id for job in kafka.jobs or () if job.is_active), None),
        "waitingJobs": [job.run_id for job in kafka.jobs or () if not job.is_active],
        "epoch": snapshot.epoch,
        "term": snapshot.term,
        "runId": snapshot.run_id,
        "queryId": snapshot.query_id,
        "batchId": snapshot.batch_id,
        "eventTime": iso_text(snapshot.event_time),
        "publishedAt": iso_text(snapshot.published_at),
        "ageMillis": served.age_ms,
        "stale": served.is_stale,
        "recordsBehind": kafka.records_behind,
        "kafka": kafka.problem or "reachable",
        "clusters": len(tables.clusters),
        "brokerNames": len(tables.brokers),
        "liveAddresses": len(tables.live),
        "topics": len(tables.queues),
        "rejectedRecords": _row_count(root, snapshot.versions[REJECTED.name]),
        "changedSettings": dict(tables.namesrv_config),
    }


def _row_count(root: Root, version: int) -> int:
    """Return the number of rows of `rejected`, from the statistics of its files."""
    with naming_damage(root, REJECTED, version):
        return int(root.open(REJECTED, version).count())


def _shown(
    served: Served, progress: JobProgress, kafka: FromKafka, facts: dict[str, object], settings: NamesrvSettings
) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in _lines(served, progress, kafka, facts, settings):
        grid.add_row(name, value)
    return Group(heading("Registry", str(facts["root"])), grid)


def _lines(
    served: Served, progress: JobProgress, kafka: FromKafka, facts: dict[str, object], settings: NamesrvSettings
) -> Iterator[tuple[str, Text]]:
    snapshot, tables = served.snapshot, served.tables
    yield "job", _job(str(facts["state"]), progress)
    batch = "no batch yet" if snapshot.batch_id is None else f"batch {snapshot.batch_id}"
    yield "", Text(f"run {snapshot.run_id}, term {snapshot.term}, {batch}")
    for job in kafka.jobs or ():
        yield "", Text(f"{'active' if job.is_active else 'waits'}: run {job.run_id} on {job.host}")
    yield (
        "serves",
        Text(
            f"epoch {snapshot.epoch}, published {time_text(snapshot.published_at)}, event time "
            f"{time_text(snapshot.event_time)}"
        ),
    )
    yield "clusters", Text(", ".join(sorted(tables.clusters)) or "none")
    yield "brokers", Text(f"{counted(len(tables.brokers), 'name')}, {counted(len(tables.live), 'live address')}")
    yield "topics", Text(f"{len(tables.queues):,}")
    if facts["rejectedRecords"]:
        yield "rejected", Text(f"{facts['rejectedRecords']} records: `namesrv-stream rejected` lists them", "yellow")
    if tables.namesrv_config:
        yield "changed", Text(", ".join(f"{key}={value}" for key, value in sorted(tables.namesrv_config.items())))
    yield "Kafka", _kafka(kafka, settings)


def job_state(progress: JobProgress, kafka: FromKafka) -> str:
    """Return the job's state from the tables, and from the election where the tables alone cannot tell.

    A job that takes no part in the election has died, however new its last publication is. One that publishes nothing
    and takes part waits for the storage, for Kafka, or, if it has all that Kafka has, for ticks.
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


def _job(state: str, progress: JobProgress) -> Text:
    since = time_text(progress.since_ms)
    match state:
        case "running":
            return Text("running", "green")
        case "catching up":
            return Text(f"catching up: {duration_text(progress.lag_ms or 0)} of event time behind", "yellow")
        case "starting":
            return Text(f"starting since {since}", "yellow")
        case "stopped in order":
            return Text(f"stopped in order at {since}", "yellow")
        case "standby":
            return Text(f"standby: jobs wait, and none has been active since {since}", "yellow")
        case "waiting":
            return Text(
                f"waiting since {since}: the active job publishes nothing. Its log shows what it waits for", "red"
            )
        case "no ticks":
            return Text(f"nothing has come from Kafka since {since}, no tick either: run a gateway, or set "
                        "jobTicker=true", "yellow")  # fmt: skip
        case "other log":
            return Text("reads a topic that is no longer there, or has ended by that: see Kafka below", "bold red")
        case "unknown":
            return Text(f"unknown: nothing was published since {since}, and Kafka does not answer", "red")
    return Text(f"dead since {since}: nothing has been published. Start it again, and see its log", "bold red")


def _kafka(kafka: FromKafka, settings: NamesrvSettings) -> Text:
    if kafka.problem is not None:
        return Text(f"unknown: {kafka.problem}", "yellow")
    return Text(f"{settings.kafka_bootstrap_servers}, topic {settings.kafka_topic}")
