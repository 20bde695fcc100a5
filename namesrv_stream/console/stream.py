"""Sends a watcher's events as Server-Sent Events, or waits for the first of them: a blocking query."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console.hub import Event, Hub, Moment, Place, Topics, Watcher, past_events, present_event
from namesrv_stream.console.kept_snapshots import KeptSnapshots
from namesrv_stream.wire.json_text import encode_json

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]

_RETRY = b"retry: 1000\n\n"


@dataclass(frozen=True)
class Watch:
    """One request to watch: the topics, and the place whose state its sender has, None for none."""

    hub: Hub
    snapshots: KeptSnapshots
    settings: NamesrvSettings
    topics: Topics
    since: Place | None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Watcher, list[Event]]]:
        """Yield the watcher, attached, and the events that come before the watcher's.

        Attached first, then the past up to that moment: no event is missing between the two, and none is there twice.
        """
        watcher = self.hub.attach(self.topics)
        view = self.hub.view
        assert view is not None
        try:
            if self.since is None:
                yield watcher, [present_event(Moment(view, self.settings), self.topics)]
            elif self.since in ((view.registry, view.snapshot.epoch), ("", view.snapshot.epoch)):
                yield watcher, []
            else:
                past = asyncio.to_thread(past_events, self.snapshots, self.settings, self.topics, self.since, view)
                yield watcher, await past
        finally:
            self.hub.detach(self.topics, watcher)

    async def first(self, wait_s: float) -> bytes:
        """Return the first events as JSON, `wait_s` later at the latest, with the epoch from which to ask next."""
        async with self.opened() as (watcher, past):
            events = [*past, *_news(watcher)]
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while not events:
                        await watcher.wait()
                        events = _news(watcher)
            return _joined(events or _news(watcher), self.hub)


class WatchResponse(Response):
    """The answer to a watch: an event stream that ends when its reader goes, or has read too slowly."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the connection ends."""
        async with self._watch.opened() as (watcher, events):
            ways_to_end = (_send_all(watcher, events, send), _until_disconnected(receive), watcher.is_stuck.wait())
            tasks = [asyncio.ensure_future(each) for each in ways_to_end]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _send_all(watcher: Watcher, events: Sequence[Event], send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _RETRY, "more_body": True})
    await _send(send, events)
    while not watcher.is_dropped:
        await watcher.wait()
        await _send(send, watcher.take())
    await _send(send, watcher.take())
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, events: Sequence[Event]) -> None:
    """Send events at once. One alone is the same bytes object for all watchers."""
    if events:
        body = events[0].text if len(events) == 1 else b"".join(event.text for event in events)
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _news(watcher: Watcher) -> list[Event]:
    """Return the events that wait, but for `progress`, which says that there is none."""
    return [event for event in watcher.take() if event.name != "progress"]


def _joined(events: Sequence[Event], hub: Hub) -> bytes:
    shown = [{"event": event.name, "data": msgspec.Raw(event.data)} for event in events]
    return encode_json({"registry": hub.registry, "epoch": hub.epoch, "events": shown})
