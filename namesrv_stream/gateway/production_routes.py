"""Ask the production environment's name servers for a route that this registry lacks (M9, clusterTest).

The name servers are found as RocketMQ's clients find them: an address server lists them at
`http://DOMAIN:8080/rocketmq/nsaddr-NAME`. RocketMQ takes DOMAIN from a Java system property, this module from an
environment variable.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.frame import FrameDecoder
from namesrv_stream.wire.remoting_command import RemotingCommand, encode_command
from namesrv_stream.wire.wire_errors import FrameError

log = logging.getLogger(__name__)

DOMAIN_VARIABLE = "ROCKETMQ_NAMESRV_DOMAIN"
DEFAULT_DOMAIN = "jmenv.tbsite.net:8080"
_ADDRESSES_HOLD_S = 120.0
_RETRY_S = 5.0
_FETCH_LIMIT_S = 5.0
_LIMIT_S = 2.0
"""Limit of one lookup, because the client waits 3 s. The answer of a slower address server serves the next lookup."""


def address_server(environment: str, environ: Mapping[str, str]) -> str:
    """Return the URL that lists the environment's name servers."""
    domain = environ.get(DOMAIN_VARIABLE, DEFAULT_DOMAIN)
    host = domain if ":" in domain else f"{domain}:8080"
    return f"http://{host}/rocketmq/nsaddr-{environment}?nofix=1"


class Production:
    """The name servers of one environment. Lives in the event loop."""

    def __init__(self, environment: str) -> None:
        self._url = address_server(environment, os.environ)
        self._addresses: list[str] = []
        self._fetching: asyncio.Future[None] | None = None
        self._hold_until_s = 0.0

    async def route(self, topic: str) -> bytes | None:
        """Return the body of the topic's route; None if production has none or cannot be reached."""
        try:
            async with asyncio.timeout(_LIMIT_S):
                addresses = await self._known_addresses()
                for address in addresses:
                    if (body := await _route_from(address, topic, _LIMIT_S / (1 + len(addresses)))) is not None:
                        return body
        except TimeoutError:
            log.warning("production did not answer within %g s for topic %s", _LIMIT_S, topic)
        return None

    async def _known_addresses(self) -> list[str]:
        """Return the name servers' addresses; wait for the address server only if none are known.

        The address server gets one request at a time, however slow it is.
        """
        if self._fetching is None or (self._fetching.done() and time.monotonic() >= self._hold_until_s):
            self._fetching = asyncio.ensure_future(self._fetch())
        if not self._addresses:
            await asyncio.shield(self._fetching)
        return self._addresses

    async def _fetch(self) -> None:
        hold_s = _ADDRESSES_HOLD_S
        try:
            self._addresses = await asyncio.to_thread(_named_addresses, self._url)
        except (OSError, ValueError, HTTPException) as error:
            hold_s = _RETRY_S
            log.warning("clusterTest: %s does not name production's name servers: %s", self._url, error)
        self._hold_until_s = time.monotonic() + hold_s


def _named_addresses(url: str) -> list[str]:
    with urllib.request.urlopen(url, timeout=_FETCH_LIMIT_S) as answer:
        return [address for address in answer.read().decode().strip().split(";") if address]


async def _route_from(address: str, topic: str, limit_s: float) -> bytes | None:
    host, _, port = address.rpartition(":")
    request = RemotingCommand(
        code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields={"topic": topic, "acceptStandardJsonOnly": "true"}
    )
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(encode_command(request))
                decoder = FrameDecoder()
                while data := await reader.read(65536):
                    for answer in decoder.feed(data):
                        return answer.body if answer.code == ResponseCode.SUCCESS else None
            finally:
                writer.close()
    except (OSError, ValueError, FrameError) as error:  # TimeoutError is an OSError
        log.warning("production's name server %s did not answer: %r", address, error)
    return None
