"""A gateway between its connections, a log that acknowledges when the test lets it, and a clock that the test sets."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import KafkaUnreachableError
from namesrv_stream.gateway.answers import AnswerCache, KeptAnswer
from namesrv_stream.gateway.authorization import Authorization
from namesrv_stream.gateway.connection import Connections
from namesrv_stream.gateway.dispatcher import Dispatcher
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.kafka_link import GatewayBusyError
from namesrv_stream.gateway.sending import KafkaSender
from namesrv_stream.gateway.writes import WriteHandler
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import RegisterBroker
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.wire.codes import RequestCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.build import ADDRESS
from tests.gateway.registrations import command
from tests.gateway.transport import Transport, connected

FULL = RegisterBroker
PARTS = [command(topics=topics) for topics in (("A", "B"), ("C", "D"))]
QUARTER_S = 30
"""A quarter of the lease of ADDRESS: the next sign of life after it gets to the log at once."""

NO_TICKS = SimpleNamespace(often_ms=600_000, calm_ms=600_000)
"""Ticks so seldom that no sign of life waits for one."""

LEAVE = RemotingCommand(
    code=RequestCode.UNREGISTER_BROKER,
    ext_fields={"brokerName": "a", "brokerAddr": ADDRESS, "clusterName": "c", "brokerId": "0"},
)


class Log:
    """A link whose records get their places when `acknowledge` is called, at once, or never."""

    address = "127.0.0.1:1"

    def __init__(self, ticks=NO_TICKS):
        self.ticks = ticks
        self.sent, self.records, self.waiting = [], [], []
        self.is_full = self.refuses = self.acknowledges_at_once = False
        self.working = asyncio.Event()
        self.working.set()

    def send(self, request, record=None, host=None):
        if self.refuses:
            raise GatewayBusyError("full")
        place = asyncio.get_running_loop().create_future()
        self.sent.append(request)
        self.records.append(record)
        self.waiting.append((len(self.sent) - 1, place))
        if self.acknowledges_at_once:
            self.acknowledge()
        return place

    def check_room(self, more_bytes, host):
        if self.is_full:
            raise GatewayBusyError("full")

    @asynccontextmanager
    async def turn_to_decode(self, held_bytes, host):
        self.check_room(held_bytes, host)
        await self.working.wait()
        yield

    def acknowledge(self, partition=0):
        for offset, place in self.waiting:
            if not place.done():
                place.set_result(LogPosition(0, partition, offset))
        self.waiting.clear()

    def fail(self):
        for _, place in self.waiting:
            place.set_exception(KafkaUnreachableError(self.address, "lost"))
            place.exception()
        self.waiting.clear()

    @property
    def kinds(self):
        return [type(each) for each in self.sent]


class Here:
    """Decodes large bodies in this process."""

    async def run(self, work):
        return work()


class Clock:
    """A clock that stands still until `passes` is called, and its timers."""

    def __init__(self):
        self.now_s = 0.0
        self.timers = []

    def time(self):
        return self.now_s

    def call_later(self, after_s, call, *args):
        timer = asyncio.Handle(call, args, asyncio.get_running_loop())
        self.timers.append((self.now_s + after_s, timer, lambda: call(*args)))
        return timer

    async def passes(self, seconds):
        """Let time pass; timers go off in their order, each at its own time."""
        until_s = self.now_s + seconds
        while due := [each for each in self.timers if each[0] <= until_s]:
            first = min(due, key=lambda each: each[0])
            self.timers.remove(first)
            self.now_s, timer, call = first
            if not timer.cancelled():
                call()
            await settle()
        self.now_s = until_s


class Site:
    """A gateway between its connections, its link and its clock."""

    def __init__(self, reconcile_ms=300_000):
        self.log = Log()
        self.settings = NamesrvSettings()
        self.clock = Clock()
        self.reasons = []
        sender = KafkaSender(self.log, Here(), "g", self.clock, self.reasons.append)
        self.writes = WriteHandler(sender, reconcile_ms, self.answers())
        self.connections = Connections(self.settings)

    def answers(self, read_to=None, reading_ms=0, log_id="log", **live):
        """Return a snapshot's answers that has read the log up to `read_to`, by default all, with these leases."""
        offset = len(self.log.sent) if read_to is None else read_to
        tables = RouteTables(live=live)
        return AnswerCache(tables, self.settings, offsets={0: offset}, reading_ms=reading_ms, log_id=log_id)

    def connect(self, host="127.0.0.1"):
        return connected(None, self.connections, Transport(host))

    def dispatcher(self, authorization=None):
        metrics = Metrics()
        admits = authorization or Authorization(self.settings, metrics)
        return Dispatcher(self.answers(), self.writes, metrics, admits)

    def ask(self, command, connection):
        """Begin a request that waits for the earlier ones of its connection."""

        async def asking():
            return answer_of(await self.writes.answered(command, connection))

        return asyncio.ensure_future(asking())

    def ask_at_once(self, command, connection):
        """Send a request in this turn. Return None if it has to wait."""
        return self.writes.send_at_once(command, connection)

    async def acknowledged(self, command, connection):
        """Return the code of the answer after Kafka's acknowledgement. Then a quarter of a lease passes."""
        asked = self.ask(command, connection)
        await settle()
        self.log.acknowledge()
        code = (await asked).code
        await self.clock.passes(QUARTER_S)
        return code

    async def lose(self, connection):
        connection.is_lost = True
        self.writes.registering.connection_lost(connection)
        await settle()


def answer_of(answer):
    """Return an answer as a command, also one that is kept encoded."""
    if not isinstance(answer, KeptAnswer):
        return answer
    (command,) = FrameDecoder().feed(answer.prepared.frame(0))
    return command


async def settle():
    """Lets everything go on that waits for nothing."""
    for _ in range(20):
        await asyncio.sleep(0)
