"""`history`, `snapshots` and `rejected`: events of brokers and topics, published snapshots, refused records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from namesrv_stream import palette
from namesrv_stream.cli.moments import ACCEPTED, Moment
from namesrv_stream.cli.output import counted, duration_text, heading, iso_text, table, time_text
from namesrv_stream.cli.view import (
    Answer,
    NotFoundError,
    Served,
    View,
    looks,
    open_reader,
    print_answer,
    root_of,
    show,
    span_of,
    view_options,
)
from namesrv_stream.config import Invocation
from namesrv_stream.history.events import newest_events, recorded_names
from namesrv_stream.history.fields import event_fields, snapshot_fields
from namesrv_stream.history.story import log_gap_text
from namesrv_stream.history.views import history_sql, permanent_sql
from namesrv_stream.logs import printable
from namesrv_stream.rules.rows import BrokerEventRow, RejectedRow, SnapshotRow
from namesrv_stream.tables.rejected import newest_rejected, rejected_fields
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.snapshots import Snapshots
from namesrv_stream.wire.json_text import encode_json

DEFAULT_EVENTS = 50
DEFAULT_SNAPSHOTS = 20
DEFAULT_REJECTED = 20
_UNCHANGED = {"CLAIM": "(a run began)", "STOP": "(the run ended)"}
_NAMED = 3
_TIME = Moment(epochs=False)
_NOT_SHOWN = ("type", "requestedBy", "reason")
_COLOURS = {kind: shades.terminal for kind, shades in palette.TEXT.items()}
_NAMES: dict[str, Callable[[dict[str, Any]], str]] = {
    "topic": lambda row: str(row["topic"]),
    "topic_mapping": lambda row: f"mapping of {row['topic']}",
    "kv_config": lambda row: f"{row['namespace']}/{row['key']}={row['value']}" if row["key"] else "",
    "namesrv_config": lambda row: f"{row['key']}={row['value']}",
    "command": lambda row: " ".join(f"{key}={value}" for key, value in row.items() if key not in _NOT_SHOWN),
}


@click.command("history")
@click.option("-b", "--broker", metavar="NAME|ADDRESS", help="Show events of this broker name or address.")
@click.option("--since", type=_TIME, help=f"Show events from this time on: {ACCEPTED}.")
@click.option("--until", type=_TIME, help="Show events up to this time.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=DEFAULT_EVENTS, show_default=True, help="Show the newest N."
)
@click.option("--versions", is_flag=True, help="Show registrations that changed nothing but the data version too.")
@view_options()
@click.pass_obj
def history(  # noqa: PLR0913, PLR0917  # one argument an option, as click hands them over
    invocation: Invocation,
    broker: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    versions: bool,
    view: View,
) -> None:
    """List the events of brokers and topics, newest last: registrations, ends of leases, commands, and their causes."""
    root, asked = root_of(invocation.settings), span_of(since, until)

    def answer(served: Served) -> Answer:
        span = asked._replace(until=(*asked.until, served.remembered)) if served.remembered else asked
        events = newest_events(root, served.snapshot, broker, span, limit, with_versions=versions)
        if broker is not None and not events and broker not in (ever := recorded_names(root, served.snapshot)):
            raise NotFoundError("event of broker", broker, ever, served.snapshot.epoch)
        return Answer(
            encode_json([event_fields(event) for event in events]), lambda plain: _events_shown(served, events, plain)
        )

    show(invocation, view, answer, remembers="all of them up to that moment")


def _events_shown(served: Served, events: list[BrokerEventRow], plain: bool) -> RenderableType:
    columns = ["time", "#epoch", "event", "broker?", "address?", "what+"]
    return Group(
        served.heading(counted(len(events), "event")),
        table(columns, [_event_cells(event) for event in events], plain=plain),
    )


def _event_cells(event: BrokerEventRow) -> list[object]:
    broker = event.broker_name if event.broker_id is None else f"{event.broker_name} {event.broker_id}"
    return [
        time_text(event.event_time),
        event.epoch,
        Text(event.type, _COLOURS.get(event.type, "")),
        broker,
        event.broker_addr,
        "; ".join(_what(event)),
    ]


def _what(event: BrokerEventRow) -> Iterator[str]:
    """Yield the names that the event changed, or its cause; the duration of a lease that ended; who asked for it."""
    before, after = (json.loads(side or "{}") for side in (event.before, event.after))
    if "command" in after:
        after = {"command": [after["command"]]}
    tables = [table for table in _NAMES if table in before or table in after]
    yield from (_changed_names(before.get(table), after.get(table), _NAMES[table]) for table in tables)
    if event.type == "LOG_GAP":
        yield log_gap_text(event)
    elif not tables and event.cause not in (event.type, "REGISTER_BROKER", "UNREGISTER_BROKER"):
        yield event.cause
    if event.lease_millis is not None:
        yield f"lasted {duration_text(event.lease_millis)}"
    if event.requested_by:
        yield f"by {event.requested_by}"
    if event.reason:
        yield f"reason: {event.reason}"


def _changed_names(before: Any, after: Any, name: Callable[[dict[str, Any]], str]) -> str:  # JSON
    rows = after or before
    if isinstance(rows, dict):  # so many rows that the event has only their number
        return counted(rows["count"], "topic")
    names = [("" if after else "without ") + name(row) for row in rows if name(row)]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")


def _schema_name(context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise click.BadParameter("a schema's name has letters, digits and _ alone.")
    if name is not None and not context.params.get("sql"):
        raise click.BadParameter("it needs --sql.")
    return name


@click.command("snapshots")
@click.option(
    "--limit", type=click.IntRange(min=1), default=DEFAULT_SNAPSHOTS, show_default=True, help="Show the newest N."
)
@click.option("--sql", is_flag=True, is_eager=True, help="Print the statements by which spark-sql reads one snapshot.")
@click.option("--schema", callback=_schema_name, metavar="NAME", help="With --sql: permanent views in this schema.")
@view_options()
@click.pass_obj
def snapshots(invocation: Invocation, limit: int, sql: bool, schema: str | None, view: View) -> None:
    """List the published snapshots that can be read, newest last. With --as-of only the one that was in force then.

    With --sql and --watch print the statements of each new snapshot, for a client that keeps permanent views fresh.
    """
    if view.watch_s is not None and not sql:
        raise click.UsageError("--watch needs --sql: it prints the statements of each new snapshot.")
    published = open_reader(invocation.settings).snapshots
    if sql:
        _print_statements(root_of(invocation.settings), published, view, schema)
        return
    asked = view.as_of is not None
    rows = [published.find(**view.as_of_arguments)] if asked else published.readable(limit)[::-1]
    fields = encode_json([snapshot_fields(row) for row in rows])
    print_answer(Answer(fields, lambda plain: _snapshots_shown(rows, plain)), as_json=view.as_json)


def _print_statements(root: Root, published: Snapshots, view: View, schema: str | None) -> None:
    """Print the statements of the snapshot asked for, with --watch those of each newer one too until Ctrl-C."""
    last = 0
    for _ in looks(view.watch_s) if view.watch_s is not None else [None]:
        published.refresh()
        snapshot = published.find(**view.as_of_arguments)
        if snapshot.epoch != last:
            click.echo(pinning_sql(root, snapshot, schema), nl=False)
        last = snapshot.epoch


def pinning_sql(root: Root, snapshot: SnapshotRow, schema: str | None = None) -> str:
    """Return Spark SQL that makes views of one snapshot's tables, and the views for analysts over them.

    The views are temporary, or permanent ones of `schema`.
    """
    pinned = history_sql(root, snapshot) if schema is None else permanent_sql(root, snapshot, schema)
    statements = "".join(f"{statement};\n" for statement in pinned)
    return f"-- epoch {snapshot.epoch}, event time {iso_text(snapshot.event_time)}\n{statements}"


def _snapshots_shown(rows: list[SnapshotRow], plain: bool) -> RenderableType:
    columns = ["#epoch", "published", "event time", "#term", "run", "#batch", "offsets", "rows changed+"]
    cells = [
        [
            row.epoch,
            time_text(row.published_at),
            time_text(row.event_time),
            row.term,
            row.run_id,
            row.batch_id,
            _pairs(row.offsets),
            _pairs(row.changes) or _UNCHANGED.get(row.kind or "CLAIM", "(event time alone)"),
        ]
        for row in rows
    ]
    newest = time_text(rows[-1].published_at if rows else None, with_zone=True)
    title = heading(counted(len(rows), "snapshot"), f"newest last, published {newest}")
    return Group(title, table(columns, cells, plain=plain))


@click.command("rejected")
@click.option(
    "--limit", type=click.IntRange(min=1), default=DEFAULT_REJECTED, show_default=True, help="Show the newest N."
)
@view_options(watch=False)
@click.pass_obj
def rejected(invocation: Invocation, limit: int, view: View) -> None:
    """List records that violate the contract, newest last: the job has kept them and changed nothing."""
    root = root_of(invocation.settings)

    def answer(served: Served) -> Answer:
        rows = newest_rejected(root, served.snapshot, limit)[::-1]
        fields = encode_json([rejected_fields(row) for row in rows])
        return Answer(fields, lambda plain: _rejected_shown(served, rows, plain))

    show(invocation, view, answer)


def _rejected_shown(served: Served, rows: list[RejectedRow], plain: bool) -> RenderableType:
    columns = ["event time", "#offset", "key", "#bytes", "reason+"]
    cells = [
        [time_text(row.event_time), row.offset, printable(row.key or ""), row.length, printable(row.reason)]
        for row in rows
    ]
    return Group(served.heading(counted(len(rows), "rejected record")), table(columns, cells, plain=plain))


def _pairs(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{key} {count}" for key, count in sorted(counts.items()))
