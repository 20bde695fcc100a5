"""The beginnings of a connection, byte by byte and without a socket."""

import struct

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway import inbound as inbound_module
from namesrv_stream.gateway.inbound import Inbound, Terms
from namesrv_stream.wire.frame import Opening
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
from tests.data import data

OPEN = Terms(has_tls=True, has_plain_text=True, is_trusted_proxy=True)
CASES = data(__file__, "cases/handshakes.yaml")
HELLO = b"\x16\x03\x01\x02\0"
V1 = b"PROXY TCP4 192.0.2.7 127.0.0.1 5000 9876\r\n"
V2 = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes([192, 0, 2, 7, 127, 0, 0, 1]) + struct.pack(">HH", 5000, 9876)
PARTS = {
    "frame": encode_command(RemotingCommand(code=105)),
    "hello": HELLO,
    "v1": V1,
    "v2": V2,
    "unknown": b"PROXY UNKNOWN\r\n",
    "http": b"GET / HTTP/1.1\r\n",
}


def sent_of(parts):
    return b"".join(PARTS[each] for each in parts.split())


class Inside:
    """A TLS session whose ciphertext is its plain text."""

    def __init__(self, _context):
        self.is_shaken = True

    def received(self, data, _send):
        return data.removeprefix(HELLO)


@pytest.fixture(autouse=True)
def without_encryption(monkeypatch):
    monkeypatch.setattr(inbound_module, "TlsSession", Inside)


def begun(terms=OPEN):
    return Inbound(terms, object, lambda _: None)


def codes(inbound, data):
    """The request codes in what it is fed byte by byte."""
    return [command.code for at in range(len(data)) for command in inbound.feed(data[at : at + 1])]


@pytest.mark.parametrize(("parts", "is_tls", "source"), CASES["let in"])
def test_first_bytes_lead_to_frames_also_if_they_come_at_once(parts, is_tls, source):
    at_once, sent = begun(), sent_of(parts)
    assert [command.code for command in at_once.feed(sent)] == [105]
    assert (at_once.opening, at_once.tls is not None, at_once.source) == (Opening.REMOTING, is_tls, source)
    if not is_tls:
        assert codes(begun(), sent + PARTS["frame"]) == [105, 105]


@pytest.mark.parametrize(("terms", "parts", "said"), CASES["refused"])
def test_what_a_peer_may_not_begin_with_is_refused_in_words(terms, parts, said):
    with pytest.raises(NamesrvError, match=said) as refused:
        codes(begun(OPEN._replace(**terms)), sent_of(parts))
    assert "192.0.2.7" not in str(refused.value), "the words of a header are not repeated"


@pytest.mark.parametrize("inside", [b"\x16\x03", V1, V2, PARTS["http"]])
def test_nothing_but_frames_is_taken_inside_tls(inside):
    inbound = begun()
    assert list(inbound.feed(HELLO)) == []
    with pytest.raises(NamesrvError, match="not RocketMQ's remoting"):
        codes(inbound, inside)
