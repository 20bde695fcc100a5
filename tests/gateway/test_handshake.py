"""The beginnings of a connection, byte by byte and without a socket."""

import struct

import pytest

from namesrv_stream.gateway.handshake import Handshake, HandshakeRefusedError, Stage, Terms
from namesrv_stream.wire.wire_errors import FrameError

OPEN = Terms(has_tls=True, has_plain_text=True, is_trusted_proxy=True)
FRAME = b"\0\0\0\x10rest"
HELLO = b"\x16\x03\x01\x02\0"
V1 = b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 9876\r\n"
V2 = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes([192, 0, 2, 7, 127, 0, 0, 1]) + struct.pack(">HH", 5000, 9876)


def fed(handshake, data):
    """Byte by byte: what it gives, and how many bytes it has waited for."""
    for at in range(len(data)):
        rest = handshake.feed(data[at : at + 1])
        if rest is not None:
            return rest + data[at + 1 :], at + 1
    return None, len(data)


@pytest.mark.parametrize(
    ("sent", "stage", "source"),
    [
        (FRAME, Stage.FRAMES, None),
        (HELLO, Stage.TLS, None),
        (V1 + FRAME, Stage.FRAMES, "192.0.2.7:5000"),
        (V2 + FRAME, Stage.FRAMES, "192.0.2.7:5000"),
        (V1 + HELLO, Stage.TLS, "192.0.2.7:5000"),
        (b"PROXY UNKNOWN\r\n" + FRAME, Stage.FRAMES, None),
    ],
)
def test_first_bytes_lead_to_a_stage_and_are_given_to_it(sent, stage, source):
    handshake = Handshake(OPEN)
    rest, _ = fed(handshake, sent)
    assert (handshake.stage, handshake.source) == (stage, source)
    assert rest == (FRAME if stage is Stage.FRAMES else HELLO)
    at_once = Handshake(OPEN)
    assert (at_once.feed(sent), at_once.stage, at_once.source) == (rest, stage, source)


def test_plain_text_inside_tls_leads_to_frames():
    handshake = Handshake(OPEN._replace(has_plain_text=False))
    assert handshake.feed(HELLO) == HELLO
    assert fed(handshake, FRAME) == (FRAME, 1)
    assert handshake.stage is Stage.FRAMES


@pytest.mark.parametrize(
    ("terms", "sent", "said"),
    [
        (OPEN._replace(has_tls=False), HELLO, "speaks TLS: set tls.server.certPath"),
        (OPEN._replace(has_plain_text=False), FRAME, "tls.server.mode is enforcing"),
        (OPEN._replace(has_plain_text=False), V1 + FRAME, "tls.server.mode is enforcing"),
        (OPEN._replace(is_trusted_proxy=False), V1 + FRAME, "add it to proxyProtocol.trusted"),
        (OPEN._replace(is_trusted_proxy=False), V2 + FRAME, "add it to proxyProtocol.trusted"),
        (OPEN, V1 + V1, "speaks PROXY v1"),
        (OPEN, V1 + V2, "speaks PROXY v2"),
        (OPEN, b"GET / HTTP/1.1\r\n", "speaks HTTP"),
        (OPEN, V1 + b"GET / HTTP/1.1\r\n", "speaks HTTP"),
    ],
)
def test_what_a_peer_may_not_begin_with_is_refused_in_words(terms, sent, said):
    with pytest.raises(HandshakeRefusedError, match=said):
        fed(Handshake(terms), sent)


@pytest.mark.parametrize("inside", [HELLO, V1, V2, b"GET / HTTP/1.1\r\n"])
def test_nothing_but_frames_is_taken_inside_tls(inside):
    handshake = Handshake(OPEN)
    handshake.feed(HELLO)
    with pytest.raises(HandshakeRefusedError):
        fed(handshake, inside)


@pytest.mark.parametrize("source", ["evil\x1b[2J 127.0.0.1 1 2", "300.1.1.1 127.0.0.1 1 2", "10.0.0.1 127.0.0.1 x 2"])
def test_a_proxy_header_names_an_address_and_nothing_else(source):
    with pytest.raises(FrameError, match="PROXY header cannot be read"):
        fed(Handshake(OPEN), f"PROXY TCP4 {source}\r\n".encode())
