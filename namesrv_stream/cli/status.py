"""The command `status`: the job, Kafka, the gateways and the tables, each by itself.

A part that fails names the next step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import click
import msgspec
from deltalake.exceptions import DeltaError
from rich.console import Group
from rich.table import Table
from rich.text import Text

from namesrv_stream.answers.definitions import down_brokers
from namesrv_stream.answers.job_status import (
    NOT_ASKED,
    FromKafka,
    Health,
    JobState,
    OfTables,
    Status,
    doubt_of,
    facts_from_kafka,
    job_state,
    log_silent_ms,
    newest_row,
    storage_problem,
)
from namesrv_stream.answers.job_status import status as job_status
from namesrv_stream.cli.output import LEVELS, heading, print_answer, say, time_text
from namesrv_stream.cli.view import Answer, View, root_of, show, view_options
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.errors import NamesrvError, NoSuchSnapshotError, NotARegistryError, StorageError, masked
from namesrv_stream.reporting.texts import age_text, counted, duration_text
from namesrv_stream.tables.job_progress import job_progress
from namesrv_stream.tables.moment import RegistryAt

_STATES: dict[JobState, tuple[str, str, int]] = {
    "running": ("running", "green", 0),
    "catching up": ("catching up: {lag} behind", "yellow", 3),
    "starting": ("starting. Last update: {since}", "yellow", 3),
    "taking over": ("a job is taking over from one that has ended. Wait some seconds", "yellow", 3),
    "not started": (
        "not started: there are no tables yet. Start it with `submit`; `up` starts everything on this machine",
        "yellow",
        1,
    ),
    "stopped in order": (
        "stopped at {since}. Start it with `submit` or spark-submit; `up` starts everything on this machine",
        "yellow",
        4,
    ),
    "standby": ("standby: no job has been active since {since}", "yellow", 4),
    "waiting": ("blocked: {problem}", "red", 5),
    "not answering": ("{problem}. If this lasts a minute, the job stops and a standby takes over", "bold red", 5),
    "no ticks": (
        "no records and no clock ticks from Kafka since {since}. Start a gateway, or set jobTicker=true",
        "yellow",
        5,
    ),
    "other log": ("unknown: the tables belong to another Kafka topic. See Kafka below", "bold red", 1),
    "unknown": ("unknown: Kafka is unreachable; {sign}. See Kafka below", "red", 1),
    "silent": ("published nothing since {since}. Without --no-kafka, `status` shows whether it runs", "bold red", 1),
    "dead": ("not running; {sign}. Start it; the log of the former job shows why it stopped", "bold red", 1),
}
"""State of the job -> its text on the screen, the colour, and the exit status."""

_SEE_LOG = "the active job publishes nothing. Its log shows the cause"
_NO_ROOM_STATUS = 5
_SILENT_MS = 15_000


@click.command("status")
@click.option("--no-kafka", is_flag=True, help="Do not ask Kafka for the lag and the standby jobs.")
@view_options(as_of=False)
@click.pass_context
def status(context: click.Context, no_kafka: bool, view: View) -> None:
    """Show the state of job, Kafka, gateways and tables.

    Exit status: 0 running; 3 starting, taking over or catching up; 4 stopped or standby; 5 blocked; 1 otherwise.
    --json prints JSON in each case.
    """
    invocation: Invocation = context.obj
    settings = invocation.settings
    codes: list[int] = []
    try:
        show(invocation, view, partial(_answer, codes=codes, asks_kafka=not no_kafka))
    except (NamesrvError, DeltaError, OSError) as error:
        named = error if isinstance(error, NamesrvError) else StorageError(root_of(settings).url, str(error))
        print_answer(*_without_tables(settings, named, codes, asks_kafka=not no_kafka)[:2], as_json=view.as_json)
        context.exit(codes[-1] if codes else named.exit_status)
    if codes:
        context.exit(codes[-1])


def _answer(registry: RegistryAt, health: Health | None, *, codes: list[int], asks_kafka: bool) -> Answer:
    """Return the status, and add its exit status to `codes`."""
    assert health is not None, "a status is of the present"
    settings = registry.settings
    kafka = facts_from_kafka(settings, registry.root, health.row) if asks_kafka else NOT_ASKED
    if kafka.notice:
        say(f"warning: {kafka.notice}")
    no_room = storage_problem(registry.root)
    state = job_state(health.progress.state, kafka)
    found = job_status(registry, health, doubt_of(state, health.row, health.now_ms), kafka, no_room)
    codes.append(_STATES[found.state][2] or (_NO_ROOM_STATUS if no_room else 0))
    parts = [
        *_job_lines(found, kafka, health.row.published_at),
        *_kafka_lines(settings, kafka, health.now_ms),
        *_table_lines(registry, found),
    ]
    lasting = msgspec.structs.replace(found, age_millis=0, lag_millis=0, log_silent_millis=0, records_behind=0)
    return Answer(found, Group(heading("Registry", found.root), _grid(parts)), lasting)


def _without_tables(settings: NamesrvSettings, error: NamesrvError, codes: list[int], *, asks_kafka: bool) -> Answer:
    """Return what is known if the tables cannot be read: the job as Kafka shows it, and Kafka itself."""
    root, now_ms = root_of(settings), time.time_ns() // 1_000_000
    row = newest_row(root)
    kafka = facts_from_kafka(settings, root, row) if asks_kafka else NOT_ASKED
    none_yet: OfTables | None = "not started" if isinstance(error, NotARegistryError | NoSuchSnapshotError) else None
    state = job_state(job_progress(row, now_ms).state if row else none_yet, kafka)
    codes += [_STATES[state][2]] if state == "starting" else []
    problem = kafka.report.problem if kafka.report is not None else None
    value = {
        "root": masked(root.url),
        "state": state,
        "jobProblem": problem,
        "kafka": kafka.problem or "reachable",
        "logSilentMillis": log_silent_ms(kafka, now_ms),
        "error": str(error),
    }
    job = _state_text(state, row and row.published_at, None, problem)
    if state == "unknown" and none_yet is not None:
        job = Text("unknown: there are no tables, and Kafka is unreachable", "red")
    tables = Text(f"{storage_problem(root) or ''} {error}".strip(), "bold red")
    parts = [("tables", tables), ("job", job), *_candidates(kafka), *_kafka_lines(settings, kafka, now_ms)]
    return Answer(value, Group(heading("Registry", masked(root.url)), _grid(parts)))


def _grid(parts: list[tuple[str, str | Text]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in parts:
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    return grid


def _state_text(
    state: JobState, since: int | None, lag_ms: int | None, problem: str | None, *, asked_kafka: bool = True
) -> Text:
    text, colour, _ = _STATES[state]
    if state == "running" and not asked_kafka:
        text = "last update {since}; Kafka was not asked whether it runs"
    at = time_text(since, with_zone=True)
    sign = f"last update {at}" if since else "no update in the tables"
    facts = {"since": at, "sign": sign, "lag": duration_text(lag_ms or 0), "problem": problem or _SEE_LOG}
    return Text(text.format(**facts), colour)


def _job_lines(found: Status, kafka: FromKafka, updated_ms: int) -> Iterator[tuple[str, str | Text]]:
    asked_kafka = kafka is not NOT_ASKED
    since = updated_ms if found.state == "running" else found.since
    yield "job", _state_text(found.state, since, found.lag_millis, found.job_problem, asked_kafka=asked_kafka)
    batch = "no batch yet" if found.batch_id is None else f"batch {found.batch_id}"
    yield "", f"{batch}, run {found.run_id}, term {found.term}"
    yield from _candidates(kafka)


def _candidates(kafka: FromKafka) -> Iterator[tuple[str, str | Text]]:
    for job in kafka.jobs or ():
        yield "", f"{'active' if job.is_active else 'standby'}: {job.host}, run {job.run_id}"


def _kafka_lines(settings: NamesrvSettings, kafka: FromKafka, now_ms: int) -> Iterator[tuple[str, str | Text]]:
    """Return the lines of Kafka, and of the gateways, of which Kafka has the newest tick or heartbeat."""
    if kafka.problem is not None:
        unknown = "" if kafka.is_other_log or kafka == NOT_ASKED else "unknown: "
        yield "Kafka", Text(f"{unknown}{kafka.problem}", "yellow" if kafka == NOT_ASKED else "bold red")
    else:
        yield "Kafka", Text(f"{settings.kafka_bootstrap_servers}, topic {settings.kafka_topic}")
    silent_ms = log_silent_ms(kafka, now_ms)
    if silent_ms is None:
        return
    if silent_ms > _SILENT_MS:
        problem = f"no records and no clock ticks in Kafka for {duration_text(silent_ms)}"
        step = "Check that a gateway is running; its /readyz/writes and its log show what blocks it"
        yield "gateways", Text(f"{problem}. {step}", "red")
    else:
        yield "gateways", f"newest record in Kafka {age_text(silent_ms)}"


def _brokers(found: Status) -> Text:
    """Return the numbers of brokers, by the history. Whatever ails the history, the other lines are shown."""
    up = Text(f"{counted(found.brokers_up, 'broker')} up, {counted(found.broker_names, 'broker group')}")
    if found.history_problem:
        return up.append(f"; brokers that are down are unknown: {found.history_problem}", "bold red")
    down = f", {found.brokers_down:,} down. `namesrv-stream clusterList` shows since when"
    return up.append(down, "bold red") if found.brokers_down else up


def _table_lines(registry: RegistryAt, found: Status) -> Iterator[tuple[str, str | Text]]:
    times = f"data as of {time_text(found.event_time, with_zone=True)}, published {time_text(found.published_at)}"
    yield "snapshot", f"{found.epoch}, {times}"
    if found.problem:
        yield "tables", Text(f"{found.problem}. Free space; the job resumes automatically", "bold red")
    if found.health is not None:
        yield "health", Text(found.health, LEVELS[found.health_level])
    down = {each.cluster_name for each in down_brokers(registry)} if found.history_problem is None else set()
    yield "clusters", Text(", ".join(sorted({*registry.clusters, *down})) or "none")
    yield "brokers", _brokers(found)
    lost = {"without a route": found.topics_without_route, "not writable": found.topics_not_writable}
    more = "".join(f", {count:,} {what}" for what, count in lost.items() if count)
    yield "topics", Text(f"{found.topics:,} without system topics").append(more, "bold red")
    if found.rejected_records:
        count = counted(found.rejected_records, "record")
        yield "rejected", Text(f"{count}. `namesrv-stream rejected` lists them", "yellow")
    if found.changed_settings:
        yield "changed", Text(", ".join(f"{key}={value}" for key, value in sorted(found.changed_settings.items())))
