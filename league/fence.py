"""Wait until a server has handled all that was sent to it before."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress

from tenacity import RetryError, Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from benchmarks.peers import Peer
from league.broker import Broker, request
from league.errors import NotSettledError
from namesrv_stream.rules.record_types import TopicConfig
from namesrv_stream.wire.codes import RequestCode, ResponseCode

LIMIT_S = 90.0
_LOOK_EVERY_S = 0.02

_numbers = itertools.count(1)


def settle(server: str, connect: Callable[[], Peer], version: int) -> None:
    """Return once a new broker has been seen, and then seen to leave when its connection is closed.

    Servers handle registrations in one order and lost connections in one order, so all earlier ones are handled by
    then.
    """
    number = next(_numbers)
    client, line = connect(), connect()
    address = f"10.255.{number // 256}.{number % 256}:10911"
    broker = Broker(f"fence-{number}", 0, address, "fences", line, version)
    topics = {f"fence-{number}-{n}": TopicConfig(1, 1, 6) for n in range(2)}
    lookup = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, version=version, fields={"topic": f"fence-{number}-1"})

    def is_routed() -> bool:
        return client.ask(lookup).code == ResponseCode.SUCCESS

    try:
        broker.register(topics)
        if not becomes(is_routed, LIMIT_S):
            raise NotSettledError(server, "show a broker that has registered", LIMIT_S)
        line.close()
        if not becomes(lambda: not is_routed(), LIMIT_S):
            raise NotSettledError(server, "let a broker go that has lost its connection", LIMIT_S)
    finally:
        line.close()
        client.close()


def becomes(holds: Callable[[], bool], limit_s: float) -> bool:
    """Return whether `holds` becomes true within the limit."""
    until = Retrying(stop=stop_after_delay(limit_s), wait=wait_fixed(_LOOK_EVERY_S), retry=retry_if_not_result(bool))
    with suppress(RetryError):
        return until(holds)
    return False
