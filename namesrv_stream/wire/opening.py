"""Recognise a connection's protocol by its first bytes, and read PROXY headers.

A remoting frame starts with a zero byte, because its length is under 16 MiB. So it cannot be mistaken for any other
protocol.
"""

from __future__ import annotations

import ipaddress
import struct
from enum import Enum
from typing import NamedTuple

from namesrv_stream.wire.wire_errors import FrameError


class Opening(Enum):
    """The protocol with which a peer begins."""

    REMOTING = "RocketMQ remoting"
    TLS = "TLS"
    HTTP = "HTTP"
    PROXY_V1 = "PROXY v1"
    PROXY_V2 = "PROXY v2"


_PROXY_V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_HTTP_METHODS = b"GET POST PUT HEAD DELETE OPTIONS PATCH CONNECT TRACE PRI".split()
_SIGNATURES = (
    (b"\x16", Opening.TLS),
    (b"PROXY ", Opening.PROXY_V1),
    (_PROXY_V2_SIGNATURE, Opening.PROXY_V2),
    *((method + b" ", Opening.HTTP) for method in _HTTP_METHODS),
)
_PROXY_V1_MAX_BYTES = 107
_PROXY_V2_FIXED_BYTES = 16
_PROXY_V2_ADDRESSES = {0x11: struct.Struct(">4s4sHH"), 0x21: struct.Struct(">16s16sHH")}


def opening_of(first: bytes) -> Opening | None:
    """Return the protocol of a connection that starts with `first`; None if more bytes are needed (12 are enough)."""
    if not first or any(len(first) < len(mark) and mark.startswith(first) for mark, _ in _SIGNATURES):
        return None
    return next((opening for mark, opening in _SIGNATURES if first.startswith(mark)), Opening.REMOTING)


class ProxyHeader(NamedTuple):
    """A load balancer's header. `length_bytes`: bytes to skip. `source`: the peer behind it, None if it names none."""

    length_bytes: int
    source: str | None


def _malformed(reason: str) -> FrameError:
    return FrameError(f"PROXY header cannot be read: {reason}; check the load balancer's PROXY protocol setting")


def proxy_header(first: bytes) -> ProxyHeader | None:
    """Return the PROXY header (v1 or v2) at the start of `first`; None while it is incomplete.

    After the header the connection has another opening. Raises FrameError.
    """
    return _proxy_v2(first) if first.startswith(b"\r") else _proxy_v1(first)


def _proxy_v1(first: bytes) -> ProxyHeader | None:
    line, end, _ = first[:_PROXY_V1_MAX_BYTES].partition(b"\r\n")
    if not end:
        if len(first) >= _PROXY_V1_MAX_BYTES:
            raise _malformed(f"no end of line within {_PROXY_V1_MAX_BYTES} bytes")
        return None
    match line.decode("ascii", "replace").split(" "):
        case ["PROXY", "UNKNOWN", *_]:
            source = None
        case ["PROXY", "TCP4" | "TCP6", host, _, port, _]:
            source = _source(host, port)
        case _:
            raise _malformed(f"line {line!r}")
    return ProxyHeader(len(line) + 2, source)


def _source(host: str, port: str) -> str:
    """Return the address in a text header.

    It is checked, because no free text of a peer may get into logs and tables.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise _malformed(f"source {host!r} is no address") from None
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise _malformed(f"source port {port!r} is no port")
    return f"{address}:{int(port)}"


def _proxy_v2(first: bytes) -> ProxyHeader | None:
    if len(first) < _PROXY_V2_FIXED_BYTES:
        return None
    version_and_command, family, length = struct.unpack_from(">BBH", first, len(_PROXY_V2_SIGNATURE))
    if not first.startswith(_PROXY_V2_SIGNATURE) or version_and_command not in (0x20, 0x21):
        raise _malformed(f"version and command {version_and_command:#04x}")
    if len(first) < _PROXY_V2_FIXED_BYTES + length:
        return None
    addresses = _PROXY_V2_ADDRESSES.get(family) if version_and_command == 0x21 else None
    if addresses is None:
        return ProxyHeader(_PROXY_V2_FIXED_BYTES + length, None)
    if length < addresses.size:
        raise _malformed(f"{length} bytes hold no addresses of family {family:#04x}")
    host, _, port, _ = addresses.unpack_from(first, _PROXY_V2_FIXED_BYTES)
    return ProxyHeader(_PROXY_V2_FIXED_BYTES + length, f"{ipaddress.ip_address(host)}:{port}")
