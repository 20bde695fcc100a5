"""`diff` and `why`: what changed between two moments, and the story of a broker or a topic."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
from rich.console import Group, RenderableType

from namesrv_stream.cli.group import say
from namesrv_stream.cli.moments import Moment
from namesrv_stream.cli.output import counted, duration_text, heading, iso_text, table, time_text
from namesrv_stream.cli.story import Sentence, story_of_broker, story_of_topic
from namesrv_stream.cli.view import (
    Answer,
    NotFoundError,
    Served,
    View,
    moment_of,
    open_reader,
    print_answer,
    root_of,
    show,
    view_options,
)
from namesrv_stream.config import Invocation
from namesrv_stream.errors import SnapshotGoneError
from namesrv_stream.history.diff import Diff, Difference, Row, diff_of_events, diff_of_views
from namesrv_stream.history.events import events_between, newest_events
from namesrv_stream.history.topics import topic_history
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.root import Root
from namesrv_stream.wire.json_text import encode_json

_MOMENT = Moment(epochs=True)


@click.command("diff")
@click.argument("before", metavar="A", type=_MOMENT)
@click.argument("after", metavar="B", type=_MOMENT)
@click.option("--json", "as_json", is_flag=True, help="Standard JSON, one line.")
@click.pass_obj
def diff(invocation: Invocation, before: int | datetime, after: int | datetime, as_json: bool) -> None:
    """What changed from A to B, two epochs or times: rows of each table that came, went or have other values.

    For moments past snapshot.retention the events between the two tell it.
    """
    reader = open_reader(invocation.settings)
    found, source = _diff(reader, root_of(invocation.settings), before, after)
    fields = {
        "from": str(moment_of(before)),
        "to": str(moment_of(after)),
        "source": source,
        "differences": [each._asdict() for each in found.differences],
        "unnamedTopics": found.unnamed,
    }
    title = f"{counted(len(found.differences), 'difference')}"
    span = f"{moment_of(before)} to {moment_of(after)}, by {source}"
    print_answer(Answer(encode_json(fields), lambda plain: _diff_shown(found, title, span, plain)), as_json=as_json)


def _diff(reader: RouteReader, root: Root, before: int | datetime, after: int | datetime) -> tuple[Diff, str]:
    moments = moment_of(before), moment_of(after)
    try:
        first, second = (reader.open(**moment._asdict()) for moment in moments)
    except SnapshotGoneError as gone:
        say(f"{gone.asked} is past snapshot.retention: the events between the two moments tell the differences.")
        newest = reader.snapshots.newest()
        lines = events_between(root, newest, *moments)
        if lines:
            return diff_of_events(lines), "events"
        return diff_of_events(events_between(root, newest, *moments[::-1])).reversed(), "events"
    return diff_of_views(first, second), "snapshots"


def _diff_shown(found: Diff, title: str, span: str, plain: bool) -> RenderableType:
    rows = [
        [each.table, "+" if each.before is None else "-" if each.after is None else "~", _key(each), _values(each)]
        for each in found.differences
    ]
    rows += [["topic", "~", name, f"{counted(count, 'topic')} that the events count only"] for name, count in
             found.unnamed.items()]  # fmt: skip
    return Group(heading(title, span), table(["table:", "", "key", "what+"], rows, plain=plain))


def _key(each: Difference) -> str:
    return " ".join(map(str, each.key)).strip()


def _values(each: Difference) -> str:
    if each.before is None or each.after is None:
        row: Row = each.after or each.before or {}
        told = {column: value for column, value in row.items() if value not in each.key and value not in (None, "", [])}
        return ", ".join(f"{column} {_text(value)}" for column, value in told.items())
    was, became = each.before, each.after
    return ", ".join(
        f"{column} {_text(was.get(column))} -> {_text(became.get(column))}"
        for column in became
        if was.get(column) != became.get(column)
    )


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@click.command("why")
@click.argument("subject", metavar="BROKER|ADDRESS|TOPIC")
@click.option("--since", type=Moment(epochs=False), help="Only later events: 03:12, 2026-11-21 03:12, 10m, 2h ago.")
@click.option("--topic", "is_topic", is_flag=True, help="Take it for a topic also where a broker has this name.")
@view_options(as_of=False, watch=False)
@click.pass_obj
def why(invocation: Invocation, subject: str, since: datetime | None, is_topic: bool, view: View) -> None:
    """The story of a broker name, a broker address or a topic, in sentences, newest last."""
    root = root_of(invocation.settings)
    since_ms = None if since is None else int(since.timestamp() * 1000)

    def answer(served: Served) -> Answer:
        told = _story(root, served, subject, since_ms, is_topic)
        fields = [each._asdict() | {"event_time": iso_text(each.event_time)} for each in told]
        return Answer(encode_json(fields), lambda plain: _story_shown(served, subject, told, plain))

    show(invocation, view, answer)


def _story(root: Root, served: Served, subject: str, since_ms: int | None, is_topic: bool) -> list[Sentence]:
    tables, snapshot = served.tables, served.snapshot
    if not is_topic:
        lines = newest_events(root, snapshot, subject, since_ms, limit=None)
        if lines or subject in tables.brokers or subject in tables.live or newest_events(root, snapshot, subject):
            return story_of_broker(lines)
    found = topic_history(root, snapshot, subject, since_ms)
    if not (found.lines or subject in tables.queues or topic_history(root, snapshot, subject).lines):
        known = tables.queues if is_topic else [*tables.brokers, *tables.live, *tables.queues]
        raise NotFoundError("topic" if is_topic else "broker or topic", subject, known, snapshot.epoch)
    return story_of_topic(subject, found.lines, found.untold)


def _story_shown(served: Served, subject: str, told: list[Sentence], plain: bool) -> RenderableType:
    rows = [[time_text(each.event_time), each.epoch, each.text] for each in told]
    rows.append(["now", served.snapshot.epoch, _present(served, subject)])
    return Group(served.heading(f"why {subject}"), table(["time", "#epoch", "what happened+"], rows, plain=plain))


def _present(served: Served, subject: str) -> str:
    tables = served.tables
    if lease := tables.live.get(subject):
        heard = duration_text(served.now_ms - lease.last_update_timestamp)
        return (
            f"{subject} is alive as {lease.broker_name} {lease.broker_id} of {lease.cluster_name}, heard {heard} ago."
        )
    if holders := tables.brokers.get(subject):
        return f"{subject} has {', '.join(f'{number} at {row.broker_addr}' for number, row in holders.items())}."
    if queues := tables.queues.get(subject):
        return f"{subject} is on {', '.join(row.broker_name for row in queues)}."
    return f"{subject} is in no route table."
