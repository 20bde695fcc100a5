"""Compute what outages of brokers did to topics: how many had no route or were not writable, and for how long.

A topic suffers from an outage while no broker group has it, or none with the write permission and a master, and a group
of the outage lacks it because it went down: until that group's brokers are back or retired, its master is back, or the
topic would have been removed there anyway. analysis/views.sql states it for all outages together, as `topic_outage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from namesrv_stream.answers.definitions import LOSSES
from namesrv_stream.answers.events import Span
from namesrv_stream.answers.past_brokers import LeaseEnd
from namesrv_stream.answers.verdict import system_among
from namesrv_stream.rules.record_types import MASTER_ID, PERM_WRITE
from namesrv_stream.tables.moment import Place, RegistryAt

_REFUSED = "REFUSED"
Stretch = tuple[int, int]
"""A time, from its begin to before its end, in epoch milliseconds."""


class Effect(NamedTuple):
    """How many topics suffered, and the longest time of one, in milliseconds."""

    topics: int = 0
    longest_ms: int = 0


class Effects(NamedTuple):
    """What an outage did to topics, without system topics. Those without a route were not writable either."""

    without_route: Effect = Effect()
    not_writable: Effect = Effect()


class _Change(NamedTuple):
    """A change of a topic on a broker group, or of its master (1 or None): permissions before and after it."""

    place: Place
    at_ms: int
    before: int | None
    after: int | None
    is_unplanned: bool = False


def effects(registry: RegistryAt, outages: Sequence[Sequence[LeaseEnd]]) -> list[Effects]:
    """Return what each outage did to topics. A broker whose role had passed on, or that was rejected, removed none."""
    fallen = [[end for end in ends if end.outcome != "replaced" and end.type != _REFUSED] for ends in outages]
    if not any(fallen):
        return [Effects() for _ in outages]
    past = _PastTopics(registry, fallen)
    return [past.effects_of(ends) for ends in fallen]


class _PastTopics:
    """The topics that outages concern, since the first of them."""

    def __init__(self, registry: RegistryAt, outages: Sequence[Sequence[LeaseEnd]]) -> None:
        self._registry = registry
        self._since_ms = min(end.gone_ms for ends in outages for end in ends)
        self._until_ms = registry.now_ms + 1  # so that what has just begun counts
        self._names = {end.broker[1] for ends in outages for end in ends}
        self._topics: dict[str, dict[str, list[_Change]]] = {}
        self._masters: dict[str, list[_Change]] = {}
        self._read()
        self._topics_of: dict[str, set[str]] = {}
        """Broker group of an outage -> the topics that it has or had."""
        for topic in registry.queues.topics_on(self._names):
            for row in registry.queues[topic]:
                if row.broker_name in self._names:
                    self._topics_of.setdefault(row.broker_name, set()).add(topic)
        for topic, names in self._topics.items():
            for name in names.keys() & self._names:
                self._topics_of.setdefault(name, set()).add(topic)
        self._system = system_among(registry, {topic for of in self._topics_of.values() for topic in of})
        self._down: dict[tuple[str, bool], list[Stretch]] = {}

    def _read(self) -> None:
        span = Span(self._since_ms)
        told = f"cause IN {LOSSES} OR deleted_topic IS NOT NULL"
        lines = self._registry.ask_events(
            f"SELECT epoch, seq, event_time, cause, deleted_topic FROM rows WHERE ({told}) AND {span.covers}"
        )
        places = zip(lines["epoch"].to_pylist(), lines["seq"].to_pylist(), strict=True)
        told_of = zip(places, lines["cause"].to_pylist(), lines["deleted_topic"].to_pylist(), strict=True)
        unplanned, self._deleted = set(), dict[str, list[tuple[Place, int]]]()
        at_ms = lines["event_time"].cast("timestamp[ms]", safe=False).cast("int64").to_pylist()
        for (place, cause, topic), time_ms in zip(told_of, at_ms, strict=True):
            if cause in LOSSES:
                unplanned.add(place)
            if topic is not None:
                self._deleted.setdefault(topic, []).append((place, time_ms))
        of_masters = f"table_name = 'broker' AND broker_id = {MASTER_ID}"
        rows = self._registry.ask_changes(
            "SELECT epoch, seq, event_time, topic, broker_name, topic_before['perm'] AS was, "
            "topic_after['perm'] AS is, broker_before['broker_addr'] IS NOT NULL AS had, "
            "broker_after['broker_addr'] IS NOT NULL AS has "
            f"FROM rows WHERE (table_name = 'topic' OR ({of_masters})) AND {span.covers} ORDER BY epoch, seq"
        )
        at_ms = rows["event_time"].cast("timestamp[ms]", safe=False).cast("int64").to_pylist()
        names = ("epoch", "seq", "topic", "broker_name", "was", "is", "had", "has")
        columns = (rows[name].to_pylist() for name in names)
        for time_ms, epoch, seq, topic, name, was, became, had, has in zip(at_ms, *columns, strict=True):
            place = (epoch, seq)
            if topic is None:
                self._masters.setdefault(name, []).append(_Change(place, time_ms, had or None, has or None))
            else:
                change = _Change(place, time_ms, was, became, place in unplanned)
                self._topics.setdefault(topic, {}).setdefault(name, []).append(change)

    def effects_of(self, ends: Sequence[LeaseEnd]) -> Effects:
        """Return what one outage did."""
        if not ends:
            return Effects()
        until_ms: dict[str, int] = {}
        for end in ends:
            name, of_end = end.broker[1], self._until_ms if end.until_ms is None else end.until_ms
            until_ms[name] = max(of_end, until_ms.get(name, 0))
        routes: dict[str, list[Stretch]] = {}
        writes: dict[str, list[Stretch]] = {}
        for end in ends:
            name = end.broker[1]
            back = [each for each in self._masters.get(name, ()) if each.before is None and each.place > end.place]
            last_ms = min([until_ms[name], *(each.at_ms for each in back[:1])])
            for topic in self._topics_of.get(name, set()) - self._system:
                changes = self._topics.get(topic, {}).get(name, [])
                self._add_route(routes, topic, end, changes, last_ms)
                if end.broker[2] == MASTER_ID:
                    self._add_write(writes, topic, end, changes, last_ms)
        return Effects(self._effect(routes, of_writes=False), self._effect(writes, of_writes=True))

    def _add_route(
        self, gaps: dict[str, list[Stretch]], topic: str, end: LeaseEnd, changes: Sequence[_Change], last_ms: int
    ) -> None:
        """Add the time for which the group has lost the topic with the end of a lease."""
        for number, change in enumerate(changes):
            if (
                change.at_ms == end.gone_ms
                and change.after is None
                and change.is_unplanned
                and change.place >= end.place
            ):
                after = [each.at_ms for each in changes[number + 1 : number + 2]]
                until_ms = min([last_ms, *after, *self._deletions(topic, change.place)])
                gaps.setdefault(topic, []).append((change.at_ms, until_ms))
                return

    def _add_write(
        self, gaps: dict[str, list[Stretch]], topic: str, end: LeaseEnd, changes: Sequence[_Change], last_ms: int
    ) -> None:
        """Add the time for which the topic is not writable on the group because its master is down."""
        name = end.broker[1]
        before = [each for each in changes if each.place < end.place]
        later = changes[len(before) :]
        perm = before[-1].after if before else changes[0].before if changes else self._present(topic, name)
        if perm is None or not perm & PERM_WRITE:
            return
        planned = (each.at_ms for each in later if not each.is_unplanned and not (each.after or 0) & PERM_WRITE)
        until_ms = min([last_ms, *planned, *self._deletions(topic, end.place)])
        gaps.setdefault(topic, []).append((end.gone_ms, until_ms))

    def _deletions(self, topic: str, after: Place) -> Iterator[int]:
        return (at_ms for place, at_ms in self._deleted.get(topic, ()) if place > after)

    def _present(self, topic: str, name: str) -> int | None:
        rows = self._registry.queues.get(topic, ())
        return next((row.perm for row in rows if row.broker_name == name), None)

    def _effect(self, gaps: dict[str, list[Stretch]], *, of_writes: bool) -> Effect:
        now_ms, found = self._registry.now_ms, []
        for topic, of_topic in gaps.items():
            both = list(_overlaps(_merged(of_topic), self._times_down(topic, of_writes=of_writes)))
            if both:
                found.append(max(min(end, now_ms) - begin for begin, end in both))
        return Effect(len(found), max(found, default=0))

    def _times_down(self, topic: str, *, of_writes: bool) -> list[Stretch]:
        """Return the times in which no broker group has the topic, or none so that it is writable."""
        key = (topic, of_writes)
        if key not in self._down:
            present = {row.broker_name: row.perm for row in self._registry.queues.get(topic, ())}
            always = any(self._is_always_up(topic, name, perm if of_writes else None) for name, perm in present.items())
            up = () if always else self._times_up(topic, present, of_writes=of_writes)
            self._down[key] = [] if always else self._complement(_merged(up))
        return self._down[key]

    def _is_always_up(self, topic: str, name: str, perm: int | None) -> bool:
        """Return whether a group that has the topic had it all the time, with `perm` also so that it was writable."""
        if name in self._topics.get(topic, ()):
            return False
        is_writable = perm is None or (perm & PERM_WRITE and MASTER_ID in self._registry.brokers.get(name, ()))
        return bool(is_writable) and (perm is None or name not in self._masters)

    def _times_up(self, topic: str, present: Mapping[str, int], *, of_writes: bool) -> Iterator[Stretch]:
        changed = self._topics.get(topic, {})
        for name in present.keys() | changed.keys():
            if not of_writes:
                yield from self._times(changed.get(name, ()), present.get(name), lambda perm: perm is not None)
                continue
            written = self._times(changed.get(name, ()), present.get(name), lambda perm: bool((perm or 0) & PERM_WRITE))
            master = 1 if MASTER_ID in self._registry.brokers.get(name, ()) else None
            yield from _overlaps(
                list(written), list(self._times(self._masters.get(name, ()), master, lambda has: has is not None))
            )

    def _times(
        self, changes: Sequence[_Change], present: int | None, is_up: Callable[[int | None], bool]
    ) -> Iterator[Stretch]:
        """Yield the times in which a value that changes is such."""
        value, from_ms = (changes[0].before if changes else present), 0
        for change in changes:
            if is_up(value) and change.at_ms > from_ms:
                yield from_ms, change.at_ms
            value, from_ms = change.after, change.at_ms
        if is_up(value):
            yield from_ms, self._until_ms

    def _complement(self, stretches: Iterable[Stretch]) -> list[Stretch]:
        found, from_ms = [], 0
        for begin, end in stretches:
            if begin > from_ms:
                found.append((from_ms, begin))
            from_ms = end
        if from_ms < self._until_ms:
            found.append((from_ms, self._until_ms))
        return found


def _merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the same times in order, without overlaps."""
    found: list[Stretch] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif begin < end:
            found.append((begin, end))
    return found


def _overlaps(one: Sequence[Stretch], other: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield the times that are in both. Each is in order and has no overlaps."""
    for begin, end in one:
        for since, until in other:
            if max(begin, since) < min(end, until):
                yield max(begin, since), min(end, until)
