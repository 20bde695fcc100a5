"""Outages of brokers that belong together, lasting ones and those that are over: what fell, and what that did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from namesrv_stream.analysis.ask import opened
from namesrv_stream.answers.causes import Cause, Member, causes
from namesrv_stream.answers.definitions import EXPECTED_MS, DownBroker, together
from namesrv_stream.answers.events import Span, newest_of, with_changes
from namesrv_stream.answers.model import AnswerModel, Moment
from namesrv_stream.answers.questions import AskIncidents
from namesrv_stream.answers.sentences import BY_OPERATORS, ENDED_BY, sentence_of
from namesrv_stream.answers.verdict import system_among
from namesrv_stream.reporting.texts import (
    Time,
    broker_text,
    clock_text,
    counted,
    duration_text,
    listed,
    moment_text,
    named,
    natural_key,
)
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.moment import RegistryAt

_AFTER_MS = 600_000
"""Commands up to this time after its end belong to an incident."""

_FEW, _MOST_COMMANDS = 6, 50
_VIEWS = ("broker_stretch", "outage", "topic_outage")
_STRETCHES = """
    SELECT cluster_name, zone_name, broker_name, broker_id, last_addr, from_millis, expected_until_millis
    FROM broker_stretch WHERE from_millis <= $until AND expected_until_millis > $since"""
_OUTAGES = """
    SELECT cluster_name, broker_name, broker_id, zone_name, broker_addr, ended_by, epoch_ms(last_heard_at),
           epoch_ms(gone_at), epoch_ms(gone_at) + down_millis, back_at IS NOT NULL OR retired_at IS NOT NULL
    FROM outage WHERE epoch_ms(gone_at) <= $until AND epoch_ms(gone_at) + down_millis >= $since"""
_OF_TOPICS = """
    SELECT measure, topic, epoch_ms(gone_at), down_millis
    FROM topic_outage WHERE broker_name IS NULL AND epoch_ms(gone_at) BETWEEN $since AND $until"""


class IncidentCommand(AnswerModel):
    """An operator's command during an incident, or within ten minutes after it."""

    event_time: Time
    type: str
    requested_by: str | None
    reason: str | None
    text: str


class IncidentBroker(AnswerModel):
    """A broker that was down."""

    cluster_name: str
    broker_name: str
    broker_id: int
    broker_addr: str


class Incident(AnswerModel):
    """Unplanned ends of leases that belong together as those of a shared outage do, or one alone.

    `since`: the first end. `until`: when the last of its brokers was back, retired or aged out, null while one is down
    (`lasts`). `place`: what fell, in the words of causes. `members`: the first of its `brokers`. `topicsWithoutRoute`,
    `topicsNotWritable`: numbers of topics that lost their route or only their writes during it, without system topics;
    `withoutRouteMillis`, `notWritableMillis`: the longest such time. `report`: the incident in Markdown.
    """

    since: Time
    until: Time | None
    lasts: bool
    place: str
    text: str
    brokers: int
    ended_by: dict[str, int]
    members: list[IncidentBroker]
    topics_without_route: int
    without_route_millis: int
    topics_not_writable: int
    not_writable_millis: int
    commands: list[IncidentCommand]
    report: str


class Incidents(AnswerModel):
    """The newest of `total` incidents, newest first."""

    snapshot: Moment
    total: int
    incidents: list[Incident]


class _Outage(NamedTuple):
    """An outage of one broker, up to `end_ms`; `is_over`: it is back or was retired."""

    broker: DownBroker
    end_ms: int
    is_over: bool


class _Effect(NamedTuple):
    """Times in which topics were without a route, or not writable: topic -> the longest."""

    without_route: dict[str, int]
    not_writable: dict[str, int]


def incidents(registry: RegistryAt, asked: AskIncidents) -> Incidents:
    """Return the incidents of a time up to the moment. Raises PastUnknownError if events since then were lost."""
    since_ms, until_ms = asked.time_ms(registry, asked.since, is_begin=True) or 0, registry.now_ms
    if registry.unknown is not None and since_ms < registry.unknown.until_millis:
        raise registry.unknown.error
    values = {"since": since_ms - EXPECTED_MS, "until": until_ms}  # of an incident that lasts, all its brokers
    with opened(registry, only=_VIEWS, kept=["broker_session"]) as views:
        outages = [_Outage(DownBroker(*row[:8]), *row[8:]) for row in views.rows(_OUTAGES, values)]
        groups = [group for group in _groups(outages) if max(each.end_ms for each in group) >= since_ms]
        first_ms = min([since_ms, *(each.broker.gone_ms for group in groups for each in group)])
        stretches = list(views.rows(_STRETCHES, values | {"since": first_ms}))
        of_topics = list(views.rows(_OF_TOPICS, values | {"since": first_ms})) if groups else []
    system = system_among(registry, {topic for _, topic, *_ in of_topics})
    told = groups[: asked.limit]
    found = [
        _incident(registry, group, stretches, [row for row in of_topics if row[1] not in system]) for group in told
    ]
    return Incidents(Moment.of(registry.snapshot), len(groups), found)


def _groups(outages: Sequence[_Outage]) -> list[list[_Outage]]:
    """Return the outages that belong together, the newest first."""
    ordered = sorted(outages, key=lambda each: each.broker.fell_ms)
    return list(together(ordered, lambda each: each.broker.fell_ms))[::-1]


def _incident(
    registry: RegistryAt,
    group: Sequence[_Outage],
    stretches: Iterable[tuple[str, str | None, str, int, str, int, int]],
    of_topics: Iterable[tuple[str, str, int, int]],
) -> Incident:
    since_ms = min(each.broker.gone_ms for each in group)
    end_ms = max(each.end_ms for each in group)
    lasts = any(not each.is_over and each.end_ms >= registry.now_ms for each in group)
    fallen = {each.broker[:3]: each.broker for each in group}
    fell = _what_fell(fallen, stretches, since_ms)
    place = _place(fell)
    effect = _effect(of_topics, since_ms, end_ms)
    brokers = sorted(fallen.values(), key=lambda each: (natural_key(each.broker_name), each.broker_id))
    ends = Counter(each.ended_by for each in fallen.values())
    commands = _commands(registry, since_ms, end_ms + _AFTER_MS)
    when = (
        f"down since {clock_text(since_ms)}"
        if lasts
        else f"was down from {clock_text(since_ms)} to {clock_text(end_ms)}"
    )
    is_counted = len(fallen) == 1 or (len(fell) == 1 and fell[0].scope == "some")
    details = [*([] if is_counted else [counted(len(fallen), "broker")]), *_effect_texts(effect)]
    text = f"{place} {when}: {', '.join(details)}."
    return Incident(
        since=Time(since_ms),
        until=None if lasts else Time(end_ms),
        lasts=lasts,
        place=place,
        text=text,
        brokers=len(fallen),
        ended_by=dict(ends),
        members=[
            IncidentBroker(each.cluster_name, each.broker_name, each.broker_id, each.broker_addr)
            for each in brokers[:_FEW]
        ],
        topics_without_route=len(effect.without_route),
        without_route_millis=max(effect.without_route.values(), default=0),
        topics_not_writable=len(effect.not_writable),
        not_writable_millis=max(effect.not_writable.values(), default=0),
        commands=commands,
        report=_report(registry, place, since_ms, None if lasts else end_ms, brokers, ends, effect, commands),
    )


def _what_fell(
    fallen: dict[tuple[str, str, int], DownBroker],
    stretches: Iterable[tuple[str, str | None, str, int, str, int, int]],
    since_ms: int,
) -> list[Cause]:
    """Return the causes among the brokers that were expected as the incident began, as if these alone were down."""
    members = {
        (cluster, name, number): Member(cluster, zone, name, number, address or "", "alive", from_ms)
        for cluster, zone, name, number, address, from_ms, until_ms in stretches
        if from_ms <= since_ms < until_ms
    }
    for key, each in fallen.items():
        place = (each.cluster_name, each.zone_name, each.broker_name, each.broker_id, each.broker_addr)
        members[key] = Member(*place, "down", each.fell_ms, each)
    return causes(list(members.values()))


def _place(found: Sequence[Cause]) -> str:
    return listed([each.name for each in found[:2]] + ([f"{len(found) - 2} more"] if len(found) > 2 else []))


def _effect(of_topics: Iterable[tuple[str, str, int, int]], since_ms: int, end_ms: int) -> _Effect:
    found: dict[str, dict[str, int]] = {"route": {}, "write": {}}
    for measure, topic, gone_ms, down_ms in of_topics:
        if since_ms <= gone_ms <= end_ms:
            times = found[measure]
            times[topic] = max(times.get(topic, 0), down_ms)
    writes = {topic: ms for topic, ms in found["write"].items() if topic not in found["route"]}
    return _Effect(found["route"], writes)


def _effect_texts(effect: _Effect) -> list[str]:
    """Return what topics lost, as parts of a sentence."""
    told = [
        f"{counted(len(times), 'topic')} {state} for up to {duration_text(max(times.values()))}"
        for times, state in ((effect.without_route, "without a route"), (effect.not_writable, "not writable"))
        if times
    ]
    return told or ["no topic lost its route or its writes"]


def _commands(registry: RegistryAt, since_ms: int, until_ms: int) -> list[IncidentCommand]:
    span = Span(since_ms, (AsOf(at_ms=until_ms),))
    types = ", ".join(f"'{each}'" for each in sorted(BY_OPERATORS))
    lines = newest_of(registry, f"type IN ({types}) AND {span.covers}", _MOST_COMMANDS)
    return [
        IncidentCommand(Time(line.event_time), line.type, line.requested_by, line.reason, f"{sentence_of(line)}.")
        for line in with_changes(registry, lines)
    ]


def _report(  # noqa: PLR0913, PLR0917 -- the facts of an incident
    registry: RegistryAt,
    place: str,
    since_ms: int,
    until_ms: int | None,
    brokers: Sequence[DownBroker],
    ends: Counter[str],
    effect: _Effect,
    commands: Sequence[IncidentCommand],
) -> str:
    """Return an incident in Markdown."""
    end = "It lasts." if until_ms is None else f"{moment_text(until_ms)} ({duration_text(until_ms - since_ms)})"
    how = ", ".join(f"{count:,} {ENDED_BY.get(kind, kind)}" for kind, count in sorted(ends.items()))
    names = named([broker_text(each.broker_name, each.broker_id) for each in brokers], _FEW)
    lines = [
        f"# {place} down",
        "",
        f"- Since: {moment_text(since_ms)}",
        f"- Until: {end}",
        f"- Brokers: {counted(len(brokers), 'broker')} ({how}): {names}",
        f"- Topics: {', '.join(_effect_texts(effect))}",
        *(f"- {moment_text(each.event_time)}: {each.text}" for each in commands),
        "",
        f"Source: snapshot {registry.snapshot.epoch} of registry {registry.identity}",
    ]
    return "\n".join(lines) + "\n"
