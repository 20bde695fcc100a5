"""The command `status`: the job, Kafka, the gateways and the tables, each by itself.

The part that fails has the next step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import click
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
from namesrv_stream.reporting.texts import counted, duration_text
from namesrv_stream.tables.job_progress import job_progress
from namesrv_stream.tables.moment import RegistryAt

_STATES: dict[JobState, tuple[str, str, int]] = {
    "running": ("running", "green", 0),
    "catching up": ("catching up: {lag} of event time behind", "yellow", 3),
    "starting": ("starting, last claim or publication: {since}", "yellow", 3),
    "taking over": ("a job takes the registry over from one that has ended: wait for some seconds", "yellow", 3),
    "not started": ("none, and there are no tables yet. Start one: a first start takes some seconds", "yellow", 1),
    "stopped in order": ("stopped in order at {since}: start it by `up`, `submit` or spark-submit", "yellow", 4),
    "standby": ("standby: jobs wait, and none has been active since {since}", "yellow", 4),
    "waiting": ("waiting: {problem}", "red", 5),
    "not answering": ("{problem}. If it stays so for a minute, the job ends and a standby goes on", "bold red", 5),
    "no ticks": (
        "nothing has come from Kafka since {since}, no tick either: run a gateway, or set jobTicker=true",
        "yellow",
        5,
    ),
    "other log": ("unknown, as these tables are not made from this topic: see Kafka below", "bold red", 1),
    "unknown": (
        "unknown, as Kafka does not answer; {sign}. See Kafka below",
        "red",
        1,
    ),
    "silent": ("nothing was published since {since}: only Kafka shows whether a job waits or is dead", "bold red", 1),
    "dead": (
        "dead, {sign}: no job takes part in the election. Start one, and see the log of the last one",
        "bold red",
        1,
    ),
}
"""State of the job -> its text on the screen, the colour, and the exit status."""

_SEE_LOG = "the active job publishes nothing, and its log shows what it waits for"
_NO_ROOM_STATUS = 5
_SILENT_MS = 15_000


@click.command("status")
@click.option("--no-kafka", is_flag=True, help="Do not ask Kafka how far behind the tables are, and which jobs wait.")
@view_options(as_of=False)
@click.pass_context
def status(context: click.Context, no_kafka: bool, view: View) -> None:
    """Show the state of the job, of Kafka, of the gateways and of the tables, with the served snapshot.

    Ends with 0 if the job runs, 3 if it starts, takes over or catches up, 4 if no job is active on purpose, 5 if it
    waits or does not answer, else with 1. With --json it always prints JSON.
    """
    invocation: Invocation = context.obj
    settings = invocation.settings
    codes: list[int] = []
    try:
        show(invocation, view, partial(_answer, codes=codes, asks_kafka=not no_kafka))
    except (NamesrvError, DeltaError, OSError) as error:
        named = error if isinstance(error, NamesrvError) else StorageError(root_of(settings).url, str(error))
        print_answer(*_without_tables(settings, named, codes, asks_kafka=not no_kafka), as_json=view.as_json)
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
    parts = [*_job_lines(found, kafka), *_kafka_lines(settings, kafka, health.now_ms), *_table_lines(registry, found)]
    return Answer(found, Group(heading("Registry", found.root), _grid(parts)))


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
    parts = [("job", job), *_candidates(kafka), *_kafka_lines(settings, kafka, now_ms)]
    tables = Text(f"{storage_problem(root) or ''} {error}".strip(), "bold red")
    return Answer(value, Group(heading("Registry", masked(root.url)), _grid([*parts, ("tables", tables)])))


def _grid(parts: list[tuple[str, str | Text]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in parts:
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    return grid


def _state_text(state: JobState, since: int | None, lag_ms: int | None, problem: str | None) -> Text:
    text, colour, _ = _STATES[state]
    sign = f"its last sign was at {time_text(since)}" if since else "no sign of one is in the tables"
    facts = {"since": time_text(since), "sign": sign, "lag": duration_text(lag_ms or 0), "problem": problem or _SEE_LOG}
    return Text(text.format(**facts), colour)


def _job_lines(found: Status, kafka: FromKafka) -> Iterator[tuple[str, str | Text]]:
    yield "job", _state_text(found.state, found.since, found.lag_millis, found.job_problem)
    batch = "no batch yet" if found.batch_id is None else f"batch {found.batch_id}"
    yield "", f"run {found.run_id}, term {found.term}, {batch}"
    yield from _candidates(kafka)


def _candidates(kafka: FromKafka) -> Iterator[tuple[str, str | Text]]:
    for job in kafka.jobs or ():
        yield "", f"{'active' if job.is_active else 'waits'}: run {job.run_id} on {job.host}"


def _kafka_lines(settings: NamesrvSettings, kafka: FromKafka, now_ms: int) -> Iterator[tuple[str, str | Text]]:
    """Return the lines of Kafka, and of the gateways, of which Kafka has the newest tick or heartbeat."""
    if kafka.problem is not None:
        unknown = "" if kafka.is_other_log else "unknown: "
        yield "Kafka", Text(f"{unknown}{kafka.problem}", "yellow" if kafka == NOT_ASKED else "bold red")
    else:
        yield "Kafka", Text(f"{settings.kafka_bootstrap_servers}, topic {settings.kafka_topic}")
    silent_ms = log_silent_ms(kafka, now_ms)
    if silent_ms is None:
        return
    if silent_ms > _SILENT_MS:
        problem = f"no record and no tick has reached Kafka for {duration_text(silent_ms)}: does a gateway run?"
        yield "gateways", Text(f"{problem} Its /readyz/writes and its log show what it waits for", "red")
    else:
        yield "gateways", f"the newest record reached Kafka {duration_text(silent_ms)} ago"


def _brokers(found: Status) -> Text:
    """Return the numbers of brokers, by the history. Whatever ails the history, the other lines are shown."""
    up = Text(f"{counted(found.brokers_up, 'broker')} up, {counted(found.broker_names, 'broker name')}")
    if found.history_problem:
        return up.append(f"; who is down is not known: {found.history_problem}", "bold red")
    down = f", {found.brokers_down:,} down: `namesrv-stream clusterList` shows since when"
    return up.append(down, "bold red") if found.brokers_down else up


def _table_lines(registry: RegistryAt, found: Status) -> Iterator[tuple[str, str | Text]]:
    times = f"published {time_text(found.published_at)}, event time {time_text(found.event_time)}"
    yield "serves", f"epoch {found.epoch}, {times}"
    if found.problem:
        yield "tables", Text(f"{found.problem}: make room, and the job goes on by itself", "bold red")
    if found.health is not None:
        yield "health", Text(f"{found.health}.", LEVELS[found.health_level])
    down = {each.cluster_name for each in down_brokers(registry)} if found.history_problem is None else set()
    yield "clusters", Text(", ".join(sorted({*registry.clusters, *down})) or "none")
    yield "brokers", _brokers(found)
    lost = {"without a route": found.topics_without_route, "not writable": found.topics_not_writable}
    more = "".join(f", {count:,} {what}" for what, count in lost.items() if count)
    yield "topics", Text(f"{found.topics:,} beside system topics").append(more, "bold red")
    if found.rejected_records:
        yield "rejected", Text(f"{found.rejected_records} records: `namesrv-stream rejected` lists them", "yellow")
    if found.changed_settings:
        yield "changed", Text(", ".join(f"{key}={value}" for key, value in sorted(found.changed_settings.items())))
