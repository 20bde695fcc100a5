"""One connection without a socket: when its requests are answered, and when its memory is free."""

import asyncio
import gc
import weakref

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.gateway.connections import Connections, PeerLimits
from namesrv_stream.gateway.tls import Certificates
from namesrv_stream.gateway.turns import MOMENT_S
from namesrv_stream.wire.command import RemotingCommand, encode_command
from tests.gateway.transport import Transport, connected

REQUEST = encode_command(RemotingCommand(code=106))
HEAVY, LIGHT = "10.0.0.1", "10.0.0.2"


class Answering:
    """Answers each request with its own bytes."""

    lookups = None

    def answer(self, command, connection):
        return encode_command(command)

    def connection_lost(self, connection):
        pass


def open_connections(limits=None):
    return Connections(Certificates(NamesrvSettings()), "disabled", limits)


def test_a_heavy_host_is_answered_in_a_later_round_and_others_at_once():
    async def scenario():
        connections = open_connections()
        transports = {host: Transport(host) for host in (HEAVY, LIGHT)}
        opened = {host: connected(Answering(), connections, each) for host, each in transports.items()}
        for connection in opened.values():
            connection.data_received(REQUEST)
        now_s = asyncio.get_running_loop().time()
        connections.loop_time.spend(LIGHT, now_s, 0.0)
        connections.loop_time.spend(HEAVY, now_s, 2 * MOMENT_S)
        for connection in opened.values():
            connection.data_received(REQUEST)
        assert (transports[HEAVY].written, transports[LIGHT].written) == (REQUEST, 2 * REQUEST)
        assert (transports[HEAVY].is_reading_paused, transports[LIGHT].is_reading_paused) == (True, False)
        async with asyncio.timeout(30):
            while transports[HEAVY].written != 2 * REQUEST or transports[HEAVY].is_reading_paused:
                await asyncio.sleep(0)

    asyncio.run(scenario())


@pytest.mark.parametrize("most", [1, 0])
def test_a_lost_connection_is_freed_at_once_also_if_it_was_refused(most):
    """A reference cycle would keep it until a garbage collection, and those hold lookups up."""

    async def scenario():
        connection = connected(Answering(), open_connections(PeerLimits(max_connections=most)))
        connection.data_received(REQUEST + REQUEST[:-1])
        connection.connection_lost(None)
        freed = weakref.ref(connection)
        del connection
        await asyncio.sleep(0)
        assert freed() is None

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()
