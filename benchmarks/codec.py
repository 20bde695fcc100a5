"""Measure the codec beside a floor: Python's own json.loads of the same text, or a copy of the bytes.

python benchmarks/codec.py
"""

from __future__ import annotations

import json
import timeit
import zlib
from collections.abc import Callable
from functools import partial

from benchmarks.peers import registration_of
from namesrv_stream.records import encode_record
from namesrv_stream.rules.record_types import QueueData, TopicConfig
from namesrv_stream.rules.route_data import BrokerData, TopicRouteData
from namesrv_stream.wire.bodies import encode_body
from namesrv_stream.wire.codes import Version
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.headers import RegisterBrokerHeader
from namesrv_stream.wire.registration_request import (
    body_crc32,
)
from namesrv_stream.wire.remoting_command import PreparedAnswer, RemotingCommand, encode_command
from namesrv_stream.wire.write_requests import register_broker


def best_us(action: Callable[[], object]) -> float:
    """Return the microseconds of a call, the best of five rounds of at least 0.2 s each."""
    timer = timeit.Timer(action)
    calls, _ = timer.autorange()
    return min(timer.repeat(5, calls)) / calls * 1e6


def report(what: str, action: Callable[[], object], floor_name: str, floor: Callable[[], object]) -> None:
    """Print one line: the name of the measurement, its time, its floor, and their ratio."""
    taken_us, floor_us = best_us(action), best_us(floor)
    print(f"{what:<58} {taken_us:>10.2f} us   {floor_name:<28} {floor_us:>10.2f} us   x {taken_us / floor_us:.2f}")


def route_answer() -> RemotingCommand:
    """Return the route of a topic on four broker groups of two."""
    names = [f"broker-{n}" for n in range(4)]
    body = TopicRouteData(
        queue_datas=[QueueData(name, 8, 8, 6) for name in names],
        broker_datas=[BrokerData(name, "C", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, False) for name in names],
        filter_server_table={},
    )
    return RemotingCommand(code=0, flag=1, body=encode_body(body))


def registration(topics: int, *, compressed: bool) -> bytes:
    """Return the frame with which a 5.4.0 broker registers that many topics."""
    table = {f"TopicOfTheBenchmark-{n:05}": TopicConfig(8, 8, 6) for n in range(topics)}
    header = RegisterBrokerHeader(
        broker_name="broker-a",
        broker_addr="10.0.0.1:10911",
        cluster_name="C",
        ha_server_addr="10.0.0.1:10912",
        broker_id=0,
        enable_acting_master=False,
        compressed=compressed,
    )
    return encode_command(registration_of(header, table, 1, version=Version.V5_4_0))


def bench_lookups() -> None:
    """Measure one route request, as clients send it every 30 s for each of their topics."""
    decoder, answer = FrameDecoder(), route_answer()
    prepared = PreparedAnswer(answer)
    request = encode_command(RemotingCommand(code=105, opaque=4711, ext_fields={"topic": "TopicOfTheBenchmark"}))
    header = request[8:]

    def whole_lookup() -> list[bytes]:
        return [prepared.frame(command.opaque) for command in decoder.feed(request)]

    report(
        "decode a route request",
        lambda: list(decoder.feed(request)),
        "json.loads of its header",
        lambda: json.loads(header),
    )
    report("encode its answer anew", lambda: encode_command(answer), "copy of its body", lambda: bytearray(answer.body))
    report(
        "encode its answer from the prepared one",
        lambda: prepared.frame(4711),
        "copy of its body",
        lambda: bytearray(answer.body),
    )
    report(
        "decode, and answer from the prepared one", whole_lookup, "json.loads of the header", lambda: json.loads(header)
    )


def bench_registrations() -> None:
    """Measure registrations of small, usual and very large brokers, in both forms."""
    for topics in (20, 1_000, 10_000):
        for compressed in (False, True):
            bench_registration(topics, compressed=compressed)


def bench_registration(topics: int, *, compressed: bool) -> None:
    """Measure one registration, step by step on its way from the socket to Kafka."""
    decoder, frame = FrameDecoder(), registration(topics, compressed=compressed)
    (command,) = decoder.feed(frame)
    request = register_broker(command)
    record = encode_record(request)
    form = "compressed" if compressed else "plain"
    floor = ("zlib.decompress", zlib.decompress) if compressed else ("json.loads of its body", json.loads)
    report(f"frame of {topics} topics, {form}", lambda: list(decoder.feed(frame)), "copy", lambda: bytearray(frame))
    report("  its checksum", lambda: body_crc32(command.body), "zlib.crc32", lambda: zlib.crc32(command.body))
    report("  to a registration", lambda: register_broker(command), floor[0], lambda: floor[1](command.body))
    report("  to a Kafka record", lambda: encode_record(request), "copy of it", lambda: bytearray(record))


def bench_large_frame_in_pieces() -> None:
    """Measure a large frame in the pieces in which a socket delivers it."""
    frame = encode_command(RemotingCommand(code=103, body=bytes(8 * 1024 * 1024)))
    for size in (1_000, 64_000):
        pieces = [frame[at : at + size] for at in range(0, len(frame), size)]

        def feed(pieces: list[bytes] = pieces) -> int:
            decoder = FrameDecoder()
            return sum(1 for piece in pieces for _ in decoder.feed(piece))

        report(f"8 MiB frame in pieces of {size} bytes", feed, "b''.join", partial(b"".join, pieces))


if __name__ == "__main__":
    bench_lookups()
    bench_registrations()
    bench_large_frame_in_pieces()
