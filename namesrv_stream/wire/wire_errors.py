"""Errors for bytes that cannot be decoded: a FrameError ends the connection, a BadRequestError only one request."""

from __future__ import annotations

from namesrv_stream.errors import NamesrvError


class FrameError(NamesrvError):
    """The bytes of a connection cannot be decoded any more. Close the connection without an answer."""


class BadRequestError(NamesrvError):
    """A bad request in a good frame. Answer it with SYSTEM_ERROR and `remark`."""

    def __init__(self, message: str, remark: str | None = None) -> None:
        super().__init__(message)
        self.remark = remark or message


def malformed_header(reason: str) -> FrameError:
    """Return the error for a header of the right length whose content cannot be read."""
    return FrameError(f"header cannot be read: {reason}; check the peer's client and its serialize type")


def malformed_body(body: str, reason: object, remark: str | None = None) -> BadRequestError:
    """Return the error for a body that is not as its request code requires. `body`: RocketMQ's name of its class."""
    return BadRequestError(f"Failed to decode {body}: {reason}; check the sender's version", remark)


def bad_field(request: str, reason: str, remark: str | None = None) -> BadRequestError:
    """Return the error for a header field that is missing or has a bad value. `reason` names the field."""
    return BadRequestError(f"{request}: {reason} of extFields; correct it and send the request again", remark)


def unprintable_name(request: str, field: str, name: str) -> BadRequestError:
    """Return the error for a name with control characters, because names get into logs, tables and terminals."""
    return BadRequestError(
        f"{request}: {field} {name[:100]!a} has characters that cannot be printed; give it another name"
    )
