"""The HTTP API about any moment. Every answer about the tables is made from one snapshot and names it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from msgspec import Struct

from namesrv_stream import __version__
from namesrv_stream.console.running import Running
from namesrv_stream.errors import did_you_mean
from namesrv_stream.history.events import AsOf, Span
from namesrv_stream.questions import accounts, lists, overview, periods
from namesrv_stream.questions.lists import Chosen
from namesrv_stream.questions.subject import MOST_LISTED, BadQuestionError, Seen
from namesrv_stream.questions.times import moment_up_to, span_up_to, time_at, time_ms, zone_named
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.wire.json_text import encode_json

_FORMS = (
    "2026-11-21T03:12:00Z, 03:12, 10m, 2h ago. A time without a zone is in tz, or in the zone of the console's machine."
)


def check_parameters(request: Request) -> None:
    """Refuse a parameter that the path does not have: a misspelt `epoch` must not answer the present."""
    described = request.app.openapi()["paths"][request.scope["route"].path_format][request.method.lower()]
    known = [each["name"] for each in described.get("parameters", ()) if each["in"] == "query"]
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
        Query(description="Zone of times without one: Europe/Berlin. Without it that of the console's machine."),
    ] = None,
) -> tzinfo | None:
    return zone_named(tz)


Zone = Annotated[tzinfo | None, Depends(_zone)]


def _moment(
    zone: Zone,
    epoch: Annotated[int | None, Query(ge=1, description="As it was in this epoch.")] = None,
    at: Annotated[str | None, Query(description=f"As it was at this event time: {_FORMS}")] = None,
) -> AsOf:
    if epoch is not None and at is not None:
        raise BadQuestionError("epoch and at both name a moment: give one of them.")
    return AsOf(epoch, None if at is None else time_ms(at, datetime.now(UTC), zone))


Console = Annotated[Running, Depends(_running)]
Moment = Annotated[AsOf, Depends(_moment)]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED, description="Most items of the answer.")]
After = Annotated[str, Query(description="Begin behind this item: `next` of the page before.")]
Since = Annotated[str | None, Query(description=f"From this event time on: {_FORMS}")]
Until = Annotated[str | None, Query(description="Up to this event time.")]
Containing = Annotated[str, Query(description="Only those whose name contains this text.")]
Name = Annotated[str, Path(min_length=1, max_length=1000)]


def _chosen(
    cluster: Annotated[str | None, Query(description="Only of this cluster.")] = None,
    zone: Annotated[str | None, Query(description="Only of this zone; empty: only those without one.")] = None,
    q: Annotated[str, Query(description="Only those whose name or address contains this text.")] = "",
) -> Chosen:
    return Chosen(cluster, zone, q)


Wanted = Annotated[Chosen, Depends(_chosen)]


@dataclass(frozen=True)
class Question:
    """A request about a moment."""

    console: Console
    request: Request
    moment: Moment
    zone: Zone

    def answer(self, compute: Callable[[Seen], Struct], *, oldest: SnapshotRow | None = None) -> Response:
        """Answer from memory if this was asked before, and with 304 if the sender has the answer.

        `oldest`: the oldest snapshot that can be read, if the answer depends on it too. A moment between two
        snapshots is answered from the one before, and the answer says so.
        """
        row, request = self.console.row(self.moment), self.request
        lacking = self.console.lacking(row, self.moment.at_ms) if self.moment.at_ms is not None else None
        begin = "" if oldest is None else f"{oldest.epoch}-"
        end = "" if lacking is None else f"-{lacking.at_ms}-{lacking.events}"
        etag = f'"{begin}{row.epoch}-{row.published_at:x}-{__version__}{end}"'
        headers = {"etag": etag, "cache-control": "no-cache", "x-registry-epoch": str(row.epoch)}
        known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
        if etag in known:
            return Response(status_code=304, headers=headers)
        asked = sorted(each for each in request.query_params.multi_items() if each[0] not in ("epoch", "at"))
        about = (begin, end, request.url.path, tuple(asked))
        body = self.console.snapshots.answer(row, about, lambda: encode_json(compute(self.console.seen(row, lacking))))
        return Response(body, media_type="application/json", headers=headers)

    def span(self, seen: Seen, since: str | None, until: str | None) -> Span:
        """Return the stretch between two parameters, which count back from the moment."""
        return span_up_to(seen.snapshot, since, until, self.zone)


Asked = Annotated[Question, Depends()]


router = APIRouter(prefix="/v1", dependencies=[Depends(check_parameters)])


@router.get("/overview", summary="A moment at a glance: what is wrong, clusters and zones, the last hour's events")
def at_a_glance(asked: Asked) -> Response:
    """Return what is wrong, the clusters and zones as numbers, brokers that are gone, and the last hour's events."""
    return asked.answer(overview.overview)


@router.get("/topics", summary="All topics, by name")
def topics(
    asked: Asked,
    limit: Limit = 100,
    after: After = "",
    q: Containing = "",
    system: Annotated[bool, Query(description="With the topics that brokers make by themselves.")] = True,
) -> Response:
    """Return topics in order of their names."""
    return asked.answer(
        lambda seen: lists.topics(seen, containing=q, with_system=system, limit=limit, after=after),
    )


@router.get("/topics/{topic:path}", summary="The route of a topic, as clients get it")
def topic(
    asked: Asked, topic: Name, zone: Annotated[str | None, Query(description="As a client of this zone.")] = None
) -> Response:
    """Return RocketMQ's TopicRouteData in `route`, and the leases of the route's brokers."""
    return asked.answer(lambda seen: lists.route(seen, topic, zone))


@router.get("/brokers", summary="Every broker address with a lease")
def brokers(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    wanted: Wanted,
    limit: Limit = 100,
    after: After = "",
    sort: Annotated[str, Query(description=f"One of {lists.ORDERS}; with - the other way.")] = "address",
    state: Annotated[lists.State | None, Query(description="Only those in this state.")] = None,
) -> Response:
    """Return leases; addresses and names are in natural order, a-2 before a-10."""
    return asked.answer(lambda seen: lists.brokers(seen, wanted, state, sort, limit=limit, after=after))


@router.get("/gone", summary="Broker addresses that left within the last hour")
def gone(asked: Asked, wanted: Wanted, limit: Limit = 100, after: After = "") -> Response:
    """Return the addresses that have no lease any more, newest first."""
    return asked.answer(lambda seen: overview.gone_page(seen, wanted, limit=limit, after=after))


@router.get("/brokers/{name:path}", summary="One broker name or address")
def broker(asked: Asked, name: Name, limit: Limit = 200, after: After = "") -> Response:
    """Return the leases of a broker name or address, and its topics. A broker that is gone has none of both."""
    return asked.answer(lambda seen: lists.broker_page(seen, name, limit=limit, after=after))


@router.get("/clusters", summary="Clusters, their broker names, and who holds each id")
def clusters(asked: Asked) -> Response:
    """Return all clusters."""
    return asked.answer(lists.clusters)


@router.get("/events", summary="Lines of the history, newest last, each with its sentence")
def events(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    broker: Annotated[str | None, Query(description="Only of this broker name or address.")] = None,
    topic: Annotated[str | None, Query(description="Only of this topic.")] = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[
        str | None, Query(pattern=r"^\d{1,15}\.\d{1,15}$", description="Before this place: `next` of the page before.")
    ] = None,
    limit: Limit = 100,
) -> Response:
    """Return the newest events up to the moment; go further back with `before` or `until`."""
    epoch, _, seq = (before or "").partition(".")
    below = None if before is None else (int(epoch), int(seq))

    def compute(seen: Seen) -> accounts.Events:
        span = asked.span(seen, since, until)
        return accounts.events(seen, broker, topic, span, limit=limit, below=below)

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
    before: Annotated[int | None, Query(ge=0, description="Before this place: `next` of the page before.")] = None,
    limit: Limit = MOST_LISTED,
) -> Response:
    """Return the newest sentences, newest last."""

    def compute(seen: Seen) -> accounts.Story:
        span = asked.span(seen, since, until)
        return accounts.why(seen, name, span, is_topic=is_topic, limit=limit, below=before)

    return asked.answer(compute)


@router.get("/diff", summary="What changed between two moments")
def diff(  # noqa: PLR0913, PLR0917  # one argument a parameter of the request
    asked: Asked,
    start: Annotated[str, Query(alias="from", description="An epoch or an event time.")],
    end: Annotated[
        str | None, Query(alias="to", description="An epoch or an event time; without it the moment of epoch or at.")
    ] = None,
    table: Annotated[str | None, Query(description="Only the rows of this table.")] = None,
    limit: Limit = MOST_LISTED,
    after: Annotated[int, Query(ge=0, description="Begin behind so many differences: `next` of the page before.")] = 0,
) -> Response:
    """Return the rows of each table that were added, removed or changed, up to the moment of epoch or at."""

    def compute(seen: Seen) -> accounts.Diff:
        first, last = (moment_up_to(seen.snapshot, text, asked.zone) for text in (start, end))
        return accounts.diff(asked.console.snapshots.compare(first, last), table, limit=limit, after=after)

    return asked.answer(compute)


@router.get("/snapshots", summary="The published snapshots that can be read, newest first")
def snapshots(asked: Asked, limit: Limit = 20) -> Response:
    """Return snapshot rows up to the moment; go further back with `next` as `epoch`."""
    kept = asked.console.snapshots
    oldest = kept.read(lambda reader: reader.snapshots.oldest_readable())

    def compute(seen: Seen) -> accounts.Snapshots:
        rows = kept.read(lambda reader: reader.snapshots.readable(limit, seen.snapshot.epoch))
        return accounts.snapshots(rows, oldest)

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
    kept = asked.console.snapshots
    oldest = kept.read(lambda reader: reader.snapshots.oldest_readable())

    def event_times(first: int, last: int) -> dict[int, int]:
        return kept.read(lambda reader: reader.snapshots.event_times(first, last))

    def compute(seen: Seen) -> periods.Timeline:
        since_ms = max(time_at(since, seen.snapshot, asked.zone) or 0, oldest.event_time or 0)
        until_ms = time_at(until, seen.snapshot, asked.zone)
        return periods.timeline(seen, oldest, event_times, since_ms, until_ms, above)

    return asked.answer(compute, oldest=oldest)


@router.get("/churn", summary="Sessions of brokers, who flapped, outages of several at once, rejected records")
def churn(
    asked: Asked,
    since: Since = "24h",
    broker: Annotated[str | None, Query(description="Only of this broker name or address.")] = None,
) -> Response:
    """Return the sessions since a time, up to the moment."""
    return asked.answer(lambda seen: periods.churn(seen, time_at(since, seen.snapshot, asked.zone) or 0, broker))
