"""The command `impact`: what topics would lose if brokers were gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import click
from rich.console import Group, RenderableType
from rich.text import Text

from namesrv_stream.answers.absences import Kind
from namesrv_stream.answers.impact import Impact, TopicImpact, impact
from namesrv_stream.answers.job_status import Health
from namesrv_stream.answers.model import BadQuestionError, NotFoundError
from namesrv_stream.answers.questions import AskImpact, AskResilience
from namesrv_stream.answers.resilience import Resilience, resilience
from namesrv_stream.answers.trials import NOTHING_NAMED
from namesrv_stream.cli.output import LEVELS, Rows, time_text
from namesrv_stream.cli.view import Answer, heading_of, reads
from namesrv_stream.reporting.texts import counted, named
from namesrv_stream.tables.moment import RegistryAt

_LOSES = {"route": "its route", "writes": "writes", "group": "a broker group"}
_BECOMES = {
    "gone": "no broker left",
    "no_master": "no master",
    "reduced": "a broker less",
    "read_only": "read-only",
}
_GROUPS = 20


@reads("impact", AskImpact, without=["brokers", "after"], watch=False)
@click.argument("subjects", metavar="[SUBJECT]...", nargs=-1)
@click.option("--each", type=click.Choice(get_args(Kind)), help="Every one of them, the worst first.")
@click.option("--in-turn", is_flag=True, help="Each subject alone, as in a rolling restart.")
def what_if_gone(  # noqa: PLR0913, PLR0917 -- each an option
    registry: RegistryAt,
    health: Health | None,
    question: AskImpact,
    subjects: tuple[str, ...],
    each: Kind | None,
    in_turn: bool,
) -> Answer:
    """Show what topics would lose if brokers were gone.

    SUBJECT is a broker group, an address or a broker ('broker-a master', broker-a/1). Several are gone at once, or one
    after the other with --in-turn. Slaves take reads over, and a last broker takes its topics with it, as RocketMQ's
    rules say.

    Exit status: 0 no topic loses writes or its route; 1 topics do, or it cannot be told; 2 a name that is not there.
    """
    given: dict[str, Any] = {"brokers": list(subjects), "zones": question.zones, "clusters": question.clusters}
    try:
        if question.wiped and (each or in_turn):
            raise BadQuestionError("--wipe excludes --each and --in-turn. Ask for one of them.")
        if each is None and not in_turn:
            found = impact(registry, question.model_copy(update=given))
            return Answer(
                found, Group(*_impact_shown(registry, health, question, found)), exit_status=int(not found.safe)
            )
        if each is None and not any(given.values()):
            raise BadQuestionError(NOTHING_NAMED)
        every = resilience(registry, AskResilience(each=each, **given).model_copy(update={"limit": question.limit}))
        return Answer(every, Group(*_each_shown(registry, health, every)), exit_status=int(not every.safe))
    except NotFoundError as error:
        raise BadQuestionError(str(error)) from error


def _impact_shown(
    registry: RegistryAt, health: Health | None, question: AskImpact, found: Impact
) -> Iterator[RenderableType]:
    down = f", {found.already_down:,} down already" if found.already_down else ""
    title = f"without {named(found.subjects, 3)} ({counted(found.brokers, 'broker')}{down})"
    if question.wiped:
        title = f"{named(found.subjects, 3)} read-only"
    yield heading_of(title, registry, health)
    yield Text(found.text, LEVELS["ok" if found.safe else "critical"])
    if found.planned_to_go:
        brokers = counted(found.planned_to_go, "other broker")
        yield Text(f"Counts as gone: {brokers} that may be away now by plan (`namesrv-stream listAbsences`).", "yellow")
    if found.topics:
        columns = ["topic", "loses", "#write queues", "#read queues", "remaining groups", "down already+?"]
        yield Rows(columns, map(_topic_row, found.topics))
    if found.next is not None:
        yield Text(f"Showing {len(found.topics):,} of {counted(found.total, 'topic')}; --limit shows more.", "dim")
    if groups := [each for each in found.groups if each.becomes != "reduced"]:
        rows = (
            [each.broker_name, _becomes(each.becomes, each.acting_master), each.topics] for each in groups[:_GROUPS]
        )
        yield Rows(["broker group", "then", "#topics"], rows)
        if len(groups) > _GROUPS:
            yield Text(f"Showing {_GROUPS} of {counted(len(groups), 'broker group')}; --json has all.", "dim")
    for order in found.orders:
        yield Text(f"The order configuration of {order.topic} names {named(order.broker_names)}: {order.value}")
    for static in found.static_topics:
        yield Text(f"The static topic {static.topic} has queues on {named(static.broker_names)}.")
    yield Text(found.not_known, "dim")


def _becomes(becomes: str, acting: bool) -> str:
    return f"{_BECOMES[becomes]}, a slave acts as master" if acting else _BECOMES[becomes]


def _topic_row(each: TopicImpact) -> list[object]:
    down = [
        f"{group.broker_name} (since {time_text(group.since)})" if group.since else f"{group.broker_name} (no master)"
        for group in each.down_already
    ]
    return [
        each.topic,
        _LOSES[each.loses],
        f"{each.write_queues_before} -> {each.write_queues_after}",
        f"{each.read_queues_before} -> {each.read_queues_after}",
        named(each.remaining, 3) or "none",
        named(down, 3),
    ]


def _each_shown(registry: RegistryAt, health: Health | None, found: Resilience) -> Iterator[RenderableType]:
    kinds = {"broker group" if each.kind == "group" else each.kind for each in found.subjects}
    noun = kinds.pop() if len(kinds) == 1 else "subject"
    yield heading_of(f"{counted(found.total, noun)}, each alone", registry, health)
    yield Text(found.text, LEVELS["ok" if found.safe else "critical"])
    columns = ["without", "#brokers", "#topics lose route", "#topics lose writes", "#degraded", "#no master", "worst+"]
    yield Rows(
        columns,
        (
            [
                each.subject,
                each.brokers,
                each.lose_route,
                each.lose_writes,
                each.lose_group,
                each.groups_without_master,
                ", ".join(each.worst),
            ]
            for each in found.subjects
        ),
    )
    if len(found.subjects) < found.total:
        yield Text(f"Showing {len(found.subjects)} of {found.total:,}; --limit shows more.", "dim")
