"""Errors as answers, a status and a JSON object whose message tells the reader what to do; and the shapes of answers.

The shapes are for programs that are made from the description of the API.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from namesrv_stream.access.rights import NotAllowedError
from namesrv_stream.config import ConfigBlackListError
from namesrv_stream.errors import (
    KafkaRefusedError,
    KafkaUnreachableError,
    MalformedRecordError,
    NamesrvError,
    NoSuchSnapshotError,
    NotARegistryError,
    SettingError,
    SnapshotGoneError,
    StorageError,
)
from namesrv_stream.questions.subject import BadQuestionError, NotFoundError
from namesrv_stream.wire.json_text import encode_json


class RefusedError(NamesrvError):
    """A request that the console refuses with a status of HTTP."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


_STATUS: tuple[tuple[type[NamesrvError], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (NoSuchSnapshotError, HTTPStatus.NOT_FOUND),
    (SnapshotGoneError, HTTPStatus.GONE),
    (BadQuestionError, HTTPStatus.BAD_REQUEST),
    (MalformedRecordError, HTTPStatus.BAD_REQUEST),
    (SettingError, HTTPStatus.BAD_REQUEST),
    (ConfigBlackListError, HTTPStatus.BAD_REQUEST),
    (NotAllowedError, HTTPStatus.FORBIDDEN),
    (NotARegistryError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StorageError, HTTPStatus.SERVICE_UNAVAILABLE),
    (KafkaUnreachableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (KafkaRefusedError, HTTPStatus.BAD_GATEWAY),
)


def answer_of(error: NamesrvError) -> Response:
    """Return an error as an answer. A sender who is not known is asked for a name and a password."""
    if isinstance(error, RefusedError):
        return problem_response(error.status, str(error))
    if isinstance(error, NotAllowedError) and error.user is None:
        asked = {"www-authenticate": 'Basic realm="namesrv-stream: accessKey and secretKey", charset="UTF-8"'}
        return problem_response(HTTPStatus.UNAUTHORIZED, str(error), asked)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    return problem_response(status, str(error))


class Problem(msgspec.Struct):
    """An error; `message` says what to do."""

    error: str
    status: int
    message: str


def problem_response(status: HTTPStatus, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return a problem as an answer."""
    body = encode_json(Problem(status.phrase, status.value, message))
    return Response(body, status, {"cache-control": "no-store"} | (headers or {}), "application/json")


SHAPES: dict[str, Any] = {}
"""The schemas of the shapes that the description refers to, by name."""


def shape(kind: Any) -> dict[str, Any]:
    """Return the content of a request or an answer that is a type as JSON, for the description of the API."""
    [schema], parts = msgspec.json.schema_components(
        [kind], schema_hook=lambda _: {"type": "object"}, ref_template="#/components/schemas/{name}"
    )
    SHAPES.update(parts)
    return {"content": {"application/json": {"schema": schema}}}


def problems(told: dict[int | str, str]) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a path may answer with, for its description."""
    return {status: {"description": text} | shape(Problem) for status, text in told.items()}


OF_ALL = problems(
    {
        400: "A parameter or a body that the console cannot use.",
        503: "The tables or Kafka do not answer, or there is no registry yet.",
        "4XX": "Another refusal; the message says why.",
    }
)
OF_MOMENTS = problems(
    {
        404: "There never was such a name or such an epoch.",
        410: "The snapshot is past snapshot.retention; the history goes further back.",
    }
)
"""Answers that a path about a moment may give besides."""
