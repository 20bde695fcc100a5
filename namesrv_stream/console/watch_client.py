"""A client for the console's watch: an iterator of changes that resumes at its place after each lost connection.

for event in watch("http://127.0.0.1:9870", ["cart_changed"]):
        print(event.epoch, event.data["routes"])

Only Python's standard library is used.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from namesrv_stream.errors import NamesrvError

log = logging.getLogger(__name__)

SILENCE_LIMIT_S = 60.0
"""Silence after which a connection counts as lost. A console sends its progress every 15 s."""

_FIRST_PAUSE_S = 0.2
_MAX_PAUSE_S = 10.0


class WatchEvent(NamedTuple):
    """A change. `name` is `route`, `snapshot` or `reset`; after a reset the next event has the whole present state.

    `place` is the value of `since` with which to resume after this event.
    """

    name: str
    epoch: int | None
    data: dict[str, Any]
    place: str | None = None


def watch(console: str, topics: Iterable[str] = (), since: str | int | None = None) -> Iterator[WatchEvent]:
    """Yield changes of the topics' routes for ever; of all snapshots if there are no topics.

    `console`: the URL of a console. `since`: the place or the epoch whose state the caller has; with None the first
    event is the present state. For the place of another registry the first event is a reset. A lost connection is made
    again. Raises NamesrvError if the console refuses the watch; the same watch will be refused again.
    """
    url = f"{console.rstrip('/')}/v1/watch?{urlencode([('topic', topic) for topic in topics])}"
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            for event in _events(url, since):
                pause_s = _FIRST_PAUSE_S
                since = since if event.place is None else event.place
                if event.name not in ("progress", "dropped"):
                    yield event
        except HTTPError as error:
            if error.code < 500:
                message = error.read(2000).decode(errors="replace")
                raise NamesrvError(f"{url} answers {error.code}: {message}") from error
            log.info("%s answers %d: tried again in %.1f s", url, error.code, pause_s)
        except (OSError, HTTPException) as error:
            log.info("%s: %s: tried again in %.1f s", url, error, pause_s)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)


def _events(url: str, since: str | int | None) -> Iterator[WatchEvent]:
    """Yield the events of one connection."""
    headers = {"Accept": "text/event-stream"} | ({} if since is None else {"Last-Event-ID": str(since)})
    with urlopen(Request(url, headers=headers), timeout=SILENCE_LIMIT_S) as stream:
        fields: dict[str, str] = {}
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                place = fields.get("id")
                epoch = int(place.rpartition("-")[2]) if place else None
                yield WatchEvent(fields.get("event", "message"), epoch, json.loads(fields["data"]), place)
                fields = {}
            else:
                fields = {}
