"""Errors for bytes that cannot be understood: a FrameError ends the connection, a BadRequestError only one request."""

from __future__ import annotations

from namesrv_stream.errors import NamesrvError


class FrameError(NamesrvError):
    """The bytes of a connection cannot be cut into frames from here on: close the connection without an answer."""


class FrameTooLargeError(FrameError):
    """A frame is over the limit. `spoken`: a known protocol that starts with its bytes, or None."""

    def __init__(self, length: int, limit: int, spoken: str | None) -> None:
        guess = f"the peer speaks {spoken}, not RocketMQ's remoting" if spoken else "does the peer speak TLS or HTTP?"
        super().__init__(f"frame of {length} bytes is over the limit of {limit}: {guess}")
        self.length = length
        self.limit = limit
        self.spoken = spoken


class FrameLengthError(FrameError):
    """A length word that leaves no room for the header word."""

    def __init__(self, length: int) -> None:
        super().__init__(f"frame length {length} leaves no room for a header: is the peer a RocketMQ broker or client?")
        self.length = length


class HeaderLengthError(FrameError):
    """A header that would reach beyond the end of its frame."""

    def __init__(self, header_length: int, room: int) -> None:
        super().__init__(f"header of {header_length} bytes in a frame with room for {room}: check the peer's client")
        self.header_length = header_length
        self.room = room


class HeaderTooLargeError(FrameError):
    """A header of more bytes than any request needs: all of it is read at once, in the event loop."""

    def __init__(self, header_length: int, limit: int) -> None:
        super().__init__(
            f"header of {header_length} bytes is over the limit of {limit}: what is large goes in the body"
        )
        self.header_length = header_length
        self.limit = limit


class TooManyFieldsError(FrameError):
    """A header with more fields than any request has: what follows from each is done at once, in the event loop."""

    def __init__(self, count: int, limit: int) -> None:
        super().__init__(
            f"header of {count} fields or more is over the limit of {limit}: what is large goes in the body"
        )
        self.count = count
        self.limit = limit


class UnknownSerializeTypeError(FrameError):
    """A header that is neither JSON nor ROCKETMQ binary."""

    def __init__(self, serialize_type: int) -> None:
        super().__init__(f"serialize type {serialize_type} is unknown: set the peer to JSON (0) or ROCKETMQ (1)")
        self.serialize_type = serialize_type


class MalformedHeaderError(FrameError):
    """A header of the right length whose content cannot be read."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"header cannot be read: {reason}; check the peer's client and its serialize type")
        self.reason = reason


class MalformedProxyHeaderError(FrameError):
    """A connection that begins like the PROXY protocol, but does not continue like it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"PROXY header cannot be read: {reason}; check the load balancer's PROXY protocol setting")
        self.reason = reason


class BadRequestError(NamesrvError):
    """A bad request in a good frame: answer it with SYSTEM_ERROR and `remark`."""

    def __init__(self, message: str, remark: str | None = None) -> None:
        super().__init__(message)
        self.remark = remark or message


class FieldError(BadRequestError):
    """A header field that is missing or has a bad value. `reason` names the field."""

    def __init__(self, request: str, reason: str, remark: str | None = None) -> None:
        super().__init__(f"{request}: {reason} of extFields; correct it and send the request again", remark)
        self.request = request
        self.reason = reason


class NotAWriteRequestError(BadRequestError):
    """A request that changes nothing in the registry was to be read as a writing one."""

    def __init__(self, code: int) -> None:
        super().__init__(f"request code {code} changes nothing in the registry: answer it from a snapshot")
        self.code = code


class Crc32MismatchError(BadRequestError):
    """A body whose checksum is not the one in the header (R1)."""

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"crc32 of the body is {actual}, the header has {expected}: damaged on its way, register again",
            "crc32 not match",
        )
        self.expected = expected
        self.actual = actual


class MalformedBodyError(BadRequestError):
    """A body that cannot be decoded as its request code requires. `body`: the name of its class in RocketMQ."""

    def __init__(self, body: str, reason: str) -> None:
        super().__init__(f"Failed to decode {body}: {reason}; check the sender's version")
        self.body = body
        self.reason = reason


class TooManyTopicsError(BadRequestError):
    """A registration with more topics than one registration may have."""

    def __init__(self, topics: int, limit: int) -> None:
        super().__init__(
            f"{topics} topics in one registration, over the limit of {limit}: set enableSplitRegistration on the broker"
        )
        self.topics = topics
        self.limit = limit


class UnprintableNameError(BadRequestError):
    """A name with control characters, which would get into logs, tables and terminals."""

    def __init__(self, request: str, field: str, name: str) -> None:
        super().__init__(
            f"{request}: {field} {name[:100]!a} has characters that cannot be printed; give it another name"
        )
        self.field = field
        self.name = name


class BodyTooLargeError(BadRequestError):
    """A compressed body that inflates to more bytes than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"compressed body inflates to more than {limit} bytes: set enableSplitRegistration on the broker"
        )
        self.limit = limit
