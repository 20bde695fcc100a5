"""Measure the gateway's CPU time a writing request, without sockets and Kafka: from its bytes to its answer's bytes.

    .venv/bin/python -m benchmarks.requests

Kafka is an object that takes each record at once. CPU time is that of this process, so other work on the machine makes
the figures no more than a little worse.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

from benchmarks.harness import Bench, benchmark, option
from benchmarks.peers import registration
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.gateway.authorization import Authorization
from namesrv_stream.gateway.connection import Connection, Connections
from namesrv_stream.gateway.dispatcher import Dispatcher
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.kafka_link import KafkaLink, Ticks
from namesrv_stream.gateway.sending import BodyProcesses, KafkaSender
from namesrv_stream.gateway.writes import WriteHandler
from namesrv_stream.records import encode_record
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import Request
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.codes import Flag, RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

T = TypeVar("T")
BROKERS = 8
_ROUNDS_BY_TOPICS = {20: 250, 1_000: 40, 10_000: 4}


class _Peer(asyncio.Transport):
    """A peer that takes all answers. All peers are of one host, as a lone host never waits for its share of time."""

    def __init__(self, number: int) -> None:
        super().__init__({"peername": ("127.0.0.1", 5000 + number)})
        self.answers = 0
        self.refusals: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take an answer."""
        self.answers += 1
        if b'"code":0,' not in data:
            self.refusals.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Send what comes all the same."""

    def resume_reading(self) -> None:
        """Send what comes all the same."""


class _Log:
    """Takes each record at once, and sends no ticks. Make it in the event loop."""

    address = "nowhere"

    def __init__(self, settings: NamesrvSettings) -> None:
        self.records = 0
        self.ticks = Ticks(asyncio.get_running_loop(), settings.tick_millis)

    def send(self, request: Request, record: bytes | None = None, host: str = "") -> asyncio.Future[LogPosition]:
        del host
        if record is None:
            encode_record(request)
        loop = asyncio.get_running_loop()
        place: asyncio.Future[LogPosition] = loop.create_future()
        loop.call_soon(place.set_result, LogPosition(0, 0, self.records))
        self.records += 1
        return place

    @asynccontextmanager
    async def turn_to_decode(self, held_bytes: int, host: str) -> AsyncIterator[None]:
        del held_bytes, host
        yield

    def check_room(self, more_bytes: int, host: str) -> None:
        """Have room for all."""


class _Here(BodyProcesses):
    """Decodes large bodies in this process."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()


def connected(log: _Log, settings: NamesrvSettings, peers: Sequence[_Peer]) -> list[Connection]:
    """Return the peers' connections to a gateway that sends its records to `log`. Call it in the event loop."""
    answers, metrics = AnswerCache(RouteTables(), settings), Metrics()
    writes = WriteHandler(
        KafkaSender(cast(KafkaLink, log), _Here(), "gateway"), settings.reconcile_interval_millis, answers
    )
    dispatcher = Dispatcher(answers, writes, metrics, Authorization(settings, metrics))
    shared = Connections(settings)
    found = [Connection(dispatcher, shared) for _ in peers]
    for connection, peer in zip(found, peers, strict=True):
        connection.connection_made(peer)
    return found


def registrations(number: int, topics: int, count: int) -> list[bytes]:
    """Return frames of one broker that differ in version and a topic each."""
    return [encode_command(registration(number, topics, counter, "r")) for counter in range(1, 1 + count)]


def heartbeat(number: int) -> bytes:
    """Return the frame of a oneway BROKER_HEARTBEAT of the broker that `registrations` gives this number."""
    said = registration(number, 20, 1, "r").ext_fields or {}
    named = {field: said[field] for field in ("brokerAddr", "brokerName", "clusterName")}
    return encode_command(RemotingCommand(code=RequestCode.BROKER_HEARTBEAT, flag=Flag.ONEWAY, ext_fields=named))


async def cpu_us(
    registered: Sequence[bytes], frames: Sequence[Sequence[bytes]], rounds: int, *, is_answered: bool
) -> tuple[float, float]:
    """Return microseconds of CPU a request, and records a request. `frames`: the requests of each broker in turn."""
    settings, peers = NamesrvSettings(), [_Peer(number) for number in range(BROKERS)]
    log = _Log(settings)
    connections = connected(log, settings, peers)
    for connection, frame in zip(connections, registered, strict=True):
        connection.data_received(frame)
    await _answered(peers, 1)
    series: list[Iterator[bytes]] = [itertools.cycle([*each[1:], each[0]]) for each in frames]
    records, began_s = log.records, time.process_time()
    for number in range(rounds):
        for connection, each in zip(connections, series, strict=True):
            connection.data_received(next(each))
        await _answered(peers, 2 + number if is_answered else 1)
    count = rounds * len(connections)
    return (time.process_time() - began_s) / count * 1e6, (log.records - records) / count


async def _answered(peers: Sequence[_Peer], answers: int) -> None:
    """Return when each peer has as many answers. A oneway request has none, and is taken at once.

    Raises RuntimeError if a request is refused: refusals are not what is measured.
    """
    await asyncio.sleep(0)
    while any(peer.answers < answers for peer in peers):
        await asyncio.sleep(0)
    if refusals := [refusal for peer in peers for refusal in peer.refusals]:
        raise RuntimeError(refusals[0].decode(errors="replace"))


def kinds() -> dict[str, tuple[list[bytes], list[list[bytes]], int]]:
    """Return each kind of request by name: the brokers' first registrations, their requests, and the rounds."""
    found, numbers = {}, range(BROKERS)
    for topics, rounds in _ROUNDS_BY_TOPICS.items():
        for changed in (False, True):
            frames = [registrations(number, topics, rounds + 1 if changed else 1) for number in numbers]
            what = f"registration of {topics:,} topics, {'changed' if changed else 'unchanged'}"
            found[what] = ([each[0] for each in frames], frames, rounds)
    registered = [registrations(number, 20, 1)[0] for number in numbers]
    return found | {"heartbeat": (registered, [[heartbeat(number)] for number in numbers], 500)}


@benchmark(option("--repeats", 3))
def main(bench: Bench, repeats: int) -> None:
    """Print the figures: the best of some runs each."""
    rows = []
    for what, kind in kinds().items():
        us, records = min(asyncio.run(cpu_us(*kind, is_answered=what != "heartbeat")) for _ in range(repeats))
        rows.append((what, f"{us:,.0f}", f"{records:.2f}"))
    bench.rows(("request", "CPU, µs", "records a request"), rows)


if __name__ == "__main__":
    main()
