"""The ASGI application: the API, the page, probes and metrics, and what all of them are guarded by."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from namesrv_stream import __version__
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.console import api
from namesrv_stream.console.guard import Forwarded, Guard
from namesrv_stream.console.problems import SHAPES, answer_of, problem_response
from namesrv_stream.console.running import Running
from namesrv_stream.errors import NamesrvError
from namesrv_stream.reporting.metrics_server import PROMETHEUS_TEXT, add_process_metrics

PAGE = Path(__file__).parent / "page"

_WORTH_COMPRESSING = 1_000
"""Least bytes of an answer that is compressed."""


class _Page(StaticFiles):
    """The files of the page. They are looked up anew each time, so that an update is seen at once."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response


def make_app(settings: NamesrvSettings) -> FastAPI:
    """Return the application. Raises SettingError."""
    running = Running(settings)
    app = FastAPI(
        title="namesrv-stream",
        version=__version__,
        description="Routes of RocketMQ topics at any moment, their history, and pushed changes.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its page loads scripts from the internet
        redoc_url=None,
        lifespan=lambda _app: running.serving(),
        dependencies=[Depends(api.check_parameters)],
    )
    app.state.running = running
    app.include_router(api.router)
    app.include_router(_probes)
    app.add_api_route("/docs", _docs, include_in_schema=False)
    app.openapi().setdefault("components", {})["schemas"] = SHAPES
    app.mount("/", _Page(directory=PAGE, html=True))
    app.add_exception_handler(NamesrvError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_bad_parameter)
    app.add_exception_handler(HTTPException, _on_http_error)
    names = [name.strip().lower() for name in settings.console_hosts.split(",") if name.strip()]
    app.add_middleware(GZipMiddleware, minimum_size=_WORTH_COMPRESSING, compresslevel=5)
    app.add_middleware(Guard, names=[*names, settings.console_bind_address.lower()])
    app.add_middleware(Forwarded, proxies=settings.console_trusted_proxies, base=settings.console_base_path)
    return app


async def _docs() -> Response:
    return FileResponse(PAGE / "docs.html", headers={"cache-control": "no-cache"})


async def _on_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, NamesrvError)
    return answer_of(error)


async def _on_bad_parameter(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = first["loc"][-1] if first["loc"] else "the request"
    message = f"{name}: {first['msg']}. /docs describes all parameters."
    return problem_response(HTTPStatus.BAD_REQUEST, message)


async def _on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    return problem_response(status, f"{error.detail}. /docs describes the API.", dict(error.headers or {}))


_probes = APIRouter(include_in_schema=False)

_OF_PROCESS = CollectorRegistry()
add_process_metrics(_OF_PROCESS)


@_probes.get("/healthz")
async def healthz() -> PlainTextResponse:
    """Answer 200 while the event loop runs."""
    return PlainTextResponse("ok\n")


@_probes.get("/readyz")
async def readyz(request: Request) -> PlainTextResponse:
    """Answer 200 once a snapshot is served, and 503 before."""
    if request.app.state.running.hub.has_view.is_set():
        return PlainTextResponse("ok\n")
    return PlainTextResponse("no snapshot has been read yet\n", HTTPStatus.SERVICE_UNAVAILABLE)


@_probes.get("/metrics")
async def metrics() -> Response:
    """Return descriptors, threads, memory and CPU time of this process."""
    return Response(generate_latest(_OF_PROCESS), media_type=PROMETHEUS_TEXT)
