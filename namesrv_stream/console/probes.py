"""Answers of the console to an orchestrator's probes."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse

router = APIRouter(include_in_schema=False)


@router.get("/healthz")
async def healthz() -> PlainTextResponse:
    """Answer 200 while the event loop runs."""
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def readyz(request: Request) -> PlainTextResponse:
    """Answer 200 once a snapshot is served, and 503 before."""
    if request.app.state.running.is_ready:
        return PlainTextResponse("ok\n")
    return PlainTextResponse("no snapshot has been read yet\n", HTTPStatus.SERVICE_UNAVAILABLE)
