"""The security protocol of a listener of Kafka, for the message to a client that has another one.

A listener of another protocol closes the connection, and clients report that as silence.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from typing import Literal

Protocol = Literal["PLAINTEXT", "SASL_PLAINTEXT", "SSL or SASL_SSL"]

_LIMIT_S = 2.0
_API_VERSIONS, _METADATA = 18, 3
_HEADER = struct.Struct(">ihhih")
_LENGTH = struct.Struct(">ii")
_CORRELATION_ID = 7
_MOST_BYTES = 1 << 20


def other_protocol(servers: str, wanted: str) -> str | None:
    """Return what to say of the first server that answers by another protocol than `wanted`, None if there is none."""
    for server in servers.split(","):
        found = _protocol_at(server.strip())
        if found is not None and wanted not in found.split(" or "):
            return f"{server.strip()} answers by {found}, and this client has security.protocol={wanted}"
    return None


def _protocol_at(server: str) -> Protocol | None:
    """Return the protocol of the listener at host:port, None if nobody answers there by any."""
    host, _, port = server.rpartition(":")
    with suppress(OSError, ValueError):
        at = host.strip("[]"), int(port)
        with suppress(OSError), socket.create_connection(at, _LIMIT_S) as plain:
            if _answers(plain, _API_VERSIONS, b""):
                return "PLAINTEXT" if _answers(plain, _METADATA, struct.pack(">i", 0)) else "SASL_PLAINTEXT"
        with socket.create_connection(at, _LIMIT_S) as connection, _unverified().wrap_socket(connection):
            return "SSL or SASL_SSL"
    return None


def _answers(connection: socket.socket, request: int, body: bytes) -> bool:
    """Return whether a listener answers a request, of version 0, which it does not before SASL has ended."""
    head = _HEADER.pack(_HEADER.size - 4 + len(body), request, 0, _CORRELATION_ID, 0)
    with suppress(OSError, struct.error):
        connection.sendall(head + body)
        length, found = _LENGTH.unpack(connection.recv(_LENGTH.size, socket.MSG_WAITALL))
        if found == _CORRELATION_ID:
            connection.recv(min(length, _MOST_BYTES) - 4, socket.MSG_WAITALL)
            return True
    return False


def _unverified() -> ssl.SSLContext:
    """Return the context of a client that sends nothing and only wants to know whether TLS is spoken."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
