"""Errors as answers: a status, and a JSON object whose message tells the reader what to do."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import Response

from namesrv_stream.access.rights import NotAllowedError
from namesrv_stream.config import ConfigBlackListError
from namesrv_stream.console.hub import CannotWatchError
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


class UnknownBrokersError(NamesrvError):
    """Refusal of an order configuration of brokers that the registry does not have, until the sender insists."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"no broker {', '.join(names)} is in the tables now. If it is right, add ?unknown=true.")
        self.names = names


_STATUS: tuple[tuple[type[NamesrvError], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (NoSuchSnapshotError, HTTPStatus.NOT_FOUND),
    (SnapshotGoneError, HTTPStatus.GONE),
    (BadQuestionError, HTTPStatus.BAD_REQUEST),
    (UnknownBrokersError, HTTPStatus.CONFLICT),
    (MalformedRecordError, HTTPStatus.BAD_REQUEST),
    (SettingError, HTTPStatus.BAD_REQUEST),
    (ConfigBlackListError, HTTPStatus.BAD_REQUEST),
    (NotAllowedError, HTTPStatus.FORBIDDEN),
    (CannotWatchError, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotARegistryError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StorageError, HTTPStatus.SERVICE_UNAVAILABLE),
    (KafkaUnreachableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (KafkaRefusedError, HTTPStatus.BAD_GATEWAY),
)


def answer_of(error: NamesrvError) -> Response:
    """Return an error as an answer. A sender who is not known is asked for a name and a password."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    if isinstance(error, NotAllowedError) and error.user is None:
        asked = {"www-authenticate": 'Basic realm="namesrv-stream: accessKey and secretKey", charset="UTF-8"'}
        return problem_response(HTTPStatus.UNAUTHORIZED, str(error), asked)
    return problem_response(status, str(error))


def problem_response(status: HTTPStatus, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return a problem as an answer."""
    body = encode_json({"error": status.phrase, "status": status.value, "message": message})
    return Response(body, status, {"cache-control": "no-store"} | (headers or {}), "application/json")
