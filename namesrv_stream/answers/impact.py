"""Tell what topics would lose if brokers were gone, all at once, and what else names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from namesrv_stream.answers.definitions import Brokers, TopicState, down_brokers, planned_brokers
from namesrv_stream.answers.model import AnswerModel, BadQuestionError, Moment, fact, not_found
from namesrv_stream.answers.questions import AskImpact
from namesrv_stream.answers.trials import (
    LOSSES,
    NOTHING_NAMED,
    Loss,
    Losses,
    all_writable,
    is_up,
    is_writable_row,
    loses_master,
    losses_text,
    named_subjects,
    planned_routes,
    planned_to_go,
    topics_on,
    write_queues,
)
from namesrv_stream.reporting.texts import Time, named, natural_key
from namesrv_stream.rules.lookup import ORDER_TOPIC_NAMESPACE, RouteTables, latest_registered
from namesrv_stream.rules.record_types import MASTER_ID, PERM_READ
from namesrv_stream.rules.rows import TopicRow
from namesrv_stream.rules.trial import Trial, without_leases, without_write_permission
from namesrv_stream.tables.moment import RegistryAt

NOT_KNOWN = "Not known here: messages that only these brokers have, consumer lag, and the capacity of the others."
_NAMED, _FIRST, _MOST = 3, 6, 1_000


class GroupDown(AnswerModel):
    """A broker group of a topic that takes no writes already. `since`: null if it has no master and none is down."""

    broker_name: str
    since: Time | None


class TopicImpact(AnswerModel):
    """What a topic would lose: its `route`, its `writes`, or a `group` of several with a master.

    Producers use the write queues of groups with a master, consumers the read queues of all that are up. `remaining`:
    the first broker groups with a master that it would still have. `downAlready`: those that it lacks now.
    """

    topic: str
    loses: Loss
    state_before: TopicState
    state_after: TopicState
    broker_names_up_before: int
    broker_names_up_after: int
    write_queues_before: int
    write_queues_after: int
    read_queues_before: int
    read_queues_after: int
    remaining: list[str]
    down_already: list[GroupDown]


class GroupImpact(AnswerModel):
    """A broker group that would be `gone`, or have `no_master` or a broker less (`reduced`), or be `read_only`.

    `actingMaster`: a slave would act as the master, for what needs no writes (R9).
    """

    broker_name: str
    becomes: Literal["gone", "no_master", "reduced", "read_only"]
    acting_master: bool
    topics: int


class NamedBy(AnswerModel):
    """A topic whose order configuration, or whose static mapping, names broker groups that would take no writes."""

    topic: str
    broker_names: list[str]
    value: str | None = None


class Impact(AnswerModel):
    """What would be lost without the subjects, all at once. `safe`: no topic loses its route or its writes.

    Brokers that are up, and may be away now by plan, count as gone before and after.

    `brokers` would go; `alreadyDown` of the subjects are not up; `plannedToGo` others are up, and count as gone.
    `loseRoute`, `loseWrites` and `loseGroup` count topics, each once, by the gravest; system topics are left out.
    `topics`: a page of all of them, the gravest first. `groups`: the first 1,000. `notKnown`: what this does not tell.
    """

    snapshot: Moment
    subjects: list[str]
    safe: bool
    text: str
    brokers: int
    already_down: int
    planned_to_go: int
    lose_route: int
    lose_writes: int
    lose_group: int
    groups_without_master: int
    groups: list[GroupImpact]
    total: int
    next: int | None
    topics: list[TopicImpact]
    orders: list[NamedBy]
    static_topics: list[NamedBy]
    not_known: str


def impact(registry: RegistryAt, asked: AskImpact) -> Impact:
    """Return what topics would lose. Raises NotFoundError for a name that is not there, and BadQuestionError."""
    subjects = named_subjects(registry, asked)
    chosen = {(each.cluster, each.name, each.broker_id): each for subject in subjects for each in subject.brokers}
    wiped = list(dict.fromkeys(asked.wiped))
    if unknown := [name for name in wiped if name not in registry.brokers]:
        raise not_found(registry, "broker group", unknown[0], registry.brokers)
    if not subjects and not wiped:
        raise BadQuestionError(NOTHING_NAMED)
    if subjects and wiped:
        raise BadQuestionError("`wipe` and brokers that are gone exclude each other. Ask for one of them.")
    ended = list(filter(is_up, chosen.values()))
    kept = [
        each for subject in subjects or named_subjects(registry, AskImpact(brokers=wiped)) for each in subject.brokers
    ]
    routes = planned_routes(registry, kept)
    trial = (
        without_write_permission(routes, wiped) if wiped else without_leases(routes, [each.address for each in ended])
    )
    found = Losses(registry, routes, topics_on(registry, routes, trial.holders), trial)
    ordered = [(loss, topic, rows) for loss in LOSSES for topic, rows in found.of[loss]]
    page = ordered[asked.after : asked.after + asked.limit]
    rest = asked.after + len(page)
    labels = list(dict.fromkeys(each.name for each in subjects)) or wiped
    told = losses_text(found, lambda: all_writable(registry, routes))
    if not ended and not wiped:
        told = f"Nothing changes: {named(labels, _NAMED)} {'is' if len(labels) == 1 else 'are'} not up."
    groups = list(_groups(routes, trial, is_wiped=bool(wiped)))
    mute = {each.broker_name for each in groups if each.becomes != "reduced"}
    return Impact(
        snapshot=Moment.of(registry.snapshot),
        subjects=labels,
        safe=found.is_safe,
        text=told,
        brokers=len(ended),
        already_down=len(chosen) - len(ended),
        planned_to_go=len(planned_to_go(registry) - {each.address for each in kept}),
        lose_route=found.counts["route"],
        lose_writes=found.counts["writes"],
        lose_group=found.counts["group"],
        groups_without_master=sum(loses_master(routes, trial, name) for name in trial.holders),
        groups=groups[:_MOST],
        total=len(ordered),
        next=rest if rest < len(ordered) else None,
        topics=[_of_topic(registry, found, *each) for each in page],
        orders=list(_orders(registry, mute)),
        static_topics=[
            NamedBy(topic, sorted(of.keys() & mute))
            for topic, of in sorted(routes.mappings.items())
            if of.keys() & mute
        ],
        not_known=NOT_KNOWN,
    )


def _of_topic(registry: RegistryAt, losses: Losses, loss: Loss, topic: str, rows: Sequence[TopicRow]) -> TopicImpact:
    before, after = losses.verdicts(topic, rows)
    left, down = losses.trial.rows(rows), _down_since(registry)
    masterless = [row.broker_name for row in rows if MASTER_ID not in losses.routes.brokers.get(row.broker_name, ())]
    missing = list(dict.fromkeys([*before.missing, *masterless]))
    remaining = [row.broker_name for row in left if is_writable_row(row, losses.brokers)]
    return TopicImpact(
        topic=topic,
        loses=loss,
        state_before=before.state,
        state_after=after.state,
        broker_names_up_before=before.up,
        broker_names_up_after=after.up,
        write_queues_before=write_queues(rows, losses.routes.brokers),
        write_queues_after=write_queues(left, losses.brokers),
        read_queues_before=_read_queues(rows, losses.routes.brokers),
        read_queues_after=_read_queues(left, losses.brokers),
        remaining=remaining[:_FIRST],
        down_already=[GroupDown(name, Time(down[name]) if name in down else None) for name in missing[:_FIRST]],
    )


def _read_queues(rows: Iterable[TopicRow], brokers: Brokers) -> int:
    return sum(row.read_queue_nums for row in rows if row.perm & PERM_READ and row.broker_name in brokers)


@fact
def _down_since(registry: RegistryAt) -> Mapping[str, int]:
    """Return since when broker groups have a broker that is down: its master, if that is."""
    away = (*down_brokers(registry), *planned_brokers(registry))
    ordered = sorted(away, key=lambda each: (each.broker_id != MASTER_ID, each.gone_ms))
    found: dict[str, int] = {}
    for each in ordered:
        found.setdefault(each.broker_name, each.gone_ms)
    return found


def _groups(routes: RouteTables, trial: Trial, *, is_wiped: bool) -> Iterator[GroupImpact]:
    """Yield what becomes of broker groups, the gravest first."""
    found = []
    for name, holders in trial.holders.items():
        had_master, has_master = MASTER_ID in routes.brokers.get(name, ()), MASTER_ID in holders
        becomes: Literal["gone", "no_master", "reduced", "read_only"] = "reduced"
        if is_wiped:
            becomes = "read_only"
        elif name in trial.gone:
            becomes = "gone"
        elif had_master and not has_master:
            becomes = "no_master"
        acts = bool(holders) and not has_master and bool(latest_registered(holders.values()).enable_acting_master)
        found.append(GroupImpact(name, becomes, acts, routes.queues.topic_counts.get(name, 0)))
    order = ("gone", "no_master", "read_only", "reduced")
    yield from sorted(found, key=lambda each: (order.index(each.becomes), natural_key(each.broker_name)))


def _orders(registry: RegistryAt, mute: set[str]) -> Iterator[NamedBy]:
    """Yield the order configurations that name one of the broker groups."""
    for topic, value in sorted(registry.kv.get(ORDER_TOPIC_NAMESPACE, {}).items()):
        names = {part.rpartition(":")[0].strip() for part in value.split(";")} & mute
        if names:
            yield NamedBy(topic, sorted(names, key=natural_key), value)
