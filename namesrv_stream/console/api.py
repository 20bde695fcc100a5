"""The HTTP API: questions about any moment, the state of the job now, pushed changes, commands.

Every answer about the tables is made from one snapshot and names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property, wraps
from http import HTTPStatus
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from msgspec import Struct

from namesrv_stream import __version__
from namesrv_stream.answers import accounts, broker_page, job_status, lists, overview, periods
from namesrv_stream.answers import topics as of_topics
from namesrv_stream.answers.causes import State
from namesrv_stream.answers.command_sending import (
    OperatorCommand,
    check_names,
    check_reason,
    check_retirement,
    checked_order,
    outcome,
    parsed_order,
    send_order,
)
from namesrv_stream.answers.definitions import TopicState
from namesrv_stream.answers.events import Span
from namesrv_stream.answers.lists import Chosen
from namesrv_stream.answers.subject import (
    MAX_LISTED,
    BadQuestionError,
    Fields,
    Seen,
    day_begin,
    is_still_to_come,
    moment_up_to,
    span_up_to,
    time_at,
    time_ms,
    zone_named,
)
from namesrv_stream.answers.verdict import Doubt
from namesrv_stream.config.values import parsed_duration
from namesrv_stream.console.guard import PROXY_USER, peer_text
from namesrv_stream.console.hub import Place, Watch, Watched, WatchResponse
from namesrv_stream.console.problems import OF_ALL, OF_MOMENTS, RefusedError, problems, shape
from namesrv_stream.console.running import Running
from namesrv_stream.errors import did_you_mean
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.as_of import AsOf, Past
from namesrv_stream.wire.json_text import encode_json

MAX_BODY_BYTES = 64 * 1024
MAX_WAIT_S = 300.0
_MAX_WATCHED = 100

_FORMS = (
    "2026-11-21T03:12:00Z, 2026-11-21, 03:12, 10m, 2h ago. A time without a zone is in tz, or else in UTC. A date is "
    "the begin of that day in `since` and `from`, its end otherwise."
)


def check_parameters(request: Request) -> None:
    """Refuse a parameter that the path does not have, so that a misspelt `epoch` is not answered with the present."""
    described = request.app.openapi()["paths"].get(request.scope["route"].path_format, {})
    about = described.get(request.method.lower(), {})
    known = [each["name"] for each in about.get("parameters", ()) if each["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            advice = did_you_mean(name, known) or (f"Accepted are {', '.join(known)}. " if known else "It has none. ")
            raise BadQuestionError(f"{name[:100]!r} is no parameter of this path. {advice}/docs describes all.")


def _running(request: Request) -> Running:
    running: Running = request.app.state.running
    return running


def _zone(
    tz: Annotated[
        str | None,
        Query(description="Zone of times without one: Europe/Berlin; else UTC."),
    ] = None,
) -> tzinfo:
    return zone_named(tz)


Zone = Annotated[tzinfo, Depends(_zone)]


def _moment(
    zone: Zone,
    epoch: Annotated[int | None, Query(ge=1, description="As it was in this epoch.")] = None,
    at: Annotated[str | None, Query(description=f"As it was at this event time: {_FORMS}")] = None,
) -> AsOf:
    if epoch is not None and at is not None:
        raise BadQuestionError("epoch and at both name a moment: give one of them.")
    now = datetime.now(UTC)
    at_ms = None if at is None else time_ms(at, now, zone)
    if at_ms is not None and is_still_to_come(at_ms, now):
        raise BadQuestionError(f"at={str(at)[:100]}: that time is still to come. Leave `at` out to ask about now.")
    return AsOf(epoch, at_ms)


Console = Annotated[Running, Depends(_running)]
Moment = Annotated[AsOf, Depends(_moment)]
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED, description="Most items of the answer.")]
After = Annotated[str, Query(description="Begin behind this item: `next` of the page before.")]
Since = Annotated[str | None, Query(description=f"From this event time on: {_FORMS}")]
Until = Annotated[str | None, Query(description="Up to this event time.")]
OfBroker = Annotated[str | None, Query(min_length=1, description="Only of this broker name or address.")]
OfTopic = Annotated[str | None, Query(min_length=1, description="Only of this topic.")]
Name = Annotated[str, Path(min_length=1, max_length=1000)]


def _chosen(
    cluster: Annotated[str | None, Query(min_length=1, description="Only of this cluster.")] = None,
    zone: Annotated[str | None, Query(description="Only of this zone; empty: only those without one.")] = None,
    q: Annotated[str, Query(description="Only those whose name or address contains this text.")] = "",
) -> Chosen:
    return Chosen(cluster, zone, q)


Wanted = Annotated[Chosen, Depends(_chosen)]


@dataclass(frozen=True)
class Question:
    """A request about a moment. Its properties may wait for the storage."""

    console: Console
    request: Request
    moment: Moment
    zone: Zone

    @cached_property
    def past(self) -> Past:
        """The registry as of the moment."""
        return self.console.kept.past(self.moment)

    @property
    def row(self) -> SnapshotRow:
        """The row of the moment."""
        return self.past.snapshot

    @cached_property
    def oldest(self) -> SnapshotRow:
        """The oldest snapshot that can be read."""
        return self.console.kept.read(lambda reader: reader.snapshots.oldest_readable())

    @cached_property
    def seen(self) -> Seen:
        """The subject of questions about the moment."""
        return self.console.kept.seen(self.past)

    @cached_property
    def doubt(self) -> Doubt | None:
        """Why the present is not known; None for a past moment."""
        return None if self.past.is_made else self.console.doubt

    def answer(self, compute: Callable[[], Struct], *, with_oldest: bool, with_doubt: bool) -> Response:
        """Return the answer: from memory if it was asked for before, and 304 if the sender has it already."""
        row, request = self.row, self.request
        begin = f"{self.oldest.epoch}-" if with_oldest else ""
        begin += "".join(f"{each}-".replace(" ", "_") for each in self.doubt or ()) if with_doubt else ""
        etag = f'"{begin}{row.epoch}-{row.event_time or 0:x}-{row.published_at:x}-{__version__}"'
        headers = {"etag": etag, "x-registry-epoch": str(row.epoch)}
        known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
        if etag in known:
            return Response(status_code=304, headers=headers)
        asked = (etag, request.url.path, request.url.query)
        body = self.console.kept.answer(asked, lambda: encode_json(compute()))
        return Response(body, media_type="application/json", headers=headers)

    def span(self, since: str | None, until: str | None) -> Span:
        """Return the stretch between two parameters, which are relative to the moment."""
        return span_up_to(self.row, since, until, self.zone)


Asked = Annotated[Question, Depends()]
ANSWERS: dict[str, type[Struct]] = {}
"""Path -> the type of its answer."""

Compute = TypeVar("Compute", bound=Callable[..., Struct])

router = APIRouter(prefix="/v1", responses=OF_ALL)
TAGS = {
    "moments": "Questions about any moment: epoch or at.",
    "present": "The job now, and changes as they come.",
    "commands": "What operators change. accessKey and secretKey, if the registry asks for them.",
}
"""Tag of paths -> its description."""


def _described(path: str, kind: type[Struct], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return the description of a path's answer."""
    ANSWERS["/v1" + path.replace(":path", "")] = kind
    return {status: shape(kind)}


def question(
    path: str, summary: str, *, with_oldest: bool = False, with_doubt: bool = False
) -> Callable[[Compute], Compute]:
    """Return a decorator that serves a function's answers at a path. Its first parameter is `asked`.

    `with_oldest`: the answer also depends on the oldest snapshot that can be read. `with_doubt`: also on the job.
    """

    def decorate(compute: Compute) -> Compute:
        @wraps(compute)
        def answer(asked: Question, **parameters: object) -> Response:
            return asked.answer(lambda: compute(asked, **parameters), with_oldest=with_oldest, with_doubt=with_doubt)

        responses = OF_MOMENTS | _described(path, get_type_hints(compute)["return"])
        router.add_api_route(path, answer, summary=summary, responses=responses, response_model=None, tags=["moments"])
        return compute

    return decorate


@question("/overview", "A moment at a glance: the verdict, clusters and zones, the last hour's events", with_doubt=True)
def at_a_glance(asked: Asked) -> overview.Overview:
    """Return what is wrong, in a sentence and by causes, clusters and zones as numbers, and the last hour's events."""
    return overview.overview(asked.seen, asked.doubt)


@question("/topics", "All topics with their states, those without a route too")
def topics(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    wanted: Wanted,
    limit: Limit = 100,
    after: After = "",
    system: Annotated[bool, Query(description="With the topics that brokers make by themselves.")] = True,
    state: Annotated[
        TopicState | Literal["left"] | None,
        Query(description="Only those in this state. left: those that went within 7 days and are not expected."),
    ] = None,
    sort: Annotated[str, Query(description=f"One of {of_topics.ORDERS}; with - the other way.")] = "name",
) -> of_topics.Topics:
    """Return topics; `cluster` and `zone` choose those on a broker name there, with the queues there."""
    return of_topics.topics(
        asked.seen,
        wanted.cluster,
        wanted.zone,
        state,
        sort,
        containing=wanted.containing,
        with_system=system,
        limit=limit,
        after=after,
    )


@question("/topics/{topic:path}", "The route of a topic, as clients get it")
def topic(
    asked: Asked, topic: Name, zone: Annotated[str | None, Query(description="As a client of this zone.")] = None
) -> of_topics.Route:
    """Return the topic's verdict, RocketMQ's TopicRouteData in `route`, and the brokers of its broker names."""
    return of_topics.route(asked.seen, topic, zone)


@question("/brokers", "Every broker address with a lease, and every broker that is down")
def brokers(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    wanted: Wanted,
    limit: Limit = 100,
    after: After = "",
    sort: Annotated[str, Query(description=f"One of {lists.ORDERS}; with - the other way.")] = "address",
    state: Annotated[State | None, Query(description="Only those in this state.")] = None,
) -> lists.Brokers:
    """Return brokers; addresses and names are in natural order, a-2 before a-10."""
    return lists.brokers(asked.seen, wanted, state, sort, limit=limit, after=after)


@question("/brokers/{name:path}", "One broker name or address")
def broker(asked: Asked, name: Name, limit: Limit = 200, after: After = "") -> broker_page.BrokerPage:
    """Return the leases of a broker name or address, and its topics. A broker that is gone has neither."""
    return broker_page.broker_page(asked.seen, name, limit=limit, after=after)


@question("/clusters", "Clusters, their broker names, and who holds each id")
def clusters(asked: Asked) -> lists.Clusters:
    """Return all clusters."""
    return lists.clusters(asked.seen)


@question("/events", "Lines of the history, newest last, each with its sentence")
def events(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    broker: OfBroker = None,
    topic: OfTopic = None,
    kind: Annotated[list[str], Query(alias="type", description="Only of this type, such as EXPIRED; repeatable.")] = [],  # noqa: B006  # FastAPI copies it
    since: Since = None,
    until: Until = None,
    before: Annotated[
        str | None, Query(pattern=r"^\d{1,15}\.\d{1,15}$", description="Before this place: `next` of the page before.")
    ] = None,
    limit: Limit = 100,
) -> accounts.Events:
    """Return the newest events up to the moment; go further back with `before` or `until`."""
    epoch, _, seq = (before or "").partition(".")
    below = None if before is None else (int(epoch), int(seq))
    return accounts.events(asked.seen, broker, topic, asked.span(since, until), kind, limit=limit, below=below)


@question("/why/{name:path}", "The story of a broker or a topic, in sentences")
def why(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    name: Name,
    since: Since = None,
    until: Until = None,
    is_topic: Annotated[
        bool, Query(alias="topic", description="Take the name for a topic also where a broker has it.")
    ] = False,
    before: Annotated[int | None, Query(ge=0, description="Before this place: `next` of the page before.")] = None,
    limit: Limit = MAX_LISTED,
) -> accounts.Story:
    """Return the newest sentences, newest last."""
    return accounts.why(asked.seen, name, asked.span(since, until), is_topic=is_topic, limit=limit, below=before)


@question("/diff", "What changed between two moments")
def diff(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    start: Annotated[str, Query(alias="from", description="An epoch or an event time.")],
    end: Annotated[
        str | None, Query(alias="to", description="An epoch or an event time; without it the moment of epoch or at.")
    ] = None,
    table: Annotated[str | None, Query(description="Only the rows of this table.")] = None,
    limit: Limit = MAX_LISTED,
    after: Annotated[int, Query(ge=0, description="Begin behind so many differences: `next` of the page before.")] = 0,
) -> accounts.Diff:
    """Return the rows of each table that were added, removed or changed, up to the moment of epoch or at."""
    first, last = (moment_up_to(asked.row, text, asked.zone) for text in (day_begin(start), end))
    return accounts.diff(asked.console.kept.compare(first, last), table, limit=limit, after=after)


@question("/snapshots", "The published snapshots, newest first", with_oldest=True)
def snapshots(asked: Asked, limit: Limit = 20) -> accounts.Snapshots:
    """Return snapshot rows up to the moment; go further back with `next` as `epoch`."""
    rows = asked.console.kept.read(lambda reader: reader.snapshots.readable(limit + 1, asked.row.epoch))
    return accounts.snapshots(rows, asked.oldest, limit)


@question("/timeline", "The moments at which something changed, as marks along a track", with_oldest=True)
def timeline(
    asked: Asked,
    since: Since = "24h",
    until: Until = None,
    above: Annotated[int, Query(ge=0, description="Only epochs above this one.")] = 0,
) -> periods.Timeline:
    """Return marks with the numbers of events by kind. Between two marks nothing changed but signs of life.

    A mark with `epochs` stands for that many of them, from `firstEpoch` to `epoch`. To get their own marks ask with
    `epoch` and with `above`, which is below `firstEpoch` by one.
    """
    since_ms = max(time_at(since, asked.row, asked.zone, is_begin=True) or 0, asked.oldest.event_time or 0)
    until_ms = time_at(until, asked.row, asked.zone)

    def event_times(first: int, last: int) -> dict[int, int]:
        return asked.console.kept.read(lambda reader: reader.snapshots.event_times(first, last))

    return periods.timeline(asked.seen, asked.oldest, event_times, since_ms, until_ms, above)


@question("/churn", "Sessions of brokers, who flapped, outages of several at once, rejected records")
def churn(asked: Asked, since: Since = "24h", broker: OfBroker = None) -> periods.Churn:
    """Return the sessions since a time, up to the moment."""
    return periods.churn(asked.seen, time_at(since, asked.row, asked.zone, is_begin=True) or 0, broker)


class Sent(Fields):
    """A command that Kafka has; `epoch` shows its effect, null if none does yet."""

    partition: int
    offset: int
    epoch: int | None
    requested_by: str | None


def _of_now(answer: Struct, status: int = 200) -> Response:
    """Return an answer about the present, which no cache may keep."""
    return Response(encode_json(answer), status, {"cache-control": "no-store"}, "application/json")


@router.get(
    "/status",
    summary="Whether the job runs, and how far behind the tables are",
    responses=_described("/status", job_status.Status),
    tags=["present"],
)
def status(console: Console) -> Response:
    """Return the state of the job as the newest snapshot shows it now."""
    return _of_now(console.status())


_WATCHED = _described("/watch", Watched)
_WATCHED[200]["content"]["text/event-stream"] = {"schema": {"type": "string"}}


@router.get(
    "/watch", summary="Changes as Server-Sent Events, or the next of them", responses=_WATCHED, tags=["present"]
)
async def watch(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    console: Console,
    request: Request,
    topic: Annotated[list[Name], Query(description="Repeatable; without it every snapshot is an event.")] = [],  # noqa: B006  # FastAPI copies it
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
    if len(topic) > _MAX_WATCHED:
        raise BadQuestionError(f"one watcher may watch {_MAX_WATCHED} topics: open several.")
    await console.await_snapshot()
    # The header wins: a browser that reconnects sends the first URL again.
    since = Place.parsed(request.headers.get("last-event-id", ""))
    if since is None and epoch is not None:
        since = Place(registry, epoch)
    watching = Watch(console.hub, console.kept, tuple(sorted(set(topic))), since)
    return WatchResponse(watching) if wait is None else _of_now(await watching.first(_wait_s(wait)))


def _wait_s(text: str) -> float:
    try:
        wait = parsed_duration(text)
    except ValueError as error:
        raise BadQuestionError(f"wait={text[:100]}: {error}") from error
    assert isinstance(wait, timedelta)
    return min(wait.total_seconds(), MAX_WAIT_S)


_UNKNOWN = "A broker, topic, cluster or value is not there and `unknown` is not set, or a broker to retire is up."


@router.post(
    "/commands",
    status_code=HTTPStatus.ACCEPTED,
    summary="Send an operator command",
    responses=_described("/commands", Sent, HTTPStatus.ACCEPTED) | problems({HTTPStatus.CONFLICT: _UNKNOWN}),
    openapi_extra={"requestBody": {"required": True} | shape(OperatorCommand), "security": [{"keys": []}, {}]},
    tags=["commands"],
)
async def command(
    console: Console,
    request: Request,
    wait: str | None = None,
    unknown: Annotated[bool, Query(description="Send it although the registry does not have what it names.")] = False,
) -> Response:
    """Send a record of the Kafka contract, with a reason, which the history keeps; `wait` until it is published."""
    wait_s = 0.0 if wait is None else _wait_s(wait)
    parsed = parsed_order(await _body(request))
    check_reason(parsed.reason)
    parsed = checked_order(console.settings, parsed)
    peer, proxy_user = peer_text(request.scope["client"]), request.scope[PROXY_USER]
    authorization = request.headers.get("authorization")
    allowed = await asyncio.to_thread(console.admission.admitted, parsed, authorization, peer, proxy_user)
    if not unknown:
        await console.await_snapshot("?unknown=true sends it unchecked.")
    before = console.kept.newest
    if before is not None:
        check_retirement(parsed, before.routes)
        if not unknown:
            seen = Seen.of(console.kept.root, before, console.settings)
            await asyncio.to_thread(check_names, parsed, seen, "?unknown=true")
    at = await asyncio.to_thread(send_order, console.settings, allowed)
    epoch = await console.published(at, wait_s) if wait_s else None
    if epoch is not None and console.kept.newest is not None:
        last = before.snapshot.epoch if before else 0
        await asyncio.to_thread(outcome, parsed, console.kept.root, console.kept.newest.snapshot, at, last)
    return _of_now(Sent(at.partition, at.offset, epoch, allowed.requested_by), HTTPStatus.ACCEPTED)


async def _body(request: Request) -> bytes:
    """Return the body. A page of another origin sends no JSON without asking first, which nobody answers."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        told = "send the body as JSON, with Content-Type: application/json"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, told)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise BadQuestionError(f"a command has at most {MAX_BODY_BYTES} bytes.")
    return bytes(body)
