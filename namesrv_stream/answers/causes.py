"""Tell what is wrong with brokers, by what they share: the state, a whole zone or cluster, and then time and place.

A sentence about a group of brokers is made here and nowhere else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

from namesrv_stream.answers.acknowledgements import Acknowledgement
from namesrv_stream.answers.definitions import TOGETHER_MS, DownBroker, together
from namesrv_stream.answers.model import AnswerModel
from namesrv_stream.reporting.texts import (
    Time,
    all_of,
    broker_text,
    clock_text,
    counted,
    listed,
    natural_key,
    percent_text,
    zone_text,
)
from namesrv_stream.rules.record_types import MASTER_ID

State = Literal["alive", "late", "suspect", "down", "left", "planned"]
Scope = Literal["all", "zone", "cluster", "zone_in_cluster", "masters", "some", "broker"]
_WORST_FIRST: tuple[State, ...] = ("down", "suspect", "late")
_NAMED = 6
_MAX_NAME, _BEGIN, _DIGEST = 60, 40, 8
"""Most characters of a name in an id. Of a longer one so many of its beginning, and so many of a digest of it."""

STRAYS = 0.75
"""A zone or cluster with this share of a group is told by itself, and the others apart."""


class BrokerId(AnswerModel):
    """A broker that is down, suspect or late."""

    cluster_name: str
    broker_name: str
    broker_id: int
    broker_addr: str


class Cause(AnswerModel):
    """`count` of the `total` brokers in one place that are in one state: a whole place, or since about the same time.

    `stateCount` of the `total` are in the state: it is above `count` if others there are told by another cause. A
    broker of two whole places counts for one of them. `text` tells each of them with all its brokers.
    `id`: the same as long as it is the same cause, from one snapshot to the next; /v1/brokers takes it as `cause`. It
    has the state, the scope and the names of the place, or of the first broker of `some` and `broker`; in a name,
    each byte of UTF-8 that is not a letter, digit, _ or - is `~` and two hex digits, and a long name ends with `~~` and
    a digest.
    `scope`: all brokers, all of a zone, of a cluster, or of a zone within a cluster, all masters of a cluster, one
    broker, or `some`. `zones` and `clusters` are those of the brokers. `firstAt` and `lastAt`: the first and the last
    time at which a broker came to the state; a silent one that is down counts at its last heartbeat. `goneAt`: the
    first end of a lease, from which on clients did not get the broker. `endedBy`: numbers of brokers by the type of
    their end. `brokers` lists the first of them. `acknowledged`: null unless an operator has acknowledged the cause.
    """

    state: State
    scope: Scope
    name: str
    text: str
    count: int
    total: int
    zones: list[str | None]
    clusters: list[str]
    first_at: Time
    last_at: Time
    gone_at: Time | None
    ended_by: dict[str, int]
    brokers: list[BrokerId]
    id: str
    state_count: int
    acknowledged: Acknowledgement | None = None


class Member(NamedTuple):
    """A broker that is expected. `at_ms`: its last heartbeat, when it became suspect, or when it fell out."""

    cluster: str
    zone: str | None
    name: str
    broker_id: int
    address: str
    state: State
    at_ms: int
    down: DownBroker | None = None

    @property
    def since_ms(self) -> int:
        """The time since which it is in its state: one that is down, since the end of its lease."""
        return self.at_ms if self.down is None else self.down.gone_ms


def causes(brokers: Sequence[Member]) -> list[Cause]:
    """Return what is wrong with brokers, by what they share: the state, a whole place, and then time and place."""
    return [cause for cause, _ in causes_with_members(brokers)]


def causes_with_members(brokers: Sequence[Member]) -> list[tuple[Cause, Sequence[Member]]]:
    """Return the causes, each with the brokers that it counts."""
    found: list[tuple[Cause, Sequence[Member]]] = []
    for state in _WORST_FIRST:
        rest = sorted((each for each in brokers if each.state == state), key=lambda each: each.at_ms)
        of_state = []
        for scope, whole, around in _whole_places(rest, brokers):
            of_state.append((_cause(scope, whole, around, brokers), whole))
            rest = _without(rest, whole)
        groups = together(rest, lambda each: each.at_ms) if state == "down" else [rest]
        of_state += [cause for group in groups for cause in _parts(group, brokers)]
        found += sorted(of_state, key=lambda each: -each[0].count)
    return found


_Place = tuple[str, ...] | None
_WHOLE: dict[Scope, Callable[[Member], _Place]] = {
    "zone": lambda each: None if each.zone is None else (each.zone,),
    "cluster": lambda each: (each.cluster,),
    "zone_in_cluster": lambda each: None if each.zone is None else (each.cluster, each.zone),
    "masters": lambda each: (each.cluster,) if each.broker_id == MASTER_ID else None,
}
"""Scope of a whole place -> the names of the place in which a broker is, in the order in which they are looked for."""


class FallenPlace(NamedTuple):
    """The place in which brokers went down together: `zone eu-b`, `all 8 brokers`, `12 brokers in c1`.

    `is_one`: the text is a singular. `is_whole`: all brokers of the place went down. `is_counted`: the text has their
    number.
    """

    text: str
    is_one: bool
    is_whole: bool
    is_counted: bool = False


def place_of(group: Sequence[Member], brokers: Sequence[Member]) -> FallenPlace:
    """Return where a group of brokers that are down is: the whole places in it, or how many brokers are where."""
    if len(group) == 1:
        return FallenPlace(broker_text(group[0].name, group[0].broker_id), is_one=True, is_whole=False)
    names, rest = [], group
    for scope, whole, _ in _whole_places(group, brokers):
        names.append(all_of(len(whole), "broker") if scope == "all" else _name(scope, whole))
        is_one = scope not in ("all", "masters")
        rest = _without(rest, whole)
    if not names:
        return FallenPlace(f"{len(group):,} brokers {_place(group)}", is_one=False, is_whole=False, is_counted=True)
    if len(names) == 1 and not rest:
        return FallenPlace(names[0], is_one=is_one, is_whole=True, is_counted=scope == "all")
    more = [
        counted(count, noun) for count, noun in ((len(names[3:]), "more place"), (len(rest), "more broker")) if count
    ]
    return FallenPlace(listed([*names[:3], *more]), is_one=False, is_whole=not rest)


def _whole_places(
    group: Sequence[Member], brokers: Sequence[Member]
) -> Iterator[tuple[Scope, Sequence[Member], Sequence[Member]]]:
    """Yield the zones and clusters of which all brokers are in the group, whenever they came to it.

    Then come the zones within one cluster, and clusters without masters. With each place come those of it that are in
    no place before, and all of it.
    """
    fallen, rest = set(group), set(group)
    if len(group) > 1 and len(group) == len(brokers):
        yield "all", group, brokers
        return
    for scope, place_of in _WHOLE.items():
        if not rest or (scope == "masters" and group[0].state != "down"):
            return
        of_place: dict[tuple[str, ...], list[Member]] = {}
        for each in brokers:
            if place := place_of(each):
                of_place.setdefault(place, []).append(each)
        for place in sorted(of_place, key=lambda names: list(map(natural_key, names))):
            around = of_place[place]
            if len(around) > 1 and fallen.issuperset(around) and not rest.isdisjoint(around):
                yield scope, [each for each in around if each in rest], around
                rest.difference_update(around)


def _parts(group: Sequence[Member], brokers: Sequence[Member]) -> Iterator[tuple[Cause, Sequence[Member]]]:
    """Yield a group, in parts if most of it are of one zone or of one cluster."""
    rest = list(group)
    while rest:
        part = _most(rest)
        yield _cause("broker" if len(part) == 1 else "some", part, _around(part, brokers), brokers), part
        rest = _without(rest, part)


def _without(group: Sequence[Member], part: Sequence[Member]) -> list[Member]:
    told = set(part)
    return [each for each in group if each not in told]


def _most(group: Sequence[Member]) -> Sequence[Member]:
    """Return those of one zone, or of one cluster, if they are most of a group, else the group."""
    for column in (1, 0):
        for place in _places(group, column):
            of_place = [each for each in group if each[column] == place]
            if STRAYS * len(group) <= len(of_place) < len(group):
                return of_place
    return group


def _places(group: Iterable[Member], column: int) -> list[str]:
    return sorted({str(each[column]) for each in group if each[column] is not None}, key=natural_key)


def _around(group: Sequence[Member], brokers: Sequence[Member]) -> Sequence[Member]:
    """Return the brokers of the clusters and zones of a group."""
    places = [{each[column] for each in group} for column in (0, 1)]
    return [each for each in brokers if each.cluster in places[0] and each.zone in places[1]]


def _cause(scope: Scope, group: Sequence[Member], around: Sequence[Member], brokers: Sequence[Member]) -> Cause:
    whole = group if scope in ("some", "broker") else around
    times = [each.at_ms for each in whole]
    gone = [each.down for each in whole if each.down is not None]
    ordered = sorted(group, key=lambda each: (natural_key(each.name), each.broker_id))
    return Cause(
        state=group[0].state,
        scope=scope,
        name=_name(scope, ordered),
        text=cause_text(scope, whole, around, brokers),
        count=len(group),
        total=len(around),
        zones=sorted({each.zone for each in whole}, key=lambda zone: natural_key(zone or "")),
        clusters=sorted({each.cluster for each in whole}, key=natural_key),
        first_at=Time(min(times)),
        last_at=Time(max(times)),
        gone_at=Time(min(each.gone_ms for each in gone)) if gone else None,
        ended_by=dict(Counter(each.down.ended_by for each in group if each.down is not None)),
        brokers=[BrokerId(each.cluster, each.name, each.broker_id, each.address) for each in ordered[:_NAMED]],
        id=_id(scope, group),
        state_count=_in_state(around, group[0].state),
    )


def _in_state(brokers: Iterable[Member], state: State) -> int:
    return sum(each.state == state for each in brokers)


def _id(scope: Scope, group: Sequence[Member]) -> str:
    """Return the id of a cause, as `Cause` describes it: `down.zone.eu-b`, `down.broker.c1.broker-7.0`."""
    first = group[0]
    if scope in _WHOLE:
        names = _WHOLE[scope](first) or ()
    elif scope == "all":
        names = ()
    else:
        first = min(group, key=lambda each: (each.at_ms, natural_key(each.name), each.broker_id, each.cluster))
        names = (first.cluster, first.name, str(first.broker_id))
    return ".".join((first.state, scope, *map(_escaped, names)))


def _escaped(name: str) -> str:
    in_bytes = name.encode(errors="surrogatepass")
    text = re.sub(rb"[^A-Za-z0-9_-]", lambda found: b"~" + found[0].hex().encode(), in_bytes).decode()
    return text if len(text) <= _MAX_NAME else f"{text[:_BEGIN]}~~{sha256(in_bytes).hexdigest()[:_DIGEST]}"


def _name(scope: Scope, group: Sequence[Member]) -> str:
    """Return what a group is called in a list of groups."""
    first = group[0]
    match scope:
        case "broker":
            return broker_text(first.name, first.broker_id)
        case "zone":
            return zone_text(str(first.zone))
        case "cluster":
            return first.cluster
        case "zone_in_cluster":
            return f"{zone_text(str(first.zone))} in {first.cluster}"
        case "masters":
            return f"all masters in {first.cluster}"
    return f"{counted(len(group), 'broker')} {_place(group)}"


def cause_text(scope: Scope, group: Sequence[Member], around: Sequence[Member], brokers: Sequence[Member]) -> str:
    """Return the sentence about brokers that share a state, without a full stop."""
    first, count = group[0], len(group)
    state = f"{first.state} {_since(scope, group)}"
    share = f"({percent_text(count, len(brokers))} of all brokers)"
    match scope:
        case "broker":
            in_cluster = f" in {first.cluster}" if len({each.cluster for each in brokers}) > 1 else ""
            return f"{broker_text(first.name, first.broker_id)}{in_cluster} ({first.address}) {state}"
        case "all":
            return f"{all_of(count, 'broker')} {state}"
        case "zone":
            return (
                f"{zone_text(str(first.zone))} {state}: {all_of(count, 'broker')}{_in_clusters(group, brokers)} {share}"
            )
        case "cluster" | "zone_in_cluster":
            return f"{_name(scope, group)} {state}: {all_of(count, 'broker')} {share}"
        case "masters":
            up = {each.name for each in brokers if each.state != "down"}  # slaves, as no master is up
            reads = " (slaves still serve reads)" if up.issuperset(each.name for each in group) else ""
            return f"{first.cluster} not writable: {all_of(count, 'master')} {state}{reads}"
    in_state, total = _in_state(around, first.state), len(around)
    if in_state == count:
        return f"{count:,} of {counted(total, 'broker')} {_place(group)} {state} {share}"
    share = f"({in_state:,} of {total:,} there; {share[1:]}"
    return f"{counted(count, 'broker')} {_place(group)} {state} {share}"


def _since(scope: Scope, group: Sequence[Member]) -> str:
    """Return since when a group is in its state: a whole place since the last of it is."""
    first_ms, last_ms = (of(each.since_ms for each in group) for of in (min, max))
    if scope in ("some", "broker"):
        return f"since {clock_text(first_ms)}"
    first = f", the first since {clock_text(first_ms)}" if last_ms - first_ms > TOGETHER_MS else ""
    return f"since {clock_text(last_ms)}{first}"


def _in_clusters(around: Iterable[Member], brokers: Iterable[Member]) -> str:
    """Return the clusters of a zone, as a part of a sentence; nothing if there is one cluster alone."""
    here, every = ({each.cluster for each in of} for of in (around, brokers))
    if len(every) == 1:
        return ""
    return f", in {min(here)}" if len(here) == 1 else f", in {len(here):,} clusters"


def _place(group: Iterable[Member]) -> str:
    """Return where a group is: in one zone, in one cluster, or in how many of both."""
    zones, clusters = {each.zone for each in group}, {each.cluster for each in group}
    in_cluster = f"in {next(iter(clusters))}" if len(clusters) == 1 else f"in {len(clusters):,} clusters"
    if len(zones) > 1:
        return f"{in_cluster} and {len(zones):,} zones"
    zone = next(iter(zones))
    return in_cluster if zone is None else f"{in_cluster}, {zone_text(zone)}"
