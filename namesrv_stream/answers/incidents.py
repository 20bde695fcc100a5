"""Tell outages of brokers: which of them went down together, for how long, what that did to topics, who did what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from namesrv_stream.answers.causes import BrokerId, FallenPlace, Member, place_of
from namesrv_stream.answers.definitions import EXPECTED_MS
from namesrv_stream.answers.effects import Effect, Effects, effects
from namesrv_stream.answers.events import Span, newest_of, with_changes
from namesrv_stream.answers.model import AnswerModel, Moment, Unknown, unknown_in
from namesrv_stream.answers.past_brokers import LeaseEnd, PastBrokers, past_brokers
from namesrv_stream.answers.questions import AskIncidents
from namesrv_stream.answers.sentences import BY_OPERATORS, story_of_group
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
from namesrv_stream.rules.rows import BrokerEventRow
from namesrv_stream.tables.as_of import AsOf
from namesrv_stream.tables.moment import RegistryAt

AFTERWARDS_MS = 600_000
"""Commands of this time after an incident belong to it."""

_MEMBERS, _COMMANDS = 6, 50
_ENDED = {
    "EXPIRED": "expired",
    "CHANNEL_CLOSED": "disconnected",
    "REFUSED": "rejected",
    "UNREGISTERED": "unregistered and not back at the end of their planned absence",
}
_LEFT = {"retired": "retired", "aged_out": "aged out"}
_MARKS = re.compile(r"([\\`*<>\[\]|])")
_BY_OPERATORS = f"type IN ({', '.join(repr(kind) for kind in sorted(BY_OPERATORS))})"


class IncidentCommand(AnswerModel):
    """An operator's command, with its sentence."""

    event_time: Time
    requested_by: str | None
    type: str
    reason: str | None
    text: str


class Incident(AnswerModel):
    """Unplanned ends of leases that belong together, each within a minute of the one before, and what they did.

    `since`: the first end of a lease. `until`: when the last broker was back, retired or aged out; null while one is
    down (`lasts`). `place`: what went down. `brokers`: their number; `stillDown` of them are down. `endedBy`: numbers
    of ends by type; above `brokers` in sum if one went down several times. `members`: the first six brokers.

    `topicsWithoutRoute`, `withoutRouteMillis`: how many topics, without system topics, had no route because of it, and
    the longest time of one; `topicsNotWritable`, `notWritableMillis`: the same of writes, with topics without a route.
    `commands`: the newest 50 of `commandCount` commands of operators, up to ten minutes after the end. `report`: all
    of it in Markdown.
    """

    since: Time
    until: Time | None
    lasts: bool
    place: str
    brokers: int
    still_down: int
    ended_by: dict[str, int]
    members: list[BrokerId]
    topics_without_route: int
    without_route_millis: int
    topics_not_writable: int
    not_writable_millis: int
    commands: list[IncidentCommand]
    command_count: int
    text: str
    report: str


class Incidents(AnswerModel):
    """The newest of `total` incidents since a time, newest first.

    `unknown`: a stretch of time of which events were lost: brokers that went down in it are missing.
    """

    snapshot: Moment
    since: Time
    total: int
    incidents: list[Incident]
    unknown: Unknown | None = None


def incidents(registry: RegistryAt, asked: AskIncidents) -> Incidents:
    """Return the incidents since a time up to the moment, and those before that lasted into it."""
    since_ms = asked.time_ms(registry, asked.since, is_begin=True) or 0
    past = past_brokers(registry, since_ms)
    found = [each for each in map(_Outage, past.shared()) if each.until_ms is None or each.until_ms >= since_ms]
    found.sort(key=lambda each: (each.since_ms, each.ends[0].place), reverse=True)
    shown = found[: asked.limit]
    commands = list(_commands(registry, shown))
    told = zip(shown, effects(registry, [each.ends for each in shown]), commands, strict=True)
    return Incidents(
        snapshot=Moment.of(registry.snapshot),
        since=Time(since_ms),
        total=len(found),
        incidents=[_incident(registry, past, *each) for each in told],
        unknown=unknown_in(registry, Span(since_ms - EXPECTED_MS)),
    )


class _Outage:
    """Ends of leases that belong together."""

    def __init__(self, ends: Sequence[LeaseEnd]) -> None:
        self.ends = ends
        self.since_ms = min(end.gone_ms for end in ends)
        self.brokers = {end.broker: end for end in ends}
        self.down = {end.broker: end for end in ends if end.until_ms is None}
        self.until_ms = None if self.down else max(end.until_ms or 0 for end in ends)

    @property
    def is_of_none(self) -> bool:
        """True if no broker was down, because other addresses had taken the roles before."""
        return all(end.outcome == "replaced" for end in self.ends)


def _incident(
    registry: RegistryAt, past: PastBrokers, outage: _Outage, did: Effects, lines: Sequence[list[BrokerEventRow]]
) -> Incident:
    since_ms, until_ms = outage.since_ms, outage.until_ms
    place = _place(outage, past)
    ordered = sorted(outage.brokers.values(), key=lambda end: (natural_key(end.broker[1]), end.broker))
    commands = [_command(of_one) for of_one in lines[-_COMMANDS:]]
    ended_by = dict(Counter(end.type for end in outage.ends))
    what, details = _what(outage, place), list(_details(outage, place, did))
    title = _capital(what)
    told = [
        f"# {_plain(title)}",
        "",
        f"- Since: {moment_text(since_ms)}",
        f"- Until: {'not over yet' if until_ms is None else moment_text(until_ms)}",
        f"- Duration: {_duration(outage, registry.now_ms)}",
        f"- Brokers: {_plain(_brokers(outage, ordered))}",
        f"- Topics: {', '.join(_topics(did)) or 'none without a route, none not writable'}",
        f"- Commands: {len(lines) or 'none'}",
        *(f"  - {moment_text(each.event_time)}: {_plain(each.text)}" for each in commands),
        "",
        f"Source: snapshot {registry.snapshot.epoch} of registry {registry.identity}",
    ]
    return Incident(
        since=Time(since_ms),
        until=None if until_ms is None else Time(until_ms),
        lasts=until_ms is None,
        place=place.text,
        brokers=len(outage.brokers),
        still_down=len(outage.down),
        ended_by=ended_by,
        members=[BrokerId(*end.broker, end.address) for end in ordered[:_MEMBERS]],
        topics_without_route=did.without_route.topics,
        without_route_millis=did.without_route.longest_ms,
        topics_not_writable=did.not_writable.topics,
        not_writable_millis=did.not_writable.longest_ms,
        commands=commands,
        command_count=len(lines),
        text=f"{title}{': ' if details else ''}{', '.join(details)}.",
        report="\n".join(told) + "\n",
    )


def _place(outage: _Outage, past: PastBrokers) -> FallenPlace:
    """Return what went down, among the brokers that were expected just before."""
    fallen = {
        broker: Member(broker[0], end.zone, *broker[1:], end.address, "down", end.fell_ms)
        for broker, end in outage.brokers.items()
    }
    others = {}
    if len(fallen) > 1:
        others = {
            each.broker: Member(each.broker[0], each.zone, *each.broker[1:], each.address, "alive", each.from_ms)
            for each in past.sessions
            if each.broker not in fallen and each.is_expected_at(outage.since_ms)
        }
    return place_of([*fallen.values()], [*fallen.values(), *others.values()])


def _what(outage: _Outage, place: FallenPlace) -> str:
    """Return what was down and when, the first part of the sentence."""
    since, count = clock_text(outage.since_ms), len(outage.brokers)
    if outage.is_of_none:
        ended = listed([_ENDED[kind] for kind in _ENDED if any(end.type == kind for end in outage.ends)])
        whose = "another address had its role" if count == 1 else "other addresses had their roles"
        return f"{place.text} {ended} at {since} without being down, because {whose}"
    if outage.until_ms is None:
        down = len(outage.down)
        edge = max if place.is_whole and down == count else min  # a whole place is down since the last of it is
        since = clock_text(edge(end.gone_ms for end in outage.down.values()))
        if down == count:
            return f"{place.text} down since {since}"
        of = f"{down:,} of {place.text if place.is_counted else counted(count, 'broker')}"
        return f"{of} down since {since}{'' if place.is_counted else f' ({place.text})'}"
    was = "was" if place.is_one else "were"
    times = f" {len(outage.ends):,} times" if count == 1 < len(outage.ends) else ""
    until = clock_text(outage.until_ms)
    if since == until:
        return f"{place.text} {was} down{times} at {since} for {duration_text(outage.until_ms - outage.since_ms)}"
    return f"{place.text} {was} down{times} from {since} to {until}"


def _details(outage: _Outage, place: FallenPlace, did: Effects) -> Iterator[str]:
    """Yield how many brokers it was or how they ended, how they left for good, and what that did to topics."""
    if outage.is_of_none:
        return
    is_many = len(outage.brokers) > 1
    if place.is_whole and len(outage.down) in (0, len(outage.brokers)):
        if not place.is_counted:
            yield counted(len(outage.brokers), "broker")
    else:
        yield from _counted_words(Counter(end.type for end in outage.ends), _ENDED)
    left = Counter[str](end.outcome for end in outage.ends)
    for outcome, word in _LEFT.items():
        if left[outcome]:
            yield f"{left[outcome]:,} {word}" if is_many else word
    yield from _topics(did)


def _counted_words(counts: Counter[str], words: dict[str, str]) -> Iterator[str]:
    for kind, word in words.items():
        if counts[kind]:
            yield word if len(counts) == 1 else f"{counts[kind]:,} {word}"


def _topics(did: Effects) -> Iterator[str]:
    if did.without_route.topics:
        yield _suffered(did.without_route, "without a route")
    if did.not_writable.topics > did.without_route.topics:
        yield _suffered(did.not_writable, "not writable")


def _suffered(effect: Effect, words: str) -> str:
    up_to = "" if effect.topics == 1 else "up to "
    return f"{counted(effect.topics, 'topic')} {words} for {up_to}{duration_text(effect.longest_ms)}"


def _brokers(outage: _Outage, ordered: Sequence[LeaseEnd]) -> str:
    """Return the brokers of a report: how many, how their leases ended, and the first of them."""
    counts = Counter(end.type for end in outage.ends)
    ended = ", ".join(f"{counts[kind]:,} {word}" for kind, word in _ENDED.items() if counts[kind])
    down = f", {len(outage.down):,} still down" if outage.down else ""
    return f"{len(ordered):,} ({ended}{down}): {named([broker_text(*end.broker[1:]) for end in ordered], _MEMBERS)}"


def _duration(outage: _Outage, now_ms: int) -> str:
    if outage.until_ms is None:
        return f"{duration_text(now_ms - outage.since_ms)} so far"
    return "none" if outage.is_of_none else duration_text(outage.until_ms - outage.since_ms)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith(("all ", "both ")) else text


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def _commands(registry: RegistryAt, outages: Sequence[_Outage]) -> Iterator[list[list[BrokerEventRow]]]:
    """Yield the commands of each outage, in order of the log. A command may have a line for each broker group."""
    if not outages:
        return
    now_ms = registry.now_ms
    spans = [(each.since_ms, min(now_ms, (each.until_ms or now_ms) + AFTERWARDS_MS)) for each in outages]
    span = Span(min(since_ms for since_ms, _ in spans), (AsOf(at_ms=max(until_ms for _, until_ms in spans)),))
    lines = [
        line
        for line in newest_of(registry, f"{_BY_OPERATORS} AND {span.covers}", None)
        if any(since_ms <= line.event_time <= until_ms for since_ms, until_ms in spans)
    ]
    lines = with_changes(registry, lines)
    commands = [list(of_one) for _, of_one in groupby(lines, _of_record)]
    for since_ms, until_ms in spans:
        yield [of_one for of_one in commands if since_ms <= of_one[0].event_time <= until_ms]


def _of_record(line: BrokerEventRow) -> tuple[int, int | None, int | None, str]:
    return line.epoch, line.partition, line.offset, line.type


def _command(lines: Sequence[BrokerEventRow]) -> IncidentCommand:
    return IncidentCommand.of(lines[0], text=story_of_group(lines))
