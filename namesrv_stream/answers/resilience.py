"""Tell what each broker, broker group, zone or cluster alone would take with it, and how topics are spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from namesrv_stream.answers.absences import Kind
from namesrv_stream.answers.model import AnswerModel, BadQuestionError, Moment
from namesrv_stream.answers.questions import AskResilience
from namesrv_stream.answers.trials import (
    LOSSES,
    Alike,
    Losses,
    Subject,
    all_writable,
    every_subject,
    is_up,
    is_writable_row,
    loses_master,
    losses_text,
    named_subjects,
    planned_routes,
    planned_to_go,
    topics_on,
)
from namesrv_stream.reporting.texts import counted, natural_key
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import MASTER_ID
from namesrv_stream.rules.trial import without_leases
from namesrv_stream.tables.moment import RegistryAt

_NAMED = 3


class ImpactOfOne(AnswerModel):
    """What would be lost without one subject alone, as in `Impact`. `worst`: the first three of these topics.

    `name`: as `/v1/impact` takes it, for its kind.
    """

    subject: str
    kind: Kind
    name: str
    safe: bool
    text: str
    brokers: int
    already_down: int
    lose_route: int
    lose_writes: int
    lose_group: int
    groups_without_master: int
    worst: list[str]


class Spread(AnswerModel):
    """How many topics have their masters on `count` broker groups, or in `count` zones, and the first of them."""

    count: int
    topics: int
    first: list[str]


class Resilience(AnswerModel):
    """What each of some subjects alone would take, the worst first. `unsafe`: the number of those that take something.

    `topicsByGroups` and `topicsByZones`: all topics but system topics, by the number of broker groups on which they
    are writable, and of zones in which these have their masters. Brokers without a zone are in one.
    """

    snapshot: Moment
    text: str
    safe: bool
    unsafe: int
    total: int
    subjects: list[ImpactOfOne]
    topics_by_groups: list[Spread]
    topics_by_zones: list[Spread]


def resilience(registry: RegistryAt, asked: AskResilience) -> Resilience:
    """Return what each subject alone would take. Raises NotFoundError for a name that is not there."""
    named_ones = named_subjects(registry, asked)
    if named_ones and asked.each:
        raise BadQuestionError("`each` and names exclude each other. Give one of them.")
    subjects = named_ones or every_subject(registry, asked.each or "zone")
    named_brokers = [each for subject in named_ones for each in subject.brokers]
    routes = planned_routes(registry, named_brokers)
    topics = topics_on(registry, routes, routes.brokers)
    of_name: dict[str, list[int]] = {}
    for number, (rows, _) in enumerate(topics):
        for row in rows:
            of_name.setdefault(row.broker_name, []).append(number)
    is_writable = cache(lambda: all_writable(registry, routes))
    found = []
    for subject in subjects:
        ended = [each.address for each in subject.brokers if is_up(each)]
        if named_ones or planned_to_go(registry).isdisjoint(ended):
            trial = without_leases(routes, ended)
            concerned = sorted({number for name in trial.holders for number in of_name.get(name, ())})
            losses = Losses(registry, routes, [topics[number] for number in concerned], trial)
        else:  # it may be away by plan: without it, and the others that may be
            own = planned_routes(registry, subject.brokers)
            trial = without_leases(own, ended)
            losses = Losses(registry, own, topics_on(registry, own, trial.holders), trial)
        found.append(_of_one(subject, losses, len(ended), is_writable))
    found.sort(
        key=lambda each: (
            -each.lose_route - each.lose_writes,
            -each.lose_route,
            -each.lose_group,
            -each.groups_without_master,
            natural_key(each.subject),
        )
    )
    unsafe = sum(not each.safe for each in found)
    noun = "subject" if named_ones else {"group": "broker group"}.get(asked.each or "zone", asked.each or "zone")
    by_groups, by_zones = _spreads(routes, topics)
    return Resilience(
        Moment.of(registry.snapshot),
        _text(len(found), unsafe, noun),
        not unsafe,
        unsafe,
        len(found),
        found[: asked.limit],
        by_groups,
        by_zones,
    )


def _of_one(subject: Subject, losses: Losses, ended: int, is_writable: Callable[[], bool]) -> ImpactOfOne:
    masters = sum(loses_master(losses.routes, losses.trial, name) for name in losses.trial.holders)
    return ImpactOfOne(
        subject=subject.name,
        kind=subject.kind,
        name=subject.asked,
        safe=losses.is_safe,
        text=losses_text(losses, is_writable) if ended else f"{subject.name} is not up.",
        brokers=ended,
        already_down=len(subject.brokers) - ended,
        lose_route=losses.counts["route"],
        lose_writes=losses.counts["writes"],
        lose_group=losses.counts["group"],
        groups_without_master=masters,
        worst=[topic for loss in LOSSES for topic, _ in losses.of[loss]][:_NAMED],
    )


def _text(count: int, unsafe: int, noun: str) -> str:
    if not count:
        return "No brokers are up."
    if count == 1:
        return "Safe: no topic loses writes or its route." if not unsafe else "Topics lose writes or their route."
    if not unsafe:
        return f"Safe: without any one of {counted(count, noun)}, no topic loses writes or its route."
    return f"Without {unsafe:,} of {counted(count, noun)}, each alone, topics lose writes or their route."


def _spreads(routes: RouteTables, topics: Iterable[Alike]) -> tuple[list[Spread], list[Spread]]:
    """Return the topics by the number of broker groups on which they are writable, and of these masters' zones."""
    groups, zones = dict[int, list[str]](), dict[int, list[str]]()
    for rows, alike in topics:
        masters = [routes.brokers[row.broker_name][MASTER_ID] for row in rows if is_writable_row(row, routes.brokers)]
        groups.setdefault(len(masters), []).extend(alike)
        zones.setdefault(len({each.zone_name for each in masters}), []).extend(alike)
    return _spread(groups), _spread(zones)


def _spread(found: dict[int, list[str]]) -> list[Spread]:
    return [Spread(count, len(of), sorted(of)[:_NAMED]) for count, of in sorted(found.items())]
