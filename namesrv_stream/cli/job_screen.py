"""`status`: one screen with the state of the job, the served snapshot and its lag."""

from __future__ import annotations

from collections.abc import Iterator

import click
from deltalake.exceptions import DeltaError
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from namesrv_stream.cli.options import View, view_options
from namesrv_stream.cli.output import heading, say, time_text
from namesrv_stream.cli.view import Answer, Looked, root_of, show
from namesrv_stream.config import Invocation, NamesrvSettings
from namesrv_stream.errors import NamesrvError, masked
from namesrv_stream.questions.job_status import NOT_ASKED, FromKafka, Status, facts_from_kafka
from namesrv_stream.questions.job_status import status as job_status
from namesrv_stream.reporting.texts import counted, duration_text
from namesrv_stream.wire.json_text import encode_json

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

_STATES = {
    "running": ("running", "green"),
    "catching up": ("catching up: {lag} of event time behind", "yellow"),
    "starting": ("starting since {since}", "yellow"),
    "stopped in order": ("stopped in order at {since}", "yellow"),
    "standby": ("standby: jobs wait, and none has been active since {since}", "yellow"),
    "waiting": ("waiting since {since}: the active job publishes nothing. Its log shows what it waits for", "red"),
    "no ticks": (
        "nothing has come from Kafka since {since}, no tick either: run a gateway, or set jobTicker=true",
        "yellow",
    ),
    "other log": ("reads a topic that is no longer there, or has ended by that: see Kafka below", "bold red"),
    "unknown": ("unknown: nothing was published since {since}, and Kafka does not answer", "red"),
    "dead": ("dead since {since}: nothing has been published. Start it again, and see its log", "bold red"),
}
"""State of the job -> what the screen says of it, and the colour."""


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
    settings = invocation.settings
    states: list[str] = []
    try:
        show(invocation, view, lambda looked: _answer(looked, settings, states, asks_kafka=not no_kafka))
    except (NamesrvError, DeltaError, OSError) as error:
        if not view.as_json:
            raise
        root = masked(root_of(settings).url)
        click.echo(encode_json({"root": root, "state": "unknown", "error": masked(str(error))}))
        context.exit(1)
    if states:
        context.exit(EXIT_STATUS.get(states[-1], 1))


def _answer(looked: Looked, settings: NamesrvSettings, states: list[str], *, asks_kafka: bool) -> Answer:
    """Return the status, and add its state to `states`."""
    assert looked.health is not None, "a status is of the present"
    seen, health = looked.seen, looked.health
    kafka = facts_from_kafka(settings, seen, health.row) if asks_kafka else NOT_ASKED
    if kafka.notice:
        say(f"warning: {kafka.notice}")
    found = job_status(seen, health, kafka)
    states.append(found.state)
    return Answer(found, lambda _plain: _shown(looked, found, kafka, settings))


def _shown(looked: Looked, found: Status, kafka: FromKafka, settings: NamesrvSettings) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in _lines(looked, found, kafka, settings):
        grid.add_row(name, value if isinstance(value, Text) else Text(value))
    return Group(heading("Registry", found.root), grid)


def _lines(
    looked: Looked, found: Status, kafka: FromKafka, settings: NamesrvSettings
) -> Iterator[tuple[str, str | Text]]:
    text, colour = _STATES[found.state]
    yield "job", Text(text.format(since=time_text(found.since), lag=duration_text(found.lag_millis or 0)), colour)
    batch = "no batch yet" if found.batch_id is None else f"batch {found.batch_id}"
    yield "", f"run {found.run_id}, term {found.term}, {batch}"
    for job in kafka.jobs or ():
        yield "", f"{'active' if job.is_active else 'waits'}: run {job.run_id} on {job.host}"
    times = f"published {time_text(found.published_at)}, event time {time_text(found.event_time)}"
    yield "serves", f"epoch {found.epoch}, {times}"
    yield "clusters", Text(", ".join(sorted(looked.seen.tables.clusters)) or "none")
    yield "brokers", f"{counted(found.broker_names, 'name')}, {counted(found.live_addresses, 'live address')}"
    yield "topics", f"{found.topics:,}"
    if found.rejected_records:
        yield "rejected", Text(f"{found.rejected_records} records: `namesrv-stream rejected` lists them", "yellow")
    if found.changed_settings:
        yield "changed", Text(", ".join(f"{key}={value}" for key, value in sorted(found.changed_settings.items())))
    if kafka.problem is not None:
        yield "Kafka", Text(f"unknown: {kafka.problem}", "yellow")
    else:
        yield "Kafka", Text(f"{settings.kafka_bootstrap_servers}, topic {settings.kafka_topic}")
