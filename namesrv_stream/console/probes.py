"""Answers of the console to an orchestrator's probes and to Prometheus."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, generate_latest
from starlette.responses import PlainTextResponse, Response

from namesrv_stream.monitoring import PROMETHEUS_TEXT, add_process_metrics

router = APIRouter(include_in_schema=False)

_OF_PROCESS = CollectorRegistry()
add_process_metrics(_OF_PROCESS)


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


@router.get("/metrics")
async def metrics() -> Response:
    """Return descriptors, threads, memory and CPU time of this process."""
    return Response(generate_latest(_OF_PROCESS), media_type=PROMETHEUS_TEXT)
