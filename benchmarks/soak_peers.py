"""Run the brokers, clients and watchers of a soak, in a process of its own.

    python -m benchmarks.soak_peers GATEWAY_PORT CONSOLE_PORT EVERY_SECONDS

It prints a line of JSON every EVERY_SECONDS, until it is ended. Brokers live some minutes, change topics, and return
after their death. Half of the watchers leave and return.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress

from benchmarks.good_peers import Seen, client
from benchmarks.lively_brokers import HEARTBEAT_EVERY_S, TOPICS, registration
from benchmarks.peers import AsyncPeer
from namesrv_stream.wire.codes import Flag, RequestCode
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command

BROKERS = 20
CLIENTS = 10
WATCHERS = 20
TOPIC_NAMES = tuple(f"topic-{number:02}" for number in range(TOPICS))
_LONGEST_LIFE = 180
"""In heartbeats."""
_REGISTER_EVERY = 10
"""Heartbeats between two registrations."""
_LONGEST_ABSENCE_S = 15.0
_WATCHED_FOR_S = 60.0


async def broker(port: int, number: int, seen: Seen) -> None:
    """Live, die by a lost connection, and return, again and again."""
    chance, version = random.Random(number), 1
    while True:
        await asyncio.sleep(chance.uniform(0, _LONGEST_ABSENCE_S))
        try:
            version = await _live(port, number, seen, version, chance)
        except (OSError, EOFError) as error:
            seen.problems.append(f"broker {number}: {type(error).__name__} {error}")


async def _live(port: int, number: int, seen: Seen, version: int, chance: random.Random) -> int:
    """Send heartbeats, and now and then a registration, one in three with a change. Return the newest data version."""
    address = f"172.16.0.{number}:10911"
    named = {"brokerAddr": address, "brokerName": f"lively-{number}", "clusterName": "lively"}
    heartbeat = encode_command(RemotingCommand(code=RequestCode.BROKER_HEARTBEAT, flag=Flag.ONEWAY, ext_fields=named))
    clock = asyncio.get_running_loop().time
    async with AsyncPeer(port, f"127.0.1.{number + 1}") as peer:
        for beat in range(chance.randint(_REGISTER_EVERY, _LONGEST_LIFE)):
            if beat % _REGISTER_EVERY == 0:
                version += chance.random() < 1 / 3
                began_s = clock()
                answer = await peer.ask(registration(address, number, version))
                seen.registration_seconds.append(clock() - began_s)
                if answer.code:
                    seen.problems.append(f"broker {number}: code {answer.code}, {answer.remark}")
            await peer.send(heartbeat)
            await asyncio.sleep(HEARTBEAT_EVERY_S)
    return version


async def watcher(port: int, number: int) -> None:
    """Watch one topic on the console. One of two leaves after a minute and returns."""
    path = f"/v1/watch?topic={TOPIC_NAMES[number % TOPICS]}"
    while True:
        with suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            try:
                async with asyncio.timeout(_WATCHED_FOR_S if number % 2 else None):
                    while await reader.read(65536):
                        pass
            finally:
                writer.close()
        await asyncio.sleep(1)


async def run(port: int, console_port: int, every_s: float) -> None:
    """Run all peers, and print what they saw."""
    seen = Seen()
    peers = [broker(port, number, seen) for number in range(BROKERS)]
    peers += [watcher(console_port, number) for number in range(WATCHERS)]
    running = [asyncio.ensure_future(peer) for peer in peers]
    while not len(seen.registration_seconds) > BROKERS:  # by then all topics are known
        await asyncio.sleep(1)
    await asyncio.sleep(_LONGEST_ABSENCE_S)
    running += [asyncio.ensure_future(client(port, number, seen, TOPIC_NAMES)) for number in range(CLIENTS)]
    while not any(each.done() for each in running):
        for events in (seen.lookup_seconds, seen.registration_seconds, seen.problems):
            events.clear()
        await asyncio.sleep(every_s)
        print(seen.line(), flush=True)
    await asyncio.gather(*(each for each in running if each.done()))


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
