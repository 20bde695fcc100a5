"""The two sides of a comparison: a name server that is asked over a socket, and the tables of this registry."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import msgspec

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.readers import READERS, Source
from namesrv_stream.tables.snapshot_reader import RegistryView
from namesrv_stream.wire.codes import RequestCode, ResponseCode, Version
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.json_text import decode_json
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
from namesrv_stream.wire.wire_errors import BadRequestError, FrameError

_LIMIT_S = 10.0
_CHUNK_BYTES = 1 << 18
_MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Limit of one answer. It is more than a gateway accepts, as the cluster of a large installation is one answer."""
_any_decoder = msgspec.json.Decoder()
_ABSENT = frozenset({ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND})


class NamesrvUnreachableError(NamesrvError):
    """A name server that does not answer, or does not speak RocketMQ's protocol."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(
            f"the name server at {address} does not answer: {problem}. Check -n HOST:PORT. A name server that takes "
            "TLS alone cannot be compared."
        )
        self.address = address
        self.problem = problem


class Answered(NamedTuple):
    """An answer. `value`: its JSON body, None if there is nothing of that name. `refusal`: the reason of an error."""

    value: Any
    refusal: str = ""


class Side(Protocol):
    """One side of a comparison."""

    def ask(self, code: RequestCode, **fields: str) -> Answered:
        """Return the answer to a reading request."""


class Tables:
    """The registry's own tables: what a gateway answers from one snapshot."""

    def __init__(self, view: RegistryView, settings: NamesrvSettings) -> None:
        self.routes = view.routes
        self._source = Source(view.routes, settings.restored(view.routes.namesrv_config))

    def ask(self, code: RequestCode, **fields: str) -> Answered:
        """See `Side`."""
        return _answered(READERS[code].read(self._source, _request(code, 0, fields)))


class Namesrv:
    """A name server at `host:port`, over one connection that is open within the `with`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._opaque = 0
        self._decoder = FrameDecoder(_MAX_FRAME_BYTES)

    def __enter__(self) -> Self:
        host, _, port = self.address.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=_LIMIT_S)
        except (OSError, ValueError) as error:
            raise NamesrvUnreachableError(self.address, str(error)) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def ask(self, code: RequestCode, **fields: str) -> Answered:
        """See `Side`. Raises NamesrvUnreachableError."""
        self._opaque += 1
        try:
            self._socket.sendall(encode_command(_request(code, self._opaque, fields)))
            return _answered(self._received())
        except (OSError, EOFError, FrameError, BadRequestError) as error:
            raise NamesrvUnreachableError(self.address, str(error)) from error

    def _received(self) -> RemotingCommand:
        while True:
            data = self._socket.recv(_CHUNK_BYTES)
            if not data:
                raise EOFError("it closed the connection")
            for command in self._decoder.feed(data):
                if command.opaque == self._opaque:
                    return command


def _request(code: RequestCode, opaque: int, fields: dict[str, str]) -> RemotingCommand:
    return RemotingCommand(code=code, opaque=opaque, version=Version.V5_4_0, ext_fields=fields or None)


def _answered(command: RemotingCommand) -> Answered:
    if command.code in _ABSENT:
        return Answered(None)
    if command.code != ResponseCode.SUCCESS:
        return Answered(None, command.remark or f"result code {command.code}")
    return Answered(decode_json(command.body, _any_decoder, "answer") if command.body else None)
