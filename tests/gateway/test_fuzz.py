"""Frames that are spoilt in any way: no error of ours, nothing held back, and the next lookup is answered."""

import asyncio
import logging
import random

from namesrv_stream.wire.remoting_command import RemotingCommand
from tests.gateway.test_writes import Peer
from tests.gateway.transport import Transport, connected
from tests.wire.golden import REQUESTS

GOLDEN = sorted(each.raw for each in REQUESTS.values())
FRAMES, FRAMES_OF_A_CONNECTION = 2_000, 50


def spoilt(chance):
    """A captured frame: as it is, with other bytes, without its end, with another length, or no frame at all."""
    raw = bytearray(chance.choice(GOLDEN))
    match chance.randrange(10):
        case 0:
            return chance.randbytes(chance.randrange(1, 200))
        case 1:
            del raw[chance.randrange(len(raw)) :]
        case 2:
            raw[chance.randrange(8)] = chance.randrange(256)
        case 3:
            at = chance.randrange(len(raw))
            raw[at:at] = chance.randbytes(chance.randrange(20))
        case _:
            for _ in range(chance.randrange(5)):  # behind the words of length, so that most frames are whole
                raw[chance.randrange(8, len(raw))] = chance.randrange(256)
    return bytes(raw)


async def fed(connection, transport, chance):
    """Sends frames, each in pieces, until the gateway closes or has had enough; gives how many it has read of."""
    count = 0
    while count < FRAMES_OF_A_CONNECTION and not transport.is_closing():
        count += 1
        frame = spoilt(chance)
        size = chance.choice([7, 1_000, 100_000])
        for at in range(0, len(frame), size):
            if not transport.is_closing():
                connection.data_received(frame[at : at + size])
    while not connection.is_answered:
        await asyncio.sleep(0)
    return count


async def test_spoilt_frames_cost_their_own_connection_alone(site, caplog):
    caplog.set_level(logging.ERROR)
    site.log.acknowledges_at_once = True
    good = Peer(site)
    good.dispatcher.serve(site.answers())
    chance, sent, asked = random.Random(1), 0, 0
    while sent < FRAMES:
        transport = Transport("10.0.0.9")
        connection = connected(good.dispatcher, site.connections, transport)
        sent += await fed(connection, transport, chance)
        connection.connection_lost(None)
        await good.sends(RemotingCommand(code=105, ext_fields={"topic": "T"}))
        asked += 1
        assert good.answers == [(0, 17)] * asked
    assert site.connections.open == {good.connection}
    assert site.connections.shares.held_bytes == 0
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("namesrv_stream")]
    assert ours == []  # a Kafka client of another test may still be ending
