"""Send the changes of each new snapshot to watchers, computed once for all watchers of the same topics.

A watcher receives the events of its subscription in order of the epoch: as Server-Sent Events, or only the first ones
by a blocking query. The hub lives in the event loop. `past_events` may wait for the storage, so it is called in a
thread.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import Raw
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from namesrv_stream.answers.model import AnswerModel
from namesrv_stream.console.problems import RefusedError
from namesrv_stream.errors import NamesrvError, SnapshotGoneError
from namesrv_stream.reporting.texts import iso_text
from namesrv_stream.rules import lookup
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.moment import RegistryAt
from namesrv_stream.tables.registry import Registry
from namesrv_stream.wire import bodies
from namesrv_stream.wire.json_text import encode_json

MAX_REPLAYED = 1_000
"""Most snapshots that are compared to resume a watcher. A watcher that is further behind gets a reset."""

MAX_PENDING_BYTES = 1024 * 1024
"""Most bytes of events that wait for one watcher."""

MAX_WATCHERS = 2_000

PROGRESS_EVERY_S = 15.0
TAKE_LIMIT_S = 60.0
"""A watcher whose connection takes nothing for this time is dropped. It is sent an event at least every 15 s."""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]
_RETRY = b"retry: 1000\n\n"
_MAX_NAMED_TOPICS = 200
_OF_ROUTES = ("topic", "broker", "filter", "topic_mapping", "kv_config", "namesrv_config")
"""Tables that a route is made from. A snapshot that changes none of them changes no route."""

Topics = tuple[str, ...]
"""The topics of a subscription, sorted; empty for the subscription to all snapshots."""


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


@dataclass(frozen=True)
class WatchEvent:
    """An event for watchers. `place` is that of its snapshot, None if it is about no snapshot.

    Every place but that of a reset is one from which a watcher resumes.
    """

    name: str
    data: bytes
    place: Place | None = None

    @cached_property
    def text(self) -> bytes:
        """The event in the format of Server-Sent Events."""
        place = "" if self.place is None or self.name == "reset" else f"id: {self.place}\n"
        return b"event: %s\n%sdata: %s\n\n" % (self.name.encode(), place.encode(), self.data)


def _event(name: str, row: SnapshotRow, registry: str, **more: object) -> WatchEvent:
    moment = {"epoch": row.epoch, "eventTime": iso_text(row.event_time), "publishedAt": iso_text(row.published_at)}
    return WatchEvent(name, encode_json(moment | more), Place(registry, row.epoch))


def _snapshot_event(
    before: SnapshotRow | None, row: SnapshotRow, registry: str, topics: Collection[str] | None = None
) -> WatchEvent:
    """Return the event of a snapshot: its moment, the changed tables, and the changed topics, None if not known."""
    known = before.versions if before else {}
    tables = sorted(name for name, version in row.versions.items() if known.get(name) != version)
    is_listed = before is not None and topics is not None and len(topics) <= _MAX_NAMED_TOPICS
    listed = sorted(topics or ()) if is_listed else None
    return _event("snapshot", row, registry, changedTables=tables, changedTopics=listed)


def _changed_tables(before: SnapshotRow, row: SnapshotRow) -> set[str]:
    """Return the tables of routes that a snapshot has changed."""
    return {name for name in _OF_ROUTES if before.versions[name] != row.versions[name]}


class Watcher:
    """The events of one watcher that are not sent yet. A watcher that reads too slowly is dropped, and may resume."""

    def __init__(self) -> None:
        self.ahead: Place | None = None
        """The place whose state the watcher has although its console is behind, None if it is not ahead."""
        self._pending: list[WatchEvent] = []
        self._bytes = 0
        self._has_some = asyncio.Event()
        self.is_dropped = False
        self.has_taken = False

    def push(self, event: WatchEvent) -> None:
        """Add an event, unless the watcher has its state already.

        If too many wait, replace all by the event `dropped`, which does not move the place to resume from.
        """
        if self.is_dropped or self._has_state_of(event):
            return
        self._pending.append(event)
        self._bytes += len(event.data)
        if self._bytes > MAX_PENDING_BYTES:
            self.drop("this watcher has read too slowly")
        self._has_some.set()

    def drop(self, reason: str) -> None:
        """Replace all waiting events by the event `dropped`, which is the watcher's last."""
        self.is_dropped = True
        told = encode_json({"reason": f"{reason}: connect again with Last-Event-ID"})
        self._pending = [WatchEvent("dropped", told)]
        self._has_some.set()

    def wait_for_newer_than(self, place: Place) -> None:
        """Leave out the events up to a place, those that wait too: the watcher has got that state elsewhere."""
        self.ahead = place
        self._pending = [event for event in self._pending if not self._has_state_of(event)]

    def _has_state_of(self, event: WatchEvent) -> bool:
        if self.ahead is None or event.place is None or event.place.registry != self.ahead.registry:
            return False
        is_reached = event.place == self.ahead and event.name == "progress"  # the connection needs an event at times
        return event.place.epoch <= self.ahead.epoch and not is_reached

    def take(self) -> list[WatchEvent]:
        """Return the events that wait."""
        taken, self._pending, self._bytes, self.has_taken = self._pending, [], 0, True
        self._has_some.clear()
        return taken

    async def wait(self) -> None:
        """Return when at least one event waits."""
        await self._has_some.wait()


class Subscription:
    """All watchers of the same topics, and the state they have received: a snapshot and the topics' routes as JSON."""

    def __init__(self, topics: Topics) -> None:
        """Subscribe to topics."""
        self.watchers: set[Watcher] = set()
        self._topics = topics
        self._at: RegistryAt | None = None
        self._routes: dict[str, bytes] = {}

    def event(self, view: RegistryAt) -> WatchEvent | None:
        """Return the event of a snapshot's changes, None if it changes nothing. The first event has the whole state."""
        before, self._at = self._at, view
        changed_topics = None if before is None else view.changed_topics(before)
        if not self._topics:
            return _snapshot_event(
                None if before is None else before.snapshot, view.snapshot, view.identity, changed_topics
            )
        if before is not None:
            tables = _changed_tables(before.snapshot, view.snapshot)
            if not tables:
                return None
            if tables == {"topic"} and changed_topics is not None and changed_topics.isdisjoint(self._topics):
                return None
        found = {topic: lookup.route(view.routes, topic, view.settings) for topic in self._topics}
        known = self._routes
        self._routes = {each: b"null" if route is None else bodies.encode_body(route) for each, route in found.items()}
        changed = {topic: Raw(route) for topic, route in self._routes.items() if known.get(topic) != route}
        return _event("route", view.snapshot, view.identity, routes=changed) if changed else None

    def reset(self, view: RegistryAt, reason: str) -> list[WatchEvent]:
        """Return a reset, after which watchers have to forget their state, and the event of the present state."""
        self._at, self._routes = None, {}
        told = encode_json({"reason": reason, "epoch": view.snapshot.epoch})
        return [WatchEvent("reset", told, Place(view.identity, view.snapshot.epoch)), *self.events(view)]

    def events(self, view: RegistryAt) -> list[WatchEvent]:
        """Return the event of a snapshot, if it has one."""
        event = self.event(view)
        return [] if event is None else [event]


class Hub:
    """All watchers. `limit` is the most of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._subscriptions: dict[Topics, Subscription] = {}
        self.view: RegistryAt | None = None
        """The snapshot up to which watchers have received events, None before the first."""
        self.has_view = asyncio.Event()

    @contextmanager
    def watching(self, topics: Topics) -> Iterator[Watcher]:
        """Attach a watcher of the events that come from now on. Raises RefusedError if too many are attached."""
        assert self.view is not None
        if len(self._watchers()) >= self._limit:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._limit} watchers are connected, which is the most. Ask another console.",
            )
        if topics not in self._subscriptions:
            self._subscriptions[topics] = Subscription(topics)
            self._subscriptions[topics].event(self.view)
        subscription, watcher = self._subscriptions[topics], Watcher()
        subscription.watchers.add(watcher)
        try:
            yield watcher
        finally:
            subscription.watchers.discard(watcher)
            if not subscription.watchers:
                self._subscriptions.pop(topics, None)

    def go_to(self, view: RegistryAt) -> None:
        """Send all watchers the changes of a view, or a reset if the view is not of the next epoch."""
        next_place = self.view and Place(self.view.identity, self.view.snapshot.epoch + 1)
        is_next, self.view = next_place == (view.identity, view.snapshot.epoch), view
        for each in self._subscriptions.values():
            events = each.events(view) if is_next else each.reset(view, "snapshots are missing in between")
            for watcher in each.watchers:
                for event in events:
                    watcher.push(event)
        self.has_view.set()

    async def send_progress(self) -> None:
        """Send all watchers, for ever, the epoch up to which they have received everything.

        This keeps connections open.
        """
        while True:
            await asyncio.sleep(PROGRESS_EVERY_S)
            if self.view is not None:
                event = _event("progress", self.view.snapshot, self.view.identity)
                for watcher in self._watchers():
                    watcher.push(event)

    def drop_all(self, reason: str) -> None:
        """Send all watchers their last event."""
        for watcher in self._watchers():
            watcher.drop(reason)

    def _watchers(self) -> list[Watcher]:
        return [watcher for each in self._subscriptions.values() for watcher in each.watchers]


def past_events(registry: Registry, topics: Topics, since: Place | None, until: RegistryAt) -> list[WatchEvent]:
    """Return the events after the place `since`, up to the epoch of `until`. May wait for the storage.

    Without a place return the present state. If the events are no longer known or the place is of another registry,
    return a reset and the present state. There are none after a later place than `until` that the tables have.
    """
    subscription = Subscription(topics)
    if since is None:
        return subscription.events(until)
    if since in ((until.identity, until.snapshot.epoch), ("", until.snapshot.epoch)):
        return []
    if since.registry not in ("", until.identity):
        reason = f"epoch {since.epoch} is of the registry {since.registry}, and this is {until.identity}"
        return subscription.reset(until, reason)
    if until.snapshot.epoch - since.epoch > MAX_REPLAYED:
        return subscription.reset(until, f"more than {MAX_REPLAYED} epochs came after epoch {since.epoch}")
    try:
        rows = [row for row in _rows_since(registry, since.epoch) if row.epoch <= until.snapshot.epoch]
        if not rows:
            return []
        if not topics:
            return [_snapshot_event(before, row, until.identity) for before, row in pairwise(rows)]
        subscription.event(registry.published(rows[0]))
        changing = [row for before, row in pairwise(rows) if _changed_tables(before, row)]
        return [event for row in changing for event in subscription.events(registry.published(row))]
    except NamesrvError as error:
        return subscription.reset(until, str(error))


def _rows_since(registry: Registry, epoch: int) -> list[SnapshotRow]:
    """Return the row of an epoch and those of all higher ones, lowest first. Raises SnapshotGoneError."""
    first, later = registry.read(lambda snapshots: (snapshots.find(epoch), snapshots.after(epoch)))
    if later and later[0].epoch != epoch + 1:
        raise SnapshotGoneError(f"epoch {epoch + 1}", later[0].epoch)
    return [first, *later]


class Watched(AnswerModel):
    """The first events after an epoch, and the registry and epoch for the next request."""

    registry: str
    epoch: int
    events: list[dict[str, Any]]


@dataclass(frozen=True)
class Watch:
    """One request to watch: the topics, and the place whose state its sender has, None for none."""

    hub: Hub
    registry: Registry
    topics: Topics
    since: Place | None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Watcher, list[WatchEvent]]]:
        """Yield the watcher, attached, and the events that come before the watcher's.

        The watcher is attached before the past is read up to that moment, so no event is missing or sent twice.
        """
        with self.hub.watching(self.topics) as watcher:
            view = self.hub.view
            assert view is not None
            if self.since is None:
                yield watcher, past_events(self.registry, self.topics, None, view)
                return
            past = await asyncio.to_thread(past_events, self.registry, self.topics, self.since, view)
            if not past and self.since.epoch > view.snapshot.epoch:
                watcher.wait_for_newer_than(Place(view.identity, self.since.epoch))
            yield watcher, past

    async def first(self, wait_s: float) -> Watched:
        """Return the first events, after `wait_s` at the latest, and the place for the next request."""
        async with self.opened() as (watcher, past):
            events = [*past, *_news(watcher)]
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while not events:
                        await watcher.wait()
                        events = _news(watcher)
            events += _news(watcher)
            view = self.hub.view
            assert view is not None
            place = Place(view.identity, view.snapshot.epoch)
            if watcher.ahead is not None and watcher.ahead.registry == place.registry:
                place = max(place, watcher.ahead)
            return Watched(*place, [{"event": event.name, "data": Raw(event.data)} for event in events])


def _news(watcher: Watcher) -> list[WatchEvent]:
    """Return the waiting events without `progress`, which only shows that nothing changed."""
    return [event for event in watcher.take() if event.name != "progress"]


class WatchResponse(Response):
    """The answer to a watch: an event stream that ends when its reader disconnects or reads too slowly."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the connection ends or takes no more bytes."""
        async with self._watch.opened() as (watcher, past):
            ways_to_end = (_send_all(watcher, past, send), _until_disconnected(receive))
            tasks = [asyncio.ensure_future(each) for each in ways_to_end]
            try:
                is_alive = True
                while is_alive:
                    watcher.has_taken = False
                    ended, _ = await asyncio.wait(tasks, timeout=TAKE_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
                    is_alive = not ended and watcher.has_taken
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _send_all(watcher: Watcher, past: Sequence[WatchEvent], send: Send) -> None:
    """Send the past events, then, again and again, all events that wait."""
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _RETRY + _joined(past), "more_body": True})
    is_last = False
    while not is_last:
        await watcher.wait()
        is_last = watcher.is_dropped
        await send({"type": "http.response.body", "body": _joined(watcher.take()), "more_body": not is_last})


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _joined(events: Sequence[WatchEvent]) -> bytes:
    """Return the text of events. The text of one event is the same bytes object for all watchers."""
    return b"".join(event.text for event in events)
