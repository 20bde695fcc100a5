"""The HTTP API. Every answer about the tables is made from one snapshot and names it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request, Response

from namesrv_stream import __version__
from namesrv_stream.config.values import parsed_duration
from namesrv_stream.console import answers, periods
from namesrv_stream.console.commands import MAX_BODY_BYTES, OperatorCommand
from namesrv_stream.console.hub import Place, route_json
from namesrv_stream.console.moments import moment_up_to, span_up_to, time_at, time_ms
from namesrv_stream.console.problems import BadQuestionError, NoSuchNameError
from namesrv_stream.console.running import Running
from namesrv_stream.console.stream import Watch, WatchResponse
from namesrv_stream.errors import did_you_mean
from namesrv_stream.history.events import AsOf, newest_events, recorded_names
from namesrv_stream.history.fields import snapshot_fields
from namesrv_stream.history.story import story_of, topic_story
from namesrv_stream.history.topics import topic_history
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.reader import RegistryView
from namesrv_stream.texts import iso_text
from namesrv_stream.wire.json_text import encode_json

MOST_WAIT_S = 300.0
_MOST_WATCHED = 100
_ZONE = "A time without a zone is in that of the console's machine."
MOST_SUGGESTED = 2_000
"""Most topics among which the nearest name is looked for."""

_COMMAND_SCHEMAS, _COMMAND_PARTS = msgspec.json.schema_components(
    [OperatorCommand], ref_template="#/components/schemas/{name}"
)
COMPONENTS: dict[str, Any] = _COMMAND_PARTS
"""Schemas of the commands, for the description of the API."""

router = APIRouter(prefix="/v1")


def _running(request: Request) -> Running:
    running: Running = request.app.state.running
    return running


def _moment(
    epoch: Annotated[int | None, Query(ge=1, description="As it was in this epoch.")] = None,
    at: Annotated[
        str | None,
        Query(description=f"As it was at this event time: 2026-11-21T03:12:00Z, 03:12, 10m, 2h ago. {_ZONE}"),
    ] = None,
) -> AsOf:
    if epoch is not None and at is not None:
        raise BadQuestionError("epoch and at both name a moment: give one of them.")
    return AsOf(epoch, None if at is None else time_ms(at, datetime.now(UTC)))


Console = Annotated[Running, Depends(_running)]
Moment = Annotated[AsOf, Depends(_moment)]
Limit = Annotated[int, Query(ge=1, le=answers.MOST_LISTED, description="Most items of the answer.")]
After = Annotated[str, Query(description="Begin behind this item: `next` of the page before.")]
Since = Annotated[str | None, Query(description=f"From this event time on: 2026-11-21T03:12:00Z, 03:12, 10m. {_ZONE}")]
Until = Annotated[str | None, Query(description=f"Up to this event time. {_ZONE}")]
Name = Annotated[str, Path(min_length=1, max_length=1000)]


@dataclass(frozen=True)
class Question:
    """A request about a moment."""

    console: Console
    request: Request
    moment: Moment

    def answer(self, compute: Callable[[RegistryView], object], *, oldest: SnapshotRow | None = None) -> Response:
        """Answer from memory if this was asked before, and with 304 if the sender has the answer.

        `oldest`: the oldest snapshot that can be read, if the answer depends on it too.
        """
        row, request = self.console.row(self.moment), self.request
        begin = "" if oldest is None else f"{oldest.epoch}-"
        etag = f'"{begin}{row.epoch}-{row.published_at:x}-{__version__}"'
        headers = {"etag": etag, "cache-control": "no-cache", "x-registry-epoch": str(row.epoch)}
        known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
        if etag in known:
            return Response(status_code=304, headers=headers)
        asked = sorted(each for each in request.query_params.multi_items() if each[0] not in ("epoch", "at"))
        about = (begin, request.url.path, tuple(asked))
        body = self.console.snapshots.answer(row, about, lambda: encode_json(compute(self.console.view(row))))
        return Response(body, media_type="application/json", headers=headers)


Asked = Annotated[Question, Depends()]


@router.get("/overview", summary="A moment at a glance: clusters, who is gone, the last hour's events")
def overview(asked: Asked) -> Response:
    """Return clusters with their brokers, brokers that are gone, and the last hour's events."""
    return asked.answer(lambda view: answers.overview(asked.console.root, view))


@router.get("/topics", summary="All topics, by name")
def topics(asked: Asked, limit: Limit = 100, after: After = "", q: str = "") -> Response:
    """Return topics in order of their names; with `q` only those whose name contains it."""
    return asked.answer(lambda view: answers.topic_page(view, limit=limit, after=after, containing=q))


@router.get("/topics/{topic:path}", summary="The route of a topic, as clients get it")
def topic(asked: Asked, topic: Name, zone: str | None = None) -> Response:
    """Return RocketMQ's TopicRouteData in `route`, and the leases of the route's brokers."""

    def compute(view: RegistryView) -> dict[str, Any]:
        route = route_json(view, asked.console.in_force(view), topic, zone)
        if route == b"null":
            queues = view.routes.queues
            advice = did_you_mean(topic, queues) if len(queues) <= MOST_SUGGESTED else ""
            raise NoSuchNameError("topic with a route", topic, view.snapshot.epoch, advice)
        names = {row.broker_name for row in view.routes.queues[topic]}
        leases = [lease for lease in view.routes.live.values() if lease.broker_name in names]
        brokers = [answers.lease_fields(view, lease) for lease in sorted(leases)]
        shown = answers.moment_fields(view.snapshot)
        return {"snapshot": shown, "topic": topic, "route": msgspec.Raw(route), "brokers": brokers}

    return asked.answer(compute)


@router.get("/brokers", summary="Every broker address with a lease")
def brokers(asked: Asked, limit: Limit = 100, after: After = "") -> Response:
    """Return leases in order of their addresses."""
    return asked.answer(lambda view: answers.brokers_page(view, limit=limit, after=after))


@router.get("/brokers/{name:path}", summary="One broker name or address")
def broker(asked: Asked, name: Name, limit: Limit = 200) -> Response:
    """Return the leases of a broker name or address, and its topics. A broker that is gone has none of both."""

    def compute(view: RegistryView) -> dict[str, Any]:
        lease = view.routes.live.get(name)
        broker_name = lease.broker_name if lease else name
        leases = answers.brokers_page(view, limit=answers.MOST_LISTED, name=broker_name)["brokers"]
        shown = [each for each in leases if lease is None or each["brokerAddr"] == name]
        if not shown and broker_name not in view.routes.brokers:
            _check_known(asked.console, view, name)
        return {
            "snapshot": answers.moment_fields(view.snapshot),
            "brokerName": broker_name,
            "brokers": shown,
            **answers.topics_of_broker(view, broker_name, limit),
        }

    return asked.answer(compute)


def _check_known(console: Running, view: RegistryView, name: str) -> None:
    ever = recorded_names(console.root, view.snapshot)
    if name not in ever:
        raise NoSuchNameError("broker", name, view.snapshot.epoch, did_you_mean(name, ever))


@router.get("/clusters", summary="Clusters, their broker names, and who holds each id")
def clusters(asked: Asked) -> Response:
    """Return all clusters."""
    return asked.answer(
        lambda view: {"snapshot": answers.moment_fields(view.snapshot), "clusters": answers.clusters(view)},
    )


@router.get("/events", summary="Lines of the history, newest last, each with its sentence")
def events(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    broker: Annotated[str | None, Query(description="Only of this broker name or address.")] = None,
    topic: Annotated[str | None, Query(description="Only of this topic.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
) -> Response:
    """Return the newest events up to the moment; go further back with `until`."""

    def compute(view: RegistryView) -> dict[str, Any]:
        row = view.snapshot
        span = span_up_to(row, since, until)
        if topic is None:
            lines = newest_events(asked.console.root, row, broker, span, limit)
        else:
            lines = topic_history(asked.console.root, row, topic, span).lines[-limit:]
        return {"snapshot": answers.moment_fields(row), "events": [answers.told(line) for line in lines]}

    return asked.answer(compute)


@router.get("/why/{name:path}", summary="The story of a broker or a topic, in sentences")
def why(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    name: Name,
    since: Since = None,
    until: Until = None,
    is_topic: Annotated[
        bool, Query(alias="topic", description="Take the name for a topic also where a broker has it.")
    ] = False,
    limit: Limit = answers.MOST_LISTED,
) -> Response:
    """Return the newest sentences, newest last."""

    def compute(view: RegistryView) -> dict[str, Any]:
        row, queues = view.snapshot, view.routes.queues
        span = span_up_to(row, since, until)
        story = (topic_story if is_topic else story_of)(asked.console.root, row, name, span, queues)
        if story is None:
            advice = did_you_mean(name, recorded_names(asked.console.root, row)) if not is_topic else ""
            raise NoSuchNameError("topic" if is_topic else "broker or topic", name, row.epoch, advice)
        told = [{"epoch": each.epoch, "eventTime": iso_text(each.event_time), "text": each.text} for each in story]
        return {
            "snapshot": answers.moment_fields(row),
            "name": name,
            "total": len(told),
            "sentences": told[-limit:],
        }

    return asked.answer(compute)


@router.get("/diff", summary="What changed between two moments")
def diff(
    asked: Asked,
    before: Annotated[str, Query(alias="from", description="An epoch or an event time.")],
    after: Annotated[
        str | None, Query(alias="to", description="An epoch or an event time; without it the moment of epoch or at.")
    ] = None,
    limit: Limit = answers.MOST_LISTED,
) -> Response:
    """Return the rows of each table that were added, removed or changed, up to the moment of epoch or at."""

    def compute(view: RegistryView) -> dict[str, Any]:
        row = view.snapshot
        found = asked.console.snapshots.compare(moment_up_to(row, before), moment_up_to(row, after))
        differences = [each._asdict() for each in found.diff.differences[:limit]]
        total = len(found.diff.differences)
        return found.fields() | {"differences": differences, "total": total, "epochs": found.epochs}

    return asked.answer(compute)


@router.get("/snapshots", summary="The published snapshots that can be read, newest first")
def snapshots(asked: Asked, limit: Limit = 20) -> Response:
    """Return snapshot rows up to the moment."""
    oldest = asked.console.snapshots.oldest()

    def compute(view: RegistryView) -> dict[str, Any]:
        rows = asked.console.snapshots.newest_first(limit, view.snapshot.epoch)
        return {"oldestEpoch": oldest.epoch, "snapshots": [snapshot_fields(row) for row in rows]}

    return asked.answer(compute, oldest=oldest)


@router.get("/timeline", summary="The moments at which something changed, as marks along a track")
def timeline(
    asked: Asked,
    since: Since = "24h",
    until: Until = None,
    above: Annotated[int, Query(ge=0, description="Only epochs above this one.")] = 0,
) -> Response:
    """Return marks with the numbers of events by kind. Between two marks nothing changed but signs of life.

    A mark with `epochs` stands for that many of them, from `firstEpoch` to `epoch`. To get their own marks ask with
    `epoch` and with `above`, which is below `firstEpoch` by one.
    """
    oldest = asked.console.snapshots.oldest()

    def compute(view: RegistryView) -> dict[str, Any]:
        row = view.snapshot
        since_ms = max(time_at(since, row) or 0, oldest.event_time or oldest.published_at)
        marks = periods.timeline(asked.console.root, row, since_ms, time_at(until, row), above)
        return {
            "snapshot": answers.moment_fields(row),
            "oldest": answers.moment_fields(oldest),
            "since": iso_text(since_ms),
            "marks": marks,
        }

    return asked.answer(compute, oldest=oldest)


@router.get("/churn", summary="Sessions of brokers, who flapped, outages of several at once, rejected records")
def churn(asked: Asked, since: Since = "24h", broker: str | None = None) -> Response:
    """Return the sessions since a time, up to the moment; with `broker` only those of a broker name or address."""

    def compute(view: RegistryView) -> dict[str, Any]:
        return periods.churn(asked.console.root, view.snapshot, time_at(since, view.snapshot) or 0, broker)

    return asked.answer(compute)


@router.get("/status", summary="Whether the job runs, and how far behind the tables are")
def status(console: Console) -> Response:
    """Return the state of the job as the newest snapshot shows it now."""
    return Response(encode_json(console.status()), media_type="application/json", headers={"cache-control": "no-store"})


@router.get("/watch", summary="Changes as Server-Sent Events, or the next of them", response_class=Response)
async def watch(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    console: Console,
    request: Request,
    topic: Annotated[list[str], Query(description="Repeatable; without it every snapshot is an event.")] = [],  # noqa: B006  # FastAPI copies it
    epoch: Annotated[int | None, Query(ge=0, description="The epoch whose state you have; see Last-Event-ID.")] = None,
    registry: Annotated[
        str, Query(description="The registry of that epoch, as the answers name it; another one gets a reset.")
    ] = "",
    wait: Annotated[
        str | None,
        Query(description="Answer once, with the first events after `epoch`, this time later at the latest."),
    ] = None,
) -> Response:
    """Send an event for each epoch that changes a route of the topics, from the epoch on whose state the sender has."""
    if len(topic) > _MOST_WATCHED:
        raise BadQuestionError(f"one watcher may watch {_MOST_WATCHED} topics: open several.")
    await console.await_snapshot()
    console.hub.check_room()
    # The header wins: a browser that reconnects sends the first URL again.
    since = Place.parsed(request.headers.get("last-event-id", ""))
    if since is None and epoch is not None:
        since = Place(registry, epoch)
    watching = Watch(console.hub, console.snapshots, console.settings, tuple(sorted(set(topic))), since)
    if wait is None:
        return WatchResponse(watching)
    body = await watching.first(_wait_s(wait))
    return Response(body, media_type="application/json", headers={"cache-control": "no-store"})


def _wait_s(text: str) -> float:
    try:
        wait = parsed_duration(text)
    except ValueError as error:
        raise BadQuestionError(f"wait={text[:100]}: {error}") from error
    assert isinstance(wait, timedelta)
    return min(wait.total_seconds(), MOST_WAIT_S)


@router.post(
    "/commands",
    status_code=202,
    summary="Send an operator command",
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _COMMAND_SCHEMAS[0]}}}},
)
async def command(
    console: Console,
    request: Request,
    wait: str | None = None,
    unknown: Annotated[
        bool, Query(description="Put an order configuration although it names brokers that the registry does not have.")
    ] = False,
) -> Response:
    """Send a record of the Kafka contract, with a reason, which the history keeps; `wait` until it is published."""
    wait_s = 0.0 if wait is None else _wait_s(wait)
    parsed = console.commands.parsed(await _body(request))
    if not unknown:
        console.check_brokers(parsed)
    peer = f"{request.client.host}:{request.client.port}" if request.client else "unknown"
    allowed = await asyncio.to_thread(console.commands.admitted, parsed, request.headers.get("authorization"), peer)
    at = await console.commands.sent(allowed)
    epoch = await console.published(at, wait_s) if wait_s else None
    fields = {"partition": at.partition, "offset": at.offset, "epoch": epoch, "requestedBy": allowed.requested_by}
    return Response(encode_json(fields), 202, media_type="application/json")


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise BadQuestionError(f"a command has at most {MAX_BODY_BYTES} bytes.")
    return bytes(body)
