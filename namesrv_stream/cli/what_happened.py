"""The commands `history`, `incidents`, `why`, `diff`, `snapshots` and `rejected`: what happened, and when."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from namesrv_stream.analysis import palette
from namesrv_stream.analysis.views import history_sql, permanent_sql
from namesrv_stream.answers import accounts, topics
from namesrv_stream.answers import incidents as of_brokers
from namesrv_stream.answers.broker_page import group_text
from namesrv_stream.answers.events import is_recorded
from namesrv_stream.answers.job_status import Health
from namesrv_stream.answers.model import NotFoundError, Unknown
from namesrv_stream.answers.questions import AskDiff, AskEvents, AskIncidents, AskTopic, AskWhy
from namesrv_stream.cli.options import asked, options_of
from namesrv_stream.cli.output import Rows, heading, print_answer, say, time_text
from namesrv_stream.cli.view import (
    Answer,
    View,
    first_moment,
    heading_of,
    json_option,
    looks,
    moment,
    open_registry,
    reads,
    view_options,
)
from namesrv_stream.config import Invocation
from namesrv_stream.config.values import java_text
from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.reporting.texts import (
    SHOWN_ZONE,
    broker_text,
    clock_text,
    duration_text,
    iso_text,
    perm_text,
    role_text,
    shown_of,
)
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.schemas import BROKER, TABLES

_UNCHANGED = {"CLAIM": "(run began)", "STOP": "(run ended)"}
_READABLE: dict[str, Callable[[int], str]] = {"perm": perm_text}


@reads("history", AskEvents)
def history(registry: RegistryAt, health: Health | None, question: AskEvents) -> Answer:
    """List events of brokers and topics, newest last."""
    page = accounts.events(registry, question)
    found = page.events
    _warn_of(page.unknown)
    rows = ([time_text(each.event_time), each.epoch, _event_type(each.type), each.text] for each in found)
    title = heading_of(shown_of(len(found), page.total, "event"), registry, health)
    return Answer(found, Group(title, Rows(["time", "#snapshot", "type", "event+"], rows)))


@reads("incidents", AskIncidents)
def incidents(registry: RegistryAt, health: Health | None, question: AskIncidents) -> Answer:
    """List outages of brokers and what they did, newest first.

    Brokers that went down unplanned, each within a minute of the one before, are one incident. --json has more of each,
    and a report in Markdown.
    """
    page = of_brokers.incidents(registry, question)
    found = page.incidents
    _warn_of(page.unknown)
    rows = (
        [time_text(each.since), duration_text((each.until or registry.now_ms) - each.since), each.text]
        for each in found
    )
    title = heading_of(shown_of(len(found), page.total, "incident"), registry, health)
    lasting = [
        (each.since, each.until, each.brokers, each.still_down, each.topics_not_writable, each.command_count)
        for each in found
    ]
    return Answer(found, Group(title, Rows(["since", "duration", "incident+"], rows)), lasting)


def _warn_of(unknown: Unknown | None) -> None:
    if unknown is not None:
        say(f"warning: events may be missing. {unknown.text}")


def _event_type(name: str) -> Text:
    return Text(name, palette.TEXT[name].terminal if name in palette.TEXT else "")


@reads("why", AskWhy, watch=False)
@click.argument("subject", metavar="BROKER|ADDRESS|TOPIC")
def why(registry: RegistryAt, health: Health | None, question: AskWhy, subject: str) -> Answer:
    """Show the history of a broker or a topic, newest last."""
    story = accounts.why(registry, subject, question)
    _warn_of(story.unknown)
    rows: list[list[object]] = [
        *([time_text(each.event_time), each.epoch, each.text] for each in story.sentences),
        ["now" if health else "", registry.snapshot.epoch, _present(registry, story.name, question, health)],
    ]
    count = shown_of(len(story.sentences), story.total, "event")
    title = heading_of(f"{story.name}: {count}", registry, health)
    return Answer(story.sentences, Group(title, Rows(["time", "#snapshot", "event+"], rows)))


def _present(registry: RegistryAt, subject: str, asked: AskWhy, health: Health | None) -> str:
    """Return the state of a broker group, an address or a topic as its page has it; what is not known now is marked."""
    doubt = health and health.doubt
    known = f"Last known ({doubt.reason} since {clock_text(doubt.since_ms)}): " if doubt else ""
    if not asked.is_topic and (lease := registry.live.get(subject)):
        heard = "" if registry.is_historical else f", last heartbeat {clock_text(lease.last_update_timestamp)}"
        who = f"{broker_text(lease.broker_name, lease.broker_id)} in {lease.cluster_name} ({subject})"
        return f"{known}{who} is up{heard}."
    if not asked.is_topic and is_recorded(registry, subject):
        return f"{known}{group_text(registry, subject)}."
    try:
        return f"{known}{topics.route(registry.of_topic(subject), subject, AskTopic()).text}"
    except NotFoundError:
        return f"{known}{subject} is not in the routes."


@click.command("diff")
@click.argument("before", metavar="A", type=first_moment)
@click.argument("after", metavar="B", type=moment)
@json_option
@click.pass_obj
def diff(invocation: Invocation, /, before: AsOf, after: AsOf, as_json: bool, **options: Any) -> None:
    """Compare two snapshots or times.

    Lists the rows that were added (+), removed (-) or changed (~) from A to B. Each is the number of a snapshot or a
    time. A date stands for the start of that day in A, and for its end in B.
    """
    registry = open_registry(invocation.settings)
    question = asked(AskDiff, {"from": str(before), **options})
    found = accounts.diff(registry.at(*before), registry.at(*after), question)
    title = heading(
        shown_of(len(found.differences), found.total, "difference", "first"),
        f"{before} to {after}".replace("epoch", "snapshot"),
    )
    shown = Group(title, Rows(["table:", "", "key", "values+"], _diff_rows(found)))
    print_answer(found, shown, as_json=as_json)


diff.params += options_of(AskDiff, without=["start", "end", "after"])


def _diff_rows(found: accounts.Diff) -> Iterator[list[str]]:
    for each in found.differences:
        sign = "+" if each.before is None else "-" if each.after is None else "~"
        key = (
            f"{each.key[0]} {role_text(each.key[1])}"
            if each.table == BROKER.name
            else " ".join(map(str, each.key)).strip()
        )
        yield [each.table, sign, key, _values(each)]


def _values(each: accounts.DifferentRow) -> str:
    if each.before is None or each.after is None:
        row = list((each.after or each.before or {}).items())[len(TABLES[each.table].key) :]
        return ", ".join(f"{name} {_text(name, value)}" for name, value in row if value not in (None, "", []))
    was, became = each.before, each.after
    return ", ".join(
        f"{name} {_text(name, was.get(name))} -> {_text(name, became.get(name))}"
        for name in became
        if was.get(name) != became.get(name)
    )


def _text(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return _READABLE.get(name, java_text)(value)


def _require_sql(context: click.Context) -> None:
    if not context.params.get("sql"):
        raise click.BadParameter("works only together with --sql.")


def _schema_name(context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise click.BadParameter("expected letters, digits and _ only.")
    if name is not None:
        _require_sql(context)
    return name


def _views(context: click.Context, _parameter: click.Parameter, lists: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.strip() for each in lists for name in each.split(","))
    if names:
        _require_sql(context)
    if not all(names):
        raise click.BadParameter("expected names of views, separated by commas.")
    return names


@click.command("snapshots")
@click.option("--limit", type=click.IntRange(min=1), default=20, help="Show the newest N.")
@click.option("--sql", is_flag=True, is_eager=True, help="Print SQL with which spark-sql reads one snapshot.")
@click.option("--schema", callback=_schema_name, metavar="NAME", help="With --sql: permanent views in this schema.")
@click.option(
    "--only",
    multiple=True,
    callback=_views,
    metavar="VIEW,...",
    help="With --sql: these views and what they read.",
)
@view_options()
@click.pass_obj
def snapshots(  # noqa: PLR0913, PLR0917 -- each an option
    invocation: Invocation,
    limit: int,
    sql: bool,
    schema: str | None,
    only: tuple[str, ...],
    view: View,
) -> None:
    """List the published snapshots, newest first.

    --as-of shows only the snapshot that has exactly the tables of that time. Other programs can pin a snapshot for
    `snapshot.exact` (an hour) after it was published. --sql with --watch prints the statements of each new snapshot,
    for a client that keeps permanent views up to date.
    """
    if view.watch_s is not None and not sql:
        raise click.UsageError("--watch works only together with --sql: it prints the SQL of each new snapshot.")
    if sql and view.as_json:
        raise click.UsageError("--sql and --json exclude each other. Give one of them.")
    registry = open_registry(invocation.settings)
    if sql:
        _print_statements(registry, view, schema, only or None)
        return
    newest_row = registry.newest().snapshot
    rows = (
        registry.read(lambda snapshots: snapshots.readable(limit))
        if view.as_of is None
        else [_pinned(registry, view.as_of)]
    )
    found = list(map(accounts.Snapshot.of_row, rows))
    newest = time_text(found[0].published_at if found else None, with_zone=True)
    total = len(found) if view.as_of else newest_row.epoch
    title = heading(shown_of(len(found), total, "snapshot"), f"last published {newest}")
    columns = ["#snapshot", "published", "data as of", "#term", "run", "#batch", "offsets", "rows changed+"]
    print_answer(found, Group(title, Rows(columns, map(_snapshot_row, found))), as_json=view.as_json)


def _snapshot_row(each: accounts.Snapshot) -> list[object]:
    changes = _pairs(each.changes) or _UNCHANGED.get(each.kind or "CLAIM", "(no changes)")
    times = [time_text(each.published_at), time_text(each.event_time)]
    return [each.epoch, *times, each.term, each.run_id, each.batch_id, _pairs(each.offsets), changes]


def _pairs(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{key} {count}" for key, count in sorted(counts.items()))


def _pinned(registry: Registry, moment: AsOf) -> SnapshotRow:
    """Return the snapshot that has exactly the tables of a moment. Raises SnapshotGoneError if none has."""
    epoch = registry.at(*moment).snapshot.epoch
    row = registry.read(lambda snapshots: snapshots.find(epoch))
    if moment.at_ms is not None and (row.event_time or 0) > moment.at_ms:
        raise SnapshotGoneError(str(moment), row.epoch)
    return row


def _print_statements(registry: Registry, view: View, schema: str | None, only: Collection[str] | None) -> None:
    """Print the statements that make views of the snapshot asked for, temporary ones or permanent ones of `schema`.

    With --watch print those of each newer snapshot too until Ctrl-C.
    """
    last = 0
    for _ in looks(view.watch_s):
        snapshot = _pinned(registry, view.as_of or AsOf())
        if snapshot.epoch != last:
            if schema is None:
                pinned = history_sql(registry.root, snapshot, only=only, zone=str(SHOWN_ZONE.get()))
            else:
                pinned = permanent_sql(registry.root, snapshot, schema, only=only, zone=str(SHOWN_ZONE.get()))
            statements = "".join(f"{statement};\n" for statement in pinned)
            click.echo(f"-- epoch {snapshot.epoch}, event time {iso_text(snapshot.event_time)}\n{statements}", nl=False)
        last = snapshot.epoch


@reads("rejected", watch=False)
@click.option("--limit", type=click.IntRange(min=1), default=20, help="Show the newest N.")
def rejected(registry: RegistryAt, health: Health | None, limit: int) -> Answer:
    """List rejected records and requests, newest first."""
    found = accounts.rejected(registry, limit)
    rows = ([time_text(each.event_time), each.offset, each.key, each.length, each.reason] for each in found)
    title = heading_of(shown_of(len(found), registry.rejected_count(), "rejected record"), registry, health)
    return Answer(found, Group(title, Rows(["event time", "#offset", "key", "#bytes", "reason+"], rows)))
