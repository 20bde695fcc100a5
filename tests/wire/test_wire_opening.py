"""The protocol of a connection by its first bytes, and a load balancer's PROXY header."""

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_stream.errors import FrameError
from namesrv_stream.wire.frame import Opening, ProxyHeader, opening_of, proxy_header

V2_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


@pytest.mark.parametrize(
    ("first", "opening"),
    [
        (b"", None),
        (b"\x16", Opening.TLS),
        (b"\x00", Opening.REMOTING),
        (b"P", None),
        (b"PU", None),
        (b"PUT ", Opening.HTTP),
        (b"PUTT", Opening.REMOTING),
        (b"PROXY", None),
        (b"PROXY ", Opening.PROXY_V1),
        (b"PRI * HTTP/2.0\r\n", Opening.HTTP),
        (b"GET /healthz HTTP/1.1\r\n", Opening.HTTP),
        (b"\r", None),
        (V2_SIGNATURE[:11], None),
        (V2_SIGNATURE, Opening.PROXY_V2),
        (b"\r\n\r\n\x00\r\nQUIX\n", Opening.REMOTING),
        (b"SSH-2.0", Opening.REMOTING),
    ],
)
def test_an_opening_is_recognised_by_its_first_bytes(first, opening):
    assert opening_of(first) is opening


@given(st.binary(min_size=1, max_size=16))
def test_more_bytes_never_change_what_was_recognised(first):
    told = [opening_of(first[:size]) for size in range(1, len(first) + 1)]
    known = [opening for opening in told if opening is not None]
    assert len(set(known)) <= 1
    assert told == [None] * (len(told) - len(known)) + known


ADDRESSES_4 = b"\x0a\x00\x00\x01\x7f\x00\x00\x01" + struct.pack(">HH", 5000, 9876)
ADDRESSES_6 = socket.inet_pton(socket.AF_INET6, "fe80::1") * 2 + struct.pack(">HH", 5000, 9876)


def v2(command=0x21, family=0x11, addresses=ADDRESSES_4):
    return V2_SIGNATURE + struct.pack(">BBH", command, family, len(addresses)) + addresses


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (b"PROXY TCP4 10.0.0.1 127.0.0.1 5000 9876\r\n", "10.0.0.1:5000"),
        (b"PROXY TCP6 fe80::1 ::1 5000 9876\r\n", "fe80::1:5000"),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff:f...f:ffff 1 2 3\r\n", None),
        (v2(), "10.0.0.1:5000"),
        (v2(family=0x21, addresses=ADDRESSES_6), "fe80::1:5000"),
        (v2(addresses=ADDRESSES_4 + b"tlv"), "10.0.0.1:5000"),
        (v2(command=0x20, addresses=b""), None),
        (v2(family=0x31, addresses=b"unix"), None),
    ],
)
def test_a_proxy_header_has_its_length_and_the_address_behind_it(header, source):
    assert proxy_header(header + b"\x00\x00") == ProxyHeader(len(header), source)
    assert all(proxy_header(header[:size]) is None for size in range(6, len(header)))


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 10.0.0.1\r\n",
        b"PROXY SCTP 1 2 3 4\r\n",
        b"PROXY TCP4 evil\x1b[2J 127.0.0.1 1 2\r\n",
        b"PROXY TCP4 300.1.1.1 127.0.0.1 1 2\r\n",
        b"PROXY TCP4 10.0.0.1 127.0.0.1 x 2\r\n",
        b"PROXY " + b"x" * 200,
        v2(command=0x11),
        v2(addresses=b""),
    ],
)
def test_broken_proxy_header_is_refused(header):
    with pytest.raises(FrameError, match="PROXY header cannot be read"):
        proxy_header(header)
