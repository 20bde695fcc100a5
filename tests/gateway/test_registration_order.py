"""Requests of brokers, from their bytes to the log: in order, and each answered once."""

from msgspec.structs import replace

from namesrv_stream.gateway import registering
from namesrv_stream.gateway.authorization import Authorization
from namesrv_stream.gateway.dispatcher import Dispatcher
from namesrv_stream.gateway.gateway_metrics import Metrics
from namesrv_stream.gateway.writes import MAX_AT_ONCE_BYTES
from namesrv_stream.rules.record_types import RegisterBroker
from namesrv_stream.wire.codes import Flag, ResponseCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import encode_command
from tests.gateway.site import settle
from tests.gateway.test_known_brokers import command
from tests.gateway.transport import Transport, connected

LARGE = command(counter=2, topics=[f"topic-{number}" for number in range(MAX_AT_ONCE_BYTES // 128)])


class Peer:
    """A broker's connection through the dispatcher."""

    def __init__(self, site):
        metrics = Metrics()
        dispatcher = Dispatcher(site.answers(), site.writes, metrics, Authorization(site.settings, metrics))
        self._transport = Transport()
        self.connection = connected(dispatcher, site.connections, self._transport)

    async def sends(self, *commands):
        frames = [encode_command(replace(each, opaque=number)) for number, each in enumerate(commands)]
        self.connection.data_received(b"".join(frames))
        await settle()

    @property
    def answers(self):
        """Opaque and code of each answer, in order."""
        return [(answer.opaque, answer.code) for answer in FrameDecoder().feed(bytes(self._transport.written))]


async def test_small_and_large_registrations_get_to_the_log_in_the_order_of_their_connection(site):
    peer = Peer(site)
    await peer.sends(command(), LARGE, command(counter=3))
    assert peer.answers == [], "Kafka has taken none of them"
    versions = [each.data_version.counter for each in site.log.sent if isinstance(each, RegisterBroker)]
    assert versions == [1, 2, 3]
    site.log.acknowledge()
    await settle()
    assert sorted(peer.answers) == [(0, 0), (1, 0), (2, 0)]


async def test_a_oneway_small_registration_is_in_the_log_and_has_no_answer(site):
    peer = Peer(site)
    await peer.sends(replace(command(), flag=Flag.ONEWAY))
    site.log.acknowledge()
    await settle()
    assert site.log.kinds == [RegisterBroker]
    assert peer.answers == []


async def test_an_error_of_ours_in_a_small_registration_is_an_answer_and_its_connection_stays(site, monkeypatch):

    def register_broker(*_arguments):
        raise ValueError("of ours")

    peer = Peer(site)
    with monkeypatch.context() as patch:
        patch.setattr(registering, "read_registration", register_broker)
        await peer.sends(command())
    assert peer.answers == [(0, ResponseCode.SYSTEM_ERROR)]
    assert not peer.connection.is_closing
    await peer.sends(command())
    assert site.log.kinds == [RegisterBroker]
