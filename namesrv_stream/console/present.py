"""The HTTP API about the present: the state of the job, pushed changes, commands."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from namesrv_stream.config.values import parsed_duration
from namesrv_stream.console.api import Console, check_parameters
from namesrv_stream.console.command_rights import check_reason
from namesrv_stream.console.hub import Place
from namesrv_stream.console.stream import Watch, WatchResponse
from namesrv_stream.questions.command_sending import checked_order, parsed_order, send_order
from namesrv_stream.questions.subject import BadQuestionError, Fields
from namesrv_stream.wire.json_text import encode_json

MAX_BODY_BYTES = 64 * 1024
MOST_WAIT_S = 300.0
_MOST_WATCHED = 100


class Sent(Fields):
    """A command that Kafka has; `epoch` shows its effect, null if none does yet."""

    partition: int
    offset: int
    epoch: int | None
    requested_by: str | None


class Watched(Fields):
    """The first events after an epoch, and the registry and epoch from which to ask next."""

    registry: str
    epoch: int
    events: list[dict[str, Any]]


router = APIRouter(prefix="/v1", dependencies=[Depends(check_parameters)])


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


@router.post("/commands", status_code=202, summary="Send an operator command")
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
    parsed = parsed_order(await _body(request))
    check_reason(parsed.reason)
    parsed = checked_order(console.settings, parsed)
    if not unknown:
        console.check_brokers(parsed)
    peer = f"{request.client.host}:{request.client.port}" if request.client else "unknown"
    allowed = await asyncio.to_thread(console.admission.admitted, parsed, request.headers.get("authorization"), peer)
    at = await asyncio.to_thread(send_order, console.settings, allowed)
    epoch = await console.published(at, wait_s) if wait_s else None
    sent = Sent(at.partition, at.offset, epoch, allowed.requested_by)
    return Response(encode_json(sent), 202, media_type="application/json")


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise BadQuestionError(f"a command has at most {MAX_BODY_BYTES} bytes.")
    return bytes(body)
