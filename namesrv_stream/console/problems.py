"""Answers to errors, problem details by RFC 9457 that name the next step; and the schemas of all answers.

The schemas are for programs that are generated from the description of the API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from namesrv_stream.access.rights import NotAllowedError
from namesrv_stream.answers.command_sending import BrokerIsUpError, UnknownNameError
from namesrv_stream.answers.model import BadQuestionError, NotFoundError
from namesrv_stream.config import ConfigBlackListError
from namesrv_stream.errors import (
    KafkaRefusedError,
    KafkaUnreachableError,
    MalformedRecordError,
    NamesrvError,
    NoSuchSnapshotError,
    NotARegistryError,
    PastUnknownError,
    SettingError,
    SnapshotGoneError,
    StorageError,
)
from namesrv_stream.reporting.texts import Time
from namesrv_stream.tables.schemas import SNAPSHOT
from namesrv_stream.wire.json_text import encode_json


class RefusedError(NamesrvError):
    """The console refuses a request with a status of HTTP."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


_STATUS: dict[HTTPStatus, tuple[type[NamesrvError], ...]] = {
    HTTPStatus.BAD_REQUEST: (BadQuestionError, MalformedRecordError, SettingError, ConfigBlackListError),
    HTTPStatus.FORBIDDEN: (NotAllowedError,),
    HTTPStatus.NOT_FOUND: (NotFoundError, NoSuchSnapshotError),
    HTTPStatus.CONFLICT: (UnknownNameError, BrokerIsUpError),
    HTTPStatus.GONE: (SnapshotGoneError, PastUnknownError),
    HTTPStatus.BAD_GATEWAY: (KafkaRefusedError,),
    HTTPStatus.SERVICE_UNAVAILABLE: (NotARegistryError, StorageError, KafkaUnreachableError),
}


_ASK_FOR_KEYS = {"www-authenticate": 'Basic realm="namesrv-stream: accessKey and secretKey", charset="UTF-8"'}


async def on_error(request: Request, error: Exception) -> Response:
    """Return an error as an answer. A refused method is answered with those that the path has."""
    status, message, headers = _told(error)
    if isinstance(error, HTTPException) and request.method not in (methods := _methods(request)):
        status = HTTPStatus.METHOD_NOT_ALLOWED if methods else HTTPStatus.NOT_FOUND
        message = f"{status.phrase}. /docs describes the API."
        headers = {"allow": ", ".join(sorted(methods))} if methods else {}
    is_empty = isinstance(error, NotARegistryError) and error.table == SNAPSHOT.name
    return problem_response(status, message, headers, _NO_REGISTRY if is_empty else _BLANK)


def _methods(request: Request) -> set[str]:
    """Return the methods of a request's path; none if there is no such path. Other paths than the API's are files."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    found = {
        method.upper()
        for template, about in request.app.openapi()["paths"].items()
        if re.fullmatch(re.sub(r"\\{.*?\\}", ".+", re.escape(template)), path)
        for method in about
    }
    if not found and (not path.startswith("/v1/") or path == "/v1/openapi.json"):
        found = {"GET"}
    return found | {"HEAD"} if "GET" in found and path != "/v1/watch" else found


def _told(error: Exception) -> tuple[HTTPStatus, str, Mapping[str, str]]:
    """Return the status, the message and the headers, which ask an unknown sender for a name and a password."""
    match error:
        case HTTPException():
            return HTTPStatus(error.status_code), f"{error.detail}. /docs describes the API.", error.headers or {}
        case RequestValidationError():
            first = error.errors()[0]
            name = first["loc"][-1] if first["loc"] else "the request"
            return HTTPStatus.BAD_REQUEST, f"{name}: {first['msg']}. /docs describes all parameters.", {}
        case RefusedError():
            return error.status, str(error), {}
        case NotAllowedError(user=None):
            return HTTPStatus.UNAUTHORIZED, str(error), _ASK_FOR_KEYS
    known = (status for status, kinds in _STATUS.items() if isinstance(error, kinds))
    return next(known, HTTPStatus.INTERNAL_SERVER_ERROR), str(error), {}


_BLANK = "about:blank"
_NO_REGISTRY = "/docs#no-registry"
"""Type of the problem that the folder of the tables holds none yet."""


class Problem(msgspec.Struct):
    """An error as RFC 9457 has it; `detail` names the problem and the next step."""

    type: str
    title: str
    status: int
    detail: str


_MEDIA_TYPE = "application/problem+json"


def problem_response(status: HTTPStatus, message: str, headers: Mapping[str, str] = {}, kind: str = _BLANK) -> Response:
    """Return a problem as an answer. The title is that of the status, also of a type of our own."""
    body = encode_json(Problem(kind, status.phrase, status.value, message))
    return Response(body, status, {"cache-control": "no-store"} | dict(headers), _MEDIA_TYPE)


SHAPES: dict[str, Any] = {}
"""Name of a type -> its schema, to which the description refers."""


def shape(kind: Any, media_type: str = "application/json") -> dict[str, Any]:
    """Return the description of a request's or answer's content: JSON of a type."""
    [schema], parts = msgspec.json.schema_components(
        [kind],
        schema_hook=lambda kind: {"type": "string" if kind is Time else "object"},
        ref_template="#/components/schemas/{name}",
    )
    SHAPES.update(parts)
    return {"content": {media_type: {"schema": schema}}}


def problems(told: dict[int | str, str]) -> dict[int | str, dict[str, Any]]:
    """Return the description of the errors that a path may answer with."""
    return {status: {"description": text} | shape(Problem, _MEDIA_TYPE) for status, text in told.items()}


OF_ALL = problems(
    {
        400: "A parameter or a body that the console cannot use.",
        503: "The tables or Kafka are unreachable, or no registry exists yet.",
        "4XX": "Another refusal; the detail says why.",
    }
)
OF_MOMENTS = problems(
    {
        404: "There never was such a name or such an epoch.",
        410: "The past of that time is not known, because rows of the history were lost; the detail has the bounds.",
    }
)
"""Further answers of a path about a moment."""
