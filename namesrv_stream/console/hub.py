"""Computes what each new snapshot changes for those who watch, once for all who watch the same topics.

A watcher receives the events of its subscription in order of the epoch. Nothing here blocks: the hub lives in the event
loop, and `past_events` is called in a thread.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from msgspec import Raw

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.kept_snapshots import KeptSnapshots
from namesrv_stream.errors import NamesrvError, SnapshotGoneError
from namesrv_stream.history.events import AsOf
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules import lookup
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.snapshot_reader import RegistryView
from namesrv_stream.wire import bodies
from namesrv_stream.wire.json_text import encode_json

MOST_REPLAYED = 1_000
"""Most snapshots that are compared to resume a watcher. One that is further behind gets a reset."""

MOST_PENDING_BYTES = 1024 * 1024
"""Most bytes of events that wait for one watcher."""

MOST_PROGRESS_WAITING = 4
"""`progress` comes every 15 s: a connection that took no byte since that many of them is given up."""

_MOST_NAMED_TOPICS = 200
_OF_ROUTES = ("topic", "broker", "filter", "topic_mapping", "kv_config", "namesrv_config")
"""Tables that a route is made from. A snapshot that changes none of them changes no route."""

Topics = tuple[str, ...]
"""The topics of a subscription, sorted; empty for the subscription to all snapshots."""


class CannotWatchError(NamesrvError):
    """Refusal of a watcher: too many are connected, or there is no snapshot from which to watch."""


@dataclass(frozen=True)
class Event:
    """An event for watchers. `epoch` is None if the event does not move the place from which a watcher resumes.

    `registry` is the identity of the registry whose epoch it is.
    """

    name: str
    epoch: int | None
    data: bytes
    registry: str = ""

    @cached_property
    def text(self) -> bytes:
        """The event in the format of Server-Sent Events."""
        place = "" if self.epoch is None else f"id: {Place(self.registry, self.epoch)}\n"
        return b"event: %s\n%sdata: %s\n\n" % (self.name.encode(), place.encode(), self.data)


class Place(NamedTuple):
    """Place from which a watcher resumes: an epoch, and its registry, empty if the watcher does not name it."""

    registry: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.registry}-{self.epoch}" if self.registry else str(self.epoch)

    @classmethod
    def parsed(cls, text: str) -> Place | None:
        """Return the place in the id of an event, None if it is no such id."""
        found = re.fullmatch(r"(?:([0-9a-f]{1,36})-)?([0-9]{1,18})", text)
        return cls(found[1] or "", int(found[2])) if found else None


Bodies = tuple[bytes, ...]
"""The routes of a subscription's topics in one snapshot, as JSON, in order of the topics; `null` for no route."""


class Moment:
    """One snapshot for its watchers: what all their events share is computed once."""

    def __init__(self, view: RegistryView, settings: NamesrvSettings) -> None:
        """`settings` are those with which the console was started."""
        self.view = view
        self._in_force = settings.restored(view.routes.namesrv_config)

    def bodies(self, topics: Topics) -> Bodies:
        """Return the routes of topics."""
        return tuple(route_json(self.view, self._in_force, topic) for topic in topics)

    def routes_event(self, topics: Topics, now: Bodies, before: Bodies | None) -> Event | None:
        """Return the event with the routes that differ from those before, None if none does."""
        former = (None,) * len(topics) if before is None else before
        changed = {topic: Raw(route) for topic, route, was in zip(topics, now, former, strict=True) if route != was}
        if not changed:
            return None
        row = self.view.snapshot
        return Event("route", row.epoch, encode_json(_moment(row) | {"routes": changed}), self.view.registry)


def route_json(view: RegistryView, settings: NamesrvSettings, topic: str, zone: str | None = None) -> bytes:
    """Return RocketMQ's TopicRouteData of a topic as JSON, `null` for no route. `settings` are those in force."""
    found = lookup.route(view.routes, topic, settings, zone)
    return b"null" if found is None else bodies.encode_body(bodies.topic_route_data(found))


def snapshot_event(view: RegistryView, before: SnapshotRow | None) -> Event:
    """Return the event of a snapshot: its moment, and the tables and topics that it changed."""
    row, topics = view.snapshot, view.changed_topics
    is_listed = before is not None and topics is not None and len(topics) <= _MOST_NAMED_TOPICS
    more = _tables_changed(before, row) | {"changedTopics": sorted(topics or ()) if is_listed else None}
    return Event("snapshot", row.epoch, encode_json(_moment(row) | more), view.registry)


def _tables_changed(before: SnapshotRow | None, row: SnapshotRow) -> dict[str, object]:
    known = before.versions if before else {}
    return {"changedTables": sorted(name for name, version in row.versions.items() if known.get(name) != version)}


def _tables_of_routes_changed(before: SnapshotRow, row: SnapshotRow) -> set[str]:
    return {name for name in _OF_ROUTES if before.versions[name] != row.versions[name]}


def _moment(row: SnapshotRow) -> dict[str, object]:
    return {"epoch": row.epoch, "eventTime": iso_text(row.event_time), "publishedAt": iso_text(row.published_at)}


class Watcher:
    """One watcher's events that were not sent yet. A watcher that takes too few is dropped, and may resume."""

    def __init__(self) -> None:
        self._pending: deque[Event] = deque()
        self._bytes = 0
        self._has_some = asyncio.Event()
        self._progress_waiting = 0
        self.is_dropped = False
        self.is_stuck = asyncio.Event()
        """Set when the connection has taken nothing for a minute."""

    def push(self, event: Event) -> None:
        """Add an event. Too many that wait are replaced by one, `dropped`, which leaves the place to resume from."""
        if self.is_dropped:
            return
        self._pending.append(event)
        self._bytes += len(event.data)
        if self._bytes > MOST_PENDING_BYTES:
            self.drop("this watcher has read too slowly")
        self._has_some.set()

    def push_progress(self, event: Event) -> None:
        """Add an event `progress`. One too many that waits means that the connection takes no bytes."""
        self.push(event)
        self._progress_waiting += 1
        if self._progress_waiting >= MOST_PROGRESS_WAITING:
            self.is_stuck.set()

    def drop(self, reason: str) -> None:
        """Replace all that waits by the event `dropped`, the watcher's last."""
        self.is_dropped = True
        told = encode_json({"reason": f"{reason}: connect again with Last-Event-ID to go on"})
        self._pending = deque([Event("dropped", None, told)])
        self._has_some.set()

    def take(self) -> list[Event]:
        """Return the events that wait."""
        taken = list(self._pending)
        self._pending.clear()
        self._bytes = 0
        self._progress_waiting = 0
        self._has_some.clear()
        return taken

    async def wait(self) -> None:
        """Return when at least one event waits."""
        await self._has_some.wait()


class _Subscription:
    """All watchers of the same topics, and the routes that they know: those of `moment`, then of each later one."""

    def __init__(self, topics: Topics, moment: Moment) -> None:
        self.topics = topics
        self._known = moment.bodies(topics)
        self.watchers: set[Watcher] = set()

    def event(self, before: SnapshotRow | None, moment: Moment) -> Event | None:
        """Return what a moment changes, None if it changes nothing. `before`: the moment that was known."""
        if not self.topics:
            return snapshot_event(moment.view, before)
        if before is not None and not may_change(before, moment.view, self.topics):
            return None
        former, self._known = self._known, moment.bodies(self.topics)
        return moment.routes_event(self.topics, self._known, former)

    def events_of_leap(self, moment: Moment) -> Iterator[Event]:
        """Yield the events of a moment that does not follow the one that was known."""
        self._known = moment.bodies(self.topics)
        yield from reset_events(moment, self.topics, "snapshots are missing in between")

    def push(self, *events: Event) -> None:
        """Send events to all watchers."""
        for watcher in self.watchers:
            for event in events:
                watcher.push(event)


class Hub:
    """All watchers. `limit` is the most of them."""

    def __init__(self, snapshots: KeptSnapshots, settings: NamesrvSettings, limit: int) -> None:
        self._snapshots = snapshots
        self._settings = settings
        self._limit = limit
        self._subscriptions: dict[Topics, _Subscription] = {}
        self._count = 0
        self.view: RegistryView | None = None
        self.has_view = asyncio.Event()

    @property
    def registry(self) -> str:
        """The identity of the registry, empty before the first snapshot."""
        return self.view.registry if self.view else ""

    @property
    def epoch(self) -> int:
        """The epoch up to which watchers have received events, 0 before the first snapshot."""
        return self.view.snapshot.epoch if self.view else 0

    def check_room(self) -> None:
        """Raise CannotWatchError if there is no room for one more watcher."""
        if self._count >= self._limit:
            raise CannotWatchError(
                f"{self._limit} watchers are connected, which is the limit console.maxWatchers. Ask another console, "
                "or raise it."
            )

    def attach(self, topics: Topics) -> Watcher:
        """Return a new watcher of the events after `epoch`. Raises CannotWatchError."""
        assert self.view is not None
        self.check_room()
        if topics not in self._subscriptions:
            self._subscriptions[topics] = _Subscription(topics, Moment(self.view, self._settings))
        watcher = Watcher()
        self._subscriptions[topics].watchers.add(watcher)
        self._count += 1
        return watcher

    def detach(self, topics: Topics, watcher: Watcher) -> None:
        """Forget a watcher."""
        subscription = self._subscriptions[topics]
        subscription.watchers.discard(watcher)
        self._count -= 1
        if not subscription.watchers:
            del self._subscriptions[topics]

    def step(self, view: RegistryView) -> None:
        """Send all watchers what a view changes. `view` is of the next epoch."""
        before = self.view.snapshot if self.view else None
        self.view = view
        moment = Moment(view, self._settings)
        for subscription in self._subscriptions.values():
            if (event := subscription.event(before, moment)) is not None:
                subscription.push(event)
        self.has_view.set()

    def leap(self, view: RegistryView) -> None:
        """Go on from a view that is not of the next epoch: all watchers get a reset."""
        self.view = view
        moment = Moment(view, self._settings)
        for subscription in self._subscriptions.values():
            subscription.push(*subscription.events_of_leap(moment))
        self.has_view.set()

    def tell_progress(self) -> None:
        """Send all watchers the epoch up to which they have received everything. It keeps connections open, too."""
        if self.view is not None:
            event = Event("progress", self.epoch, encode_json(_moment(self.view.snapshot)), self.view.registry)
            for watcher in self._watchers():
                watcher.push_progress(event)

    def drop_all(self, reason: str) -> None:
        """Send all watchers their last event."""
        for watcher in self._watchers():
            watcher.drop(reason)

    def _watchers(self) -> Iterator[Watcher]:
        return (watcher for each in self._subscriptions.values() for watcher in each.watchers)


def may_change(before: SnapshotRow, view: RegistryView, topics: Iterable[str]) -> bool:
    """Return whether a route of `topics` may differ from the snapshot before.

    The base of `view` must not be of a later epoch than `before`.
    """
    changed = _tables_of_routes_changed(before, view.snapshot)
    if changed == {"topic"} and view.changed_topics is not None:
        return not view.changed_topics.isdisjoint(topics)
    return bool(changed)


def reset_events(moment: Moment, topics: Topics, reason: str) -> Iterator[Event]:
    """Yield the event after which a watcher has to forget what it knows, and the present state."""
    yield Event("reset", None, encode_json({"reason": reason, "epoch": moment.view.snapshot.epoch}))
    yield present_event(moment, topics)


def present_event(moment: Moment, topics: Topics) -> Event:
    """Return the event with the present state, with which a watcher without a past begins."""
    if not topics:
        return snapshot_event(moment.view, None)
    event = moment.routes_event(topics, moment.bodies(topics), None)
    assert event is not None
    return event


def past_events(
    snapshots: KeptSnapshots, settings: NamesrvSettings, topics: Topics, since: Place, until: RegistryView
) -> list[Event]:
    """Return the events after the place `since`, up to the epoch of `until`. May block on the storage.

    If they are not known any more, or of another registry, the result is a reset and the present state.
    """
    if since.registry not in ("", until.registry):
        reason = f"epoch {since.epoch} is of the registry {since.registry}, and this is {until.registry}"
        return list(reset_events(Moment(until, settings), topics, reason))
    try:
        first = snapshots.find(AsOf(epoch=since.epoch))
        rows = [row for row in snapshots.after(since.epoch) if row.epoch <= until.snapshot.epoch]
        if len(rows) > MOST_REPLAYED:
            raise SnapshotGoneError(f"epoch {since.epoch}", rows[-MOST_REPLAYED].epoch)
        if not topics:
            return [_event_of_past(before, row, until.registry) for before, row in pairwise([first, *rows])]
        return list(_replayed(snapshots, settings, topics, [first, *rows]))
    except NamesrvError as error:
        return list(reset_events(Moment(until, settings), topics, str(error)))


def _event_of_past(before: SnapshotRow, row: SnapshotRow, registry: str) -> Event:
    data = encode_json(_moment(row) | _tables_changed(before, row) | {"changedTopics": None})
    return Event("snapshot", row.epoch, data, registry)


def _replayed(
    snapshots: KeptSnapshots, settings: NamesrvSettings, topics: Topics, rows: Sequence[SnapshotRow]
) -> Iterator[Event]:
    """Yield an event for each row after the first that changed a route of the topics."""
    subscription = _Subscription(topics, Moment(snapshots.view(rows[0]), settings))
    for before, row in pairwise(rows):
        if _tables_of_routes_changed(before, row):
            event = subscription.event(before, Moment(snapshots.view(row), settings))
            if event is not None:
                yield event
