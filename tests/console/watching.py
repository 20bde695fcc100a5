"""Read the events of the console's watch, over one connection."""

import json
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import Request, urlopen

SILENCE_LIMIT_S = 60
"""The console sends its progress every 15 s."""


class WatchEvent(NamedTuple):
    """`place`: the Last-Event-ID with which to resume after this event."""

    name: str
    epoch: int | None
    data: dict[str, Any]
    place: str | None


def watch(console, topics=(), since=None, **query):
    """Yield the events but for progress, until the connection ends."""
    url = f"{console}/v1/watch?{urlencode([*query.items(), *(('topic', topic) for topic in topics)])}"
    headers = {} if since is None else {"Last-Event-ID": str(since)}
    with urlopen(Request(url, headers=headers), timeout=SILENCE_LIMIT_S) as stream:
        fields = {}
        for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
                continue
            if "data" in fields and fields["event"] != "progress":
                place = fields.get("id")
                epoch = int(place.rpartition("-")[2]) if place else None
                yield WatchEvent(fields["event"], epoch, json.loads(fields["data"]), place)
            fields = {}
