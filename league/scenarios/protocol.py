"""Bytes on the wire that are wrong, or that only some releases know."""

from __future__ import annotations

import struct

from league.scenario import scenario
from league.trial import Trial
from namesrv_stream.wire.codes import RequestCode, ResponseCode, Version

_CLOSED_WITHIN_S = 5.0
_BINARY_HEADER = struct.Struct(">hbhiii")
_GRPC_OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)
_V4_9_7 = 407


@scenario("apache/rocketmq#3474")
def a_wrong_length_of_the_remark_costs_its_own_connection(trial: Trial) -> None:
    """A frame with a wrong length of its remark makes the server set aside memory for it, again and again.

    Right: The connection is closed, and others are served.
    """
    trial.broker().register(trial.topics("t", "u"))
    trial.settle()
    for length in (-1, 0x7FFFFFFF, 1 << 24):
        header = _BINARY_HEADER.pack(RequestCode.GET_ROUTEINFO_BY_TOPIC, 0, Version.V5_4_0, 1, 0, length) + bytes(16)
        frame = struct.pack(">II", 4 + len(header), 1 << 24 | len(header)) + header
        attacker = trial.connect()
        attacker.send_raw(frame)
        trial.expect(f"closed with remark length {length}", attacker.is_closed_by_server(_CLOSED_WITHIN_S), True)
    trial.expect("the topics with a route", trial.routed(["t", "u"]), ["t", "u"])


@scenario("apache/rocketmq#8086", "apache/rocketmq-clients#742")
def a_grpc_client_at_the_wrong_port_costs_its_own_connection(trial: Trial) -> None:
    """A gRPC client has the name server's address for its own endpoint. Its first bytes are a frame of 1.3 GB.

    Right: The connection is closed, and others are served.
    """
    trial.broker().register(trial.topics("t", "u"))
    trial.settle()
    stray = trial.connect()
    stray.send_raw(_GRPC_OPENING)
    trial.expect("closed", stray.is_closed_by_server(_CLOSED_WITHIN_S), True)
    trial.expect("the topics with a route", trial.routed(["t", "u"]), ["t", "u"])


@scenario("apache/rocketmq#5536", "apache/rocketmq#5539")
def compressed_registrations_of_both_release_lines_are_read(trial: Trial) -> None:
    """Brokers with compressedRegister=true and name servers are upgraded one after the other. Registrations of 4.x fail
    at 5.x, and those of 5.x at 4.x.

    Right: The compressed registrations of both are read.
    """
    codes = {}
    for version in (_V4_9_7, Version.V5_4_0):
        broker = trial.broker(f"of-{version}", version=int(version))
        codes[int(version)] = broker.register(trial.topics(f"t-{version}", "u"), compressed=True).code
    trial.settle()
    trial.expect("codes by release", codes, {_V4_9_7: ResponseCode.SUCCESS, int(Version.V5_4_0): ResponseCode.SUCCESS})
    every = [f"t-{_V4_9_7}", f"t-{Version.V5_4_0:d}"]
    trial.expect("the topics with a route", trial.routed(every), every)
