"""The way to Kafka and what is read on it, with a librdkafka whose records nobody takes."""

import asyncio
import threading

import pytest

from namesrv_stream.config import kafka_client_arguments
from namesrv_stream.gateway import kafka_link
from namesrv_stream.gateway.answers import AnswerCache
from namesrv_stream.gateway.connection import Connections
from namesrv_stream.gateway.kafka_link import GatewayBusyError, KafkaLink
from namesrv_stream.gateway.sending import BodyProcesses, KafkaSender
from namesrv_stream.gateway.writes import WriteHandler
from namesrv_stream.kafka.producer import RecordProducer
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.wire.frame import LARGE_BODY_BYTES
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.build import register_request
from tests.faulty import UnforeseenError
from tests.gateway.transport import connected
from tests.waiting import until

OF_A_BROKER = {"brokerName": "b", "brokerAddr": "10.0.0.7:1", "clusterName": "c", "brokerId": "0", "haServerAddr": ""}
PROCESSES = BodyProcesses()
"""Those of all tests: to start one takes longer than what it reads."""


class CountingProducer(RecordProducer):
    """Counts the records that it is handed."""

    handed_over = 0

    def send(self, *record):
        self.handed_over += 1
        super().send(*record)


class Way:
    """A link that has its producer, and the writes over it of one connection."""

    def __init__(self, settings):
        self.link = KafkaLink(settings, lambda error: None)
        self.processes = PROCESSES
        self.producer = CountingProducer(kafka_client_arguments(settings), "topic", 60_000)
        self.link.on_opened(self.producer)
        self.writes = WriteHandler(
            KafkaSender(self.link, self.processes, "gateway"), 0, AnswerCache(RouteTables(), settings)
        )
        self.connection = connected(None, Connections(settings))

    async def answer_or_none(self, command):
        """Return the answer; None if the request is on its way to Kafka."""
        before = self.link.on_the_way
        answering = asyncio.ensure_future(self.writes.answered(command, self.connection))
        while not answering.done() and self.link.on_the_way == before:
            await asyncio.sleep(0.001)
        return answering.result() if answering.done() else None


def registration(number, topics, *, compressed):
    names = [f"topic-{topic:05}" for topic in range(topics)]
    return register_request(counter=number, topics=names, compressed=compressed)


@pytest.mark.parametrize(
    ("command", "is_large"),
    [
        (registration(1, 20, compressed=False), False),
        (registration(1, 20, compressed=True), True),
        (registration(1, 1_000, compressed=False), True),
        (RemotingCommand(code=217, ext_fields={"topic": "T"}, body=b"{}"), False),
        (RemotingCommand(code=217, ext_fields={"topic": "T"}, body=b"{0:" * LARGE_BODY_BYTES), True),
        (RemotingCommand(code=318, body=b"a=b\n" * LARGE_BODY_BYTES), True),
        (RemotingCommand(code=322, ext_fields=OF_A_BROKER, body=b"{}"), False),
        (RemotingCommand(code=322, ext_fields=OF_A_BROKER, body=b"{0:" * LARGE_BODY_BYTES), True),
    ],
)
async def test_a_body_that_is_long_to_read_is_read_in_another_process(settings, monkeypatch, command, is_large):
    way, read_elsewhere = Way(settings()), []
    run = way.processes.run
    monkeypatch.setattr(way.processes, "run", lambda work: read_elsewhere.append(True) or run(work))
    await way.answer_or_none(command)
    assert read_elsewhere == [True] * is_large


async def test_a_small_body_weighs_what_it_inflates_to(settings, monkeypatch):
    monkeypatch.setattr(kafka_link, "MAX_ON_THE_WAY_BYTES", 200_000)
    assert len(registration(0, 1_000, compressed=True).body) < LARGE_BODY_BYTES
    way = Way(settings())
    answers = [await way.answer_or_none(registration(number, 1_000, compressed=True)) for number in range(4)]
    assert answers[0] is None, "on its way"
    assert answers[-1].code == 2, "four records of 79 KB each"


async def decoded(link, held_bytes, host, work):
    async with link.turn_to_decode(held_bytes, host):
        return await work()


@pytest.mark.parametrize("at_a_time", [1, 3])
async def test_large_bodies_of_one_host_wait_for_each_other_and_no_other_host_for_them(settings, at_a_time):
    link, go_on, order = Way(settings(maxLargeBodiesPerAddress=at_a_time)).link, asyncio.Event(), []
    working = []

    async def work():
        working.append(1)
        await go_on.wait()

    async def read(host, work):
        await decoded(link, 1, host, work)
        order.append(host)

    async def nothing():
        pass

    many = [asyncio.ensure_future(read("evil", work)) for _ in range(40)]
    for _ in range(20):
        await asyncio.sleep(0)
    await read("good", nothing)
    assert order == ["good"], "one worker is free for others"
    assert len(working) == at_a_time
    go_on.set()
    await asyncio.gather(*many)


async def test_a_large_body_takes_room_of_its_host_while_it_waits_to_be_read(settings):
    link, go_on, half = Way(settings()).link, asyncio.Event(), kafka_link.MAX_ON_THE_WAY_BYTES // 2
    waiting = asyncio.ensure_future(decoded(link, half, "a", go_on.wait))
    await asyncio.sleep(0)
    link.check_room(half, "b")
    with pytest.raises(GatewayBusyError):
        link.check_room(1, "a")
    go_on.set()
    await waiting
    link.check_room(half, "a")


async def test_a_large_body_that_has_no_turn_in_time_is_answered_busy(settings, monkeypatch):
    monkeypatch.setattr(kafka_link, "TURN_LIMIT_S", 0.05)
    way, go_on = Way(settings()), asyncio.Event()
    first = asyncio.ensure_future(decoded(way.link, 1, way.connection.host, go_on.wait))
    await asyncio.sleep(0)
    answer = await way.answer_or_none(registration(1, 1_000, compressed=True))
    assert (answer.code, "took over 0.05 s" in answer.remark) == (2, True)
    assert "maxLargeBodiesPerAddress" in answer.remark
    go_on.set()
    await first


async def test_an_unexpected_error_does_not_end_the_way_to_kafka(settings, monkeypatch, caplog):
    """The thread tries again; what it meets is in the log."""
    tried = threading.Semaphore(0)

    def broken(*_, **__):
        tried.release()
        raise TypeError("nobody expects this")

    monkeypatch.setattr(kafka_link, "wait_for_kafka", broken)
    monkeypatch.setattr(kafka_link, "RETRY_S", 0.01)
    async with KafkaLink(settings(), lambda error: None) as link:
        for _ in range(3):
            assert await asyncio.to_thread(tried.acquire, timeout=30)
        assert not link.is_connected
    assert "nobody expects this" in caplog.text


async def test_a_link_that_is_closed_during_an_attempt_announces_no_next_one(settings, monkeypatch, caplog):
    has_begun, is_closed = threading.Event(), threading.Event()

    def attempt(*_args, **_options):
        has_begun.set()
        is_closed.wait(30)
        raise UnforeseenError

    monkeypatch.setattr(kafka_link, "wait_for_kafka", attempt)
    async with KafkaLink(settings(), lambda error: None):
        assert await asyncio.to_thread(has_begun.wait, 30)
    is_closed.set()
    until(lambda: all(each.name != "kafka-link" for each in threading.enumerate()))
    assert "Retrying in" not in caplog.text


async def test_a_link_that_is_closed_gives_up_its_records_without_a_word_about_kafka(settings, caplog):
    way = Way(settings(tickMillis=10))
    async with way.link, asyncio.timeout(30):
        while not way.link.ticks.is_on_its_way:
            await asyncio.sleep(0)
    assert "SYSTEM_BUSY until" not in caplog.text


async def test_while_kafka_takes_no_tick_one_is_on_its_way_and_that_is_logged_once_until_the_next_follows_its_end(
    settings, caplog
):
    """Ticks are no peer's records: they count for none of the limits."""
    way = Way(settings(tickMillis=10))
    async with asyncio.timeout(30):
        while way.link.is_connected:
            await asyncio.sleep(0)
        assert (way.producer.handed_over, way.link.on_the_way) == (1, 0)
        way.producer.give_up()
        while way.producer.handed_over < 3:
            await asyncio.sleep(0)
            way.producer.give_up()
    assert not way.link.is_connected, "the last tick has failed"
    assert caplog.text.count("SYSTEM_BUSY until") == 1
