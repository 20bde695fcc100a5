"""The HTTP API: questions about any moment, the state of the job now, pushed changes, commands.

Every answer about the tables is made from one snapshot and names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from http import HTTPStatus
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from msgspec import Struct

from namesrv_stream import __version__
from namesrv_stream.answers import (
    accounts,
    broker_page,
    impact,
    incidents,
    job_status,
    lists,
    overview,
    periods,
    resilience,
)
from namesrv_stream.answers import topics as of_topics
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
from namesrv_stream.answers.model import AnswerModel, BadQuestionError, encode_answer
from namesrv_stream.answers.questions import (
    AskBroker,
    AskBrokers,
    AskChurn,
    AskDiff,
    AskEvents,
    AskImpact,
    AskIncidents,
    AskResilience,
    AskSnapshots,
    AskTimeline,
    AskTopic,
    AskTopics,
    AskWatch,
    AskWhy,
    Question,
)
from namesrv_stream.answers.times import moment_up_to, zone_named
from namesrv_stream.answers.verdict import Doubt
from namesrv_stream.config.values import parsed_duration
from namesrv_stream.config.written_times import day_begin
from namesrv_stream.console.guard import PROXY_USER, peer_text
from namesrv_stream.console.hub import Place, Watch, Watched, WatchResponse
from namesrv_stream.console.problems import OF_ALL, OF_MOMENTS, RefusedError, problems, shape
from namesrv_stream.console.running import Running
from namesrv_stream.errors import did_you_mean
from namesrv_stream.reporting.texts import SHOWN_ZONE, today
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.tables.moment import RegistryAt

MAX_BODY_BYTES = 64 * 1024
MAX_WAIT_S = 300.0
_MAX_WATCHED = 100


def check_parameters(request: Request) -> None:
    """Refuse a parameter that the path does not have, so that a misspelt `epoch` is not answered with the present."""
    described = request.app.openapi()["paths"].get(request.scope["route"].path_format, {})
    about = described.get(request.method.lower(), {})
    known = [each["name"] for each in about.get("parameters", ()) if each["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            advice = did_you_mean(name, known) or (f"Use {', '.join(known)}. " if known else "")
            raise BadQuestionError(f"unknown parameter {name[:100]!r}. {advice}/docs describes all parameters.")


def _running(request: Request) -> Running:
    running: Running = request.app.state.running
    return running


Console = Annotated[Running, Depends(_running)]
Name = Annotated[str, Path(min_length=1, max_length=1000)]


@dataclass(frozen=True)
class Asked:
    """A request about a moment."""

    console: Running
    request: Request
    at: RegistryAt

    @cached_property
    def oldest(self) -> SnapshotRow:
        """The oldest snapshot that can be read. May wait for the storage."""
        return self.console.registry.read(lambda snapshots: snapshots.oldest_readable())

    @property
    def doubt(self) -> Doubt | None:
        """Why the present is not known; None for a past moment."""
        return None if self.at.is_historical else self.console.doubt

    def answer(self, compute: Callable[[], Struct], *, with_oldest: bool, with_doubt: bool) -> Response:
        """Return the answer: from memory if it was asked for before, and 304 if the sender has it already."""
        row, request = self.at.snapshot, self.request
        begin = f"{self.oldest.epoch}-" if with_oldest else ""
        begin += "".join(f"{each}-".replace(" ", "_") for each in self.doubt or ()) if with_doubt else ""
        begin += f"{self.at.identity}-{row.repaired_at or 0:x}-{'past-' * self.at.is_historical}"
        begin += f"{today()}-".replace(" ", "_")  # texts leave out the day of a time of today
        etag = f'"{begin}{row.epoch}-{row.event_time or 0:x}-{row.published_at:x}-{__version__}"'
        headers = {"etag": etag, "x-registry-epoch": str(row.epoch)}
        known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
        if etag in known:
            return Response(status_code=304, headers=headers)
        asked = (etag, request.url.path, request.url.query)
        body = self.console.answers.get(asked, lambda: encode_answer(compute()))
        return Response(body, media_type="application/json", headers=headers)


ANSWERS: dict[str, type[Struct]] = {}
"""Path -> the type of its answer."""

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
) -> Callable[[Callable[..., Struct]], None]:
    """Return a decorator that serves the answers of a function at a path.

    The function gets the request, the question, of whose fields parameters are made, and the name in the path, if it
    has parameters for them. `with_oldest`: the answer also depends on the oldest snapshot that can be read.
    `with_doubt`: also on the job.
    """

    def serve(compute: Callable[..., Struct]) -> None:
        hints, names = get_type_hints(compute), [*signature(compute).parameters][1:]

        def answer(console: Running, request: Request, question: Question, **name: str) -> Response:
            SHOWN_ZONE.set(question.time_zone)  # of this request alone, which has a context of its own
            asked = Asked(console, request, console.at(question.moment))
            given = [question if each == "question" else name[each] for each in names]
            return asked.answer(partial(compute, asked, *given), with_oldest=with_oldest, with_doubt=with_doubt)

        asks: Any = Annotated[hints.get("question", Question), Query()]
        kinds = {"console": Console, "request": Request, **dict.fromkeys(names, Name), "question": asks}
        parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in kinds.items()]
        answer.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # FastAPI makes parameters of it
        answer.__name__, answer.__doc__ = compute.__name__, compute.__doc__
        responses = OF_MOMENTS | _described(path, hints["return"])
        router.add_api_route(path, answer, summary=summary, responses=responses, response_model=None, tags=["moments"])

    return serve


@question("/overview", "A moment at a glance: the verdict, clusters and zones, the last hour's events", with_doubt=True)
def at_a_glance(asked: Asked) -> overview.Overview:
    """Return what is wrong, in a sentence and by causes, clusters and zones as numbers, and the last hour's events."""
    return overview.overview(asked.at, asked.doubt)


@question("/topics", "All topics with their states, those without a route too")
def topics(asked: Asked, question: AskTopics) -> of_topics.Topics:
    """Return topics; `cluster` and `zone` choose those on a broker name there, with the queues there."""
    return of_topics.topics(asked.at, question)


@question("/topics/{topic:path}", "The route of a topic, as clients get it")
def topic(asked: Asked, question: AskTopic, topic: str) -> of_topics.Route:
    """Return the topic's verdict, RocketMQ's TopicRouteData in `route`, and the brokers of its broker names."""
    return of_topics.route(asked.at, topic, question)


@question("/brokers", "Every broker address with a lease, and every broker that is down")
def brokers(asked: Asked, question: AskBrokers) -> lists.Brokers:
    """Return brokers; addresses and names are in natural order, a-2 before a-10."""
    return lists.brokers(asked.at, question)


@question("/brokers/{name:path}", "One broker name or address")
def broker(asked: Asked, question: AskBroker, name: str) -> broker_page.BrokerPage:
    """Return the leases of a broker name or address, and its topics. A broker that is gone has neither."""
    return broker_page.broker_page(asked.at, name, question)


@question("/clusters", "Clusters, their broker names, and who holds each id")
def clusters(asked: Asked) -> lists.Clusters:
    """Return all clusters."""
    return lists.clusters(asked.at)


@question("/events", "Lines of the history, newest last, each with its sentence")
def events(asked: Asked, question: AskEvents) -> accounts.Events:
    """Return the newest events up to the moment; go further back with `before` or `until`."""
    return accounts.events(asked.at, question)


@question("/why/{name:path}", "The story of a broker or a topic, in sentences")
def why(asked: Asked, question: AskWhy, name: str) -> accounts.Story:
    """Return the newest sentences, newest last."""
    return accounts.why(asked.at, name, question)


@question("/diff", "What changed between two moments")
def diff(asked: Asked, question: AskDiff) -> accounts.Diff:
    """Return the rows of each table that were added, removed or changed, up to the moment of epoch or at."""
    ends = (day_begin(question.start), question.end)
    moments = [moment_up_to(asked.at, text, question.time_zone) for text in ends]
    first, last = (asked.console.registry.at(*moment) for moment in moments)
    return accounts.diff(first, last, question)


@question("/snapshots", "The published snapshots, newest first", with_oldest=True)
def snapshots(asked: Asked, question: AskSnapshots) -> accounts.Snapshots:
    """Return snapshot rows up to the moment; go further back with `next` as `epoch`."""
    up_to, most = asked.at.snapshot.epoch, question.limit + 1
    rows = asked.console.registry.read(lambda snapshots: snapshots.readable(most, up_to))
    return accounts.snapshots(rows, asked.oldest, question.limit)


@question("/timeline", "The moments at which something changed, as marks along a track", with_oldest=True)
def timeline(asked: Asked, question: AskTimeline) -> periods.Timeline:
    """Return marks with the numbers of events by kind. Between two marks nothing changed but signs of life.

    A mark with `epochs` stands for that many of them, from `firstEpoch` to `epoch`. To get their own marks ask with
    `epoch` and with `above`, which is below `firstEpoch` by one.
    """

    def event_times(first: int, last: int) -> dict[int, int]:
        return asked.console.registry.read(lambda snapshots: snapshots.event_times(first, last))

    return periods.timeline(asked.at, asked.oldest, event_times, question)


@question("/churn", "Sessions of brokers, who flapped, outages of several at once, rejected records")
def churn(asked: Asked, question: AskChurn) -> periods.Churn:
    """Return the sessions since a time, up to the moment."""
    return periods.churn(asked.at, question)


@question("/incidents", "Outages of brokers: what happened, and what it did")
def outages(asked: Asked, question: AskIncidents) -> incidents.Incidents:
    """Return the incidents since a time, up to the moment, newest first; older ones that still lasted then too."""
    return incidents.incidents(asked.at, question)


@question("/impact", "What topics would lose if brokers were gone, all at once")
def what_if_gone(asked: Asked, question: AskImpact) -> impact.Impact:
    """Return what the rules would leave of the routes, topic by topic, the gravest first."""
    return impact.impact(asked.at, question)


@question("/resilience", "What each broker, broker group, zone or cluster alone would take with it")
def single_failures(asked: Asked, question: AskResilience) -> resilience.Resilience:
    """Return every one of them, the worst first, and topics by the number of groups and zones that have them."""
    return resilience.resilience(asked.at, question)


class Sent(AnswerModel):
    """A command that Kafka has; `epoch` shows its effect, null if none does yet."""

    partition: int
    offset: int
    epoch: int | None
    requested_by: str | None


def _of_now(answer: Struct, status: int = 200) -> Response:
    """Return an answer about the present, which no cache may keep."""
    return Response(encode_answer(answer), status, {"cache-control": "no-store"}, "application/json")


@router.get(
    "/status",
    summary="Whether the job runs, and how far behind the tables are",
    responses=_described("/status", job_status.Status),
    tags=["present"],
)
def status(
    console: Console, tz: Annotated[str | None, Query(description="Zone of the times in sentences; else UTC.")] = None
) -> Response:
    """Return the state of the job as the newest snapshot shows it now."""
    SHOWN_ZONE.set(zone_named(tz))
    return _of_now(console.status())


class Links(AnswerModel):
    """Templates of links to other tools, from the settings links.*; null for none."""

    broker: str | None
    topic: str | None
    cluster: str | None
    cause: str | None


@router.get(
    "/links", summary="Templates of links to other tools", responses=_described("/links", Links), tags=["present"]
)
def links(console: Console) -> Response:
    """Return the settings links.*, in which a page replaces {broker} and other names."""
    given = console.settings
    found = (given.links_broker, given.links_topic, given.links_cluster, given.links_cause)
    return _of_now(Links(*(each or None for each in found)))


_WATCHED = _described("/watch", Watched)
_WATCHED[200]["content"]["text/event-stream"] = {"schema": {"type": "string"}}


@router.get(
    "/watch", summary="Changes as Server-Sent Events, or the next of them", responses=_WATCHED, tags=["present"]
)
async def watch(console: Console, request: Request, question: Annotated[AskWatch, Query()]) -> Response:
    """Send an event for each epoch that changes a route of the topics, from the epoch on whose state the sender has."""
    if len(question.topics) > _MAX_WATCHED:
        raise BadQuestionError(f"a watcher can watch at most {_MAX_WATCHED} topics. Open several.")
    await console.await_snapshot()
    # The header wins: a browser that reconnects sends the first URL again.
    since = Place.parsed(request.headers.get("last-event-id", ""))
    if since is None and question.epoch is not None:
        since = Place(question.registry, question.epoch)
    watching = Watch(console.hub, console.registry, tuple(sorted(set(question.topics))), since)
    return WatchResponse(watching) if question.wait is None else _of_now(await watching.first(_wait_s(question.wait)))


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
    before = console.newest
    if before is not None:
        check_retirement(parsed, before.routes)
        if not unknown:
            await asyncio.to_thread(check_names, parsed, before, "?unknown=true")
    at = await asyncio.to_thread(send_order, console.settings, allowed)
    epoch = await console.published(at, wait_s) if wait_s else None
    if epoch is not None and console.newest is not None:
        last = before.snapshot.epoch if before is not None else 0
        await asyncio.to_thread(outcome, parsed, console.newest, at, last)
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
