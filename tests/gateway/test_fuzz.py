"""Frames that are spoilt in any way: no error of ours, nothing held back, and the next lookup is answered."""

import asyncio
import logging
import random

from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
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
    while not connection.has_no_pending:
        await asyncio.sleep(0)
    return count


async def test_spoilt_frames_cost_their_own_connection_alone(site, caplog, monkeypatch):
    caplog.set_level(logging.ERROR)
    send = site.log.send

    def acknowledged(*record, **of):
        place = send(*record, **of)
        site.log.acknowledge()
        return place

    monkeypatch.setattr(site.log, "send", acknowledged)
    requests, connections, good_transport = site.dispatcher(), site.connections, Transport()
    requests.serve(site.answers())
    good = connected(requests, connections, good_transport)
    chance, sent, opaque = random.Random(1), 0, 0
    while sent < FRAMES:
        transport = Transport("10.0.0.9")
        connection = connected(requests, connections, transport)
        sent += await fed(connection, transport, chance)
        connection.connection_lost(None)
        opaque += 1
        good_transport.written.clear()
        good.data_received(encode_command(RemotingCommand(code=105, opaque=opaque, ext_fields={"topic": "T"})))
        while not good_transport.written:
            await asyncio.sleep(0)
        (answer,) = FrameDecoder().feed(bytes(good_transport.written))
        assert (answer.opaque, answer.code) == (opaque, 17)
    assert connections.open == {good}
    assert connections.shares.held_bytes == 0
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("namesrv_stream")]
    assert ours == []  # a Kafka client of another test may still be ending
