"""`diff` and `why`: what changed between two moments, and the story of a broker or a topic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click
from rich.console import Group, RenderableType

from namesrv_stream.cli.group import say
from namesrv_stream.cli.moments import ACCEPTED, Moment
from namesrv_stream.cli.output import counted, duration_text, heading, iso_text, perm_text, table, time_text
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
    span_of,
    view_options,
)
from namesrv_stream.config import Invocation
from namesrv_stream.history.comparison import comparison
from namesrv_stream.history.diff import Diff, Difference, Row
from namesrv_stream.history.events import Span, recorded_names
from namesrv_stream.history.story import Sentence, story_of, topic_story
from namesrv_stream.rules.lease import silence_ms
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import TABLES
from namesrv_stream.wire.json_text import encode_json

_MOMENT = Moment(epochs=True)
_TIME = Moment(epochs=False)
_READABLE: dict[str, Callable[[int], str | None]] = {
    "perm": perm_text,
    "lease_began_at": iso_text,
    "heartbeat_timeout_millis": duration_text,
}


@click.command("diff")
@click.argument("before", metavar="A", type=_MOMENT)
@click.argument("after", metavar="B", type=_MOMENT)
@click.option("--json", "as_json", is_flag=True, help="Print standard JSON, one line.")
@click.pass_obj
def diff(invocation: Invocation, before: int | datetime, after: int | datetime, as_json: bool) -> None:
    """Show what changed from A to B, two epochs or times: rows of each table that were added, removed or changed.

    If a moment is past snapshot.retention, or no snapshot has all events until then, the differences are taken from
    the events between A and B.
    """
    moments = moment_of(before), moment_of(after)
    compared = comparison(open_reader(invocation.settings), root_of(invocation.settings), *moments)
    if compared.gone:
        gone = " and ".join(map(str, compared.gone))
        say(f"past snapshot.retention: {gone}. Compared by the events between the two moments.")
    if compared.inexact:
        inexact = " and ".join(map(str, compared.inexact))
        say(f"between two snapshots, with events in between: {inexact}. Compared by the events between the moments.")
    found = compared.diff
    title = f"{counted(len(found.differences), 'difference')}"
    span = f"{moments[0]} to {moments[1]}, by {compared.source}"
    if compared.epochs is not None:
        span += " of epochs {} and {}".format(*compared.epochs)
    fields = encode_json(compared.fields())
    print_answer(Answer(fields, lambda plain: _diff_shown(found, title, span, plain)), as_json=as_json)


def _diff_shown(found: Diff, title: str, span: str, plain: bool) -> RenderableType:
    rows = [
        [each.table, "+" if each.before is None else "-" if each.after is None else "~", _key(each), _values(each)]
        for each in found.differences
    ]
    rows += [["topic", "~", name, f"{counted(count, 'topic')}, which the events do not name"] for name, count in
             found.unnamed.items()]  # fmt: skip
    return Group(heading(title, span), table(["table:", "", "key", "what+"], rows, plain=plain))


def _key(each: Difference) -> str:
    return " ".join(map(str, each.key)).strip()


def _values(each: Difference) -> str:
    key = TABLES[each.table].key
    if each.before is None or each.after is None:
        row: Row = each.after or each.before or {}
        shown = {column: value for column, value in row.items() if column not in key and value not in (None, "", [])}
        return ", ".join(f"{column} {_text(column, value)}" for column, value in shown.items())
    was, became = each.before, each.after
    return ", ".join(
        f"{column} {_text(column, was.get(column))} -> {_text(column, became.get(column))}"
        for column in became
        if was.get(column) != became.get(column)
    )


def _text(column: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(_READABLE.get(column, str)(value))


@click.command("why")
@click.argument("subject", metavar="BROKER|ADDRESS|TOPIC")
@click.option("--since", type=_TIME, help=f"Show events from this time on: {ACCEPTED}.")
@click.option("--until", type=_TIME, help="Show events up to this time.")
@click.option("--topic", "is_topic", is_flag=True, help="Read SUBJECT as a topic even if a broker has this name.")
@click.option("--versions", is_flag=True, help="Show registrations that changed nothing but the data version too.")
@view_options(as_of=False, watch=False)
@click.pass_obj
def why(  # noqa: PLR0913, PLR0917  # one argument an option, as click hands them over
    invocation: Invocation,
    subject: str,
    since: datetime | None,
    until: datetime | None,
    is_topic: bool,
    versions: bool,
    view: View,
) -> None:
    """Show the story of a broker name, a broker address or a topic, in sentences, newest last."""
    root, span = root_of(invocation.settings), span_of(since, until)

    def answer(served: Served) -> Answer:
        story = _story(root, served, subject, span, is_topic=is_topic, with_versions=versions)
        fields = [each._asdict() | {"event_time": iso_text(each.event_time)} for each in story]
        return Answer(encode_json(fields), lambda plain: _story_shown(served, subject, story, plain))

    show(invocation, view, answer)


def _story(  # noqa: PLR0913  # what the user chose
    root: Root, served: Served, subject: str, span: Span, *, is_topic: bool, with_versions: bool
) -> list[Sentence]:
    tables, snapshot = served.tables, served.snapshot
    if is_topic:
        story = topic_story(root, snapshot, subject, span, tables.queues)
    else:
        story = story_of(root, snapshot, subject, span, tables.queues, with_versions=with_versions)
    if story is None:
        kind, ever = ("topic", set[str]()) if is_topic else ("broker or topic", recorded_names(root, snapshot))
        raise NotFoundError(kind, subject, [*ever, *tables.queues], snapshot.epoch)
    return story


def _story_shown(served: Served, subject: str, story: list[Sentence], plain: bool) -> RenderableType:
    rows = [[time_text(each.event_time), each.epoch, each.text] for each in story]
    rows.append(["now", served.snapshot.epoch, _present(served, subject)])
    return Group(served.heading(f"why {subject}"), table(["time", "#epoch", "what happened+"], rows, plain=plain))


def _present(served: Served, subject: str) -> str:
    tables = served.tables
    if lease := tables.live.get(subject):
        silence = duration_text(silence_ms(lease, served.snapshot))
        return (
            f"{subject} is alive as {lease.broker_name} {lease.broker_id} of {lease.cluster_name}, "
            f"last sign of life {silence} ago."
        )
    if holders := tables.brokers.get(subject):
        return f"{subject} has {', '.join(f'{number} at {row.broker_addr}' for number, row in holders.items())}."
    if queues := tables.queues.get(subject):
        return f"{subject} is on {', '.join(row.broker_name for row in queues)}."
    return f"{subject} is in no route table."
