"""Answers to reading requests, from one snapshot and the settings that were in force with it.

Each answer is encoded once and kept. Equal requests from any peer get the same bytes, each with its own opaque. The
answers of the next snapshot take over each kept answer that its changes do not affect.

A route that this registry lacks is asked of the production environment's name servers (M9, clusterTest). They are found
as RocketMQ's clients find them: an address server lists them at `http://DOMAIN:8080/rocketmq/nsaddr-NAME`. RocketMQ
takes DOMAIN from a Java system property, this module from an environment variable.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import urllib.request
from collections.abc import Mapping
from functools import cached_property
from http.client import HTTPException
from types import MappingProxyType

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import BadRequestError, FrameError
from namesrv_stream.gateway.readers import READERS, SCANS, Asked, Reader, Source
from namesrv_stream.rules import lookup
from namesrv_stream.rules.lookup import RouteTables
from namesrv_stream.rules.record_types import DataVersion
from namesrv_stream.rules.registration import order_topic_config
from namesrv_stream.rules.rows import LiveRow
from namesrv_stream.wire import bodies
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.frame import MAX_FRAME_BYTES, FrameDecoder
from namesrv_stream.wire.headers import BrokerHeader
from namesrv_stream.wire.remoting_command import PreparedAnswer, RemotingCommand, encode_command, split_opaque

log = logging.getLogger(__name__)

MAX_KEPT_BYTES = 256 * 1024 * 1024
MAX_KEPT_OF_OTHERS_BYTES = 16 * 1024 * 1024
"""Limit of the kept answers of each request code except route lookups."""

MAX_BYTES = MAX_FRAME_BYTES - 10
"""Limit of an answer without the opaque's digits: RocketMQ's clients have the same limit of a frame as its servers."""

_BYTES_OF_ANY_ANSWER = 500
"""Estimated memory of the objects around an answer's bytes."""

DOMAIN_VARIABLE = "ROCKETMQ_NAMESRV_DOMAIN"
DEFAULT_DOMAIN = "jmenv.tbsite.net:8080"
_ADDRESSES_HOLD_S = 120.0
_RETRY_S = 5.0
_FETCH_LIMIT_S = 5.0
_PRODUCTION_S = 2.0
"""Limit of one lookup, because the client waits 3 s. The answer of a slower address server serves the next lookup."""


class KeptAnswer:
    """An encoded answer, with its request code and its result for the metrics."""

    __slots__ = ("code", "prepared", "result")

    def __init__(self, code: int, answer: RemotingCommand) -> None:
        self.code = code
        self.result = answer.code
        self.prepared = PreparedAnswer(answer)


class KeptAnswers(dict[Asked, KeptAnswer]):
    """Kept answers, by the fields of the request on which they depend.

    Peers may ask for any number of topics that do not exist. So beyond `max_bytes` all answers are forgotten, and each
    is kept again when it is next requested.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes
        self._of_first: dict[str | None, list[Asked]] = {}
        self.size_bytes = 0

    def keep(self, asked: Asked, answer: KeptAnswer) -> None:
        """Keep the answer."""
        self.size_bytes += _bytes_of(asked, answer)
        if self.size_bytes > self._max_bytes:
            self.clear()
            self._of_first.clear()
            self.size_bytes = _bytes_of(asked, answer)
        self[asked] = answer
        self._of_first.setdefault(asked[0] if asked else None, []).append(asked)

    def drop(self, values: frozenset[str]) -> None:
        """Forget the answers to requests whose first field has one of these values.

        In a route lookup it is the topic.
        """
        for value in values & self._of_first.keys():
            for asked in self._of_first.pop(value):
                self.size_bytes -= _bytes_of(asked, self.pop(asked))


def _bytes_of(asked: Asked, answer: KeptAnswer) -> int:
    """Return the memory of an answer and its key."""
    texts = sum(len(text) if text.isascii() else 4 * len(text) for text in asked if text)
    return texts + answer.prepared.size_bytes + _BYTES_OF_ANY_ANSWER


class AnswerCache:
    """The answers of one snapshot. Lives in the event loop.

    `epoch`: the snapshot's number, 0 if nothing is published yet. `offsets`: partition -> the next offset to read after
    the snapshot. `reading_ms`: the log's clock at the snapshot (D9). `log_id`: the id of the log's topic.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # what of a snapshot counts here
        self,
        tables: RouteTables,
        settings: NamesrvSettings,
        epoch: int = 0,
        offsets: Mapping[int, int] = MappingProxyType({}),
        reading_ms: int = 0,
        log_id: str | None = None,
    ) -> None:
        self.tables = tables
        self.settings = settings
        self.epoch = epoch
        self.offsets = offsets
        self.reading_ms = reading_ms
        self.log_id = log_id
        self._kept: dict[int, KeptAnswers] = {}
        self._known_bytes = 0
        self.known: dict[bytes, KeptAnswer] = {}
        """Kept answers by the header of a request without its opaque (`split_opaque`)."""

    @property
    def live(self) -> Mapping[str, LiveRow]:
        """The leases by broker address."""
        return self.tables.live

    def take_over(
        self, former: AnswerCache, changed_tables: frozenset[str], changed_routes: frozenset[str] | None
    ) -> None:
        """Take the kept answers of `former`, except those that these changes may affect.

        `changed_routes`: topics whose routes may have changed, None if any may. `former` loses all its answers, so that
        it cannot add outdated ones later.
        """
        kept, former._kept = former._kept, {}
        routes = kept.pop(RequestCode.GET_ROUTEINFO_BY_TOPIC, None)
        self._kept = {code: each for code, each in kept.items() if changed_tables.isdisjoint(READERS[code].tables)}
        if changed_routes is not None and routes is not None:
            routes.drop(changed_routes)
            self._kept[RequestCode.GET_ROUTEINFO_BY_TOPIC] = routes

    def answer(self, command: RemotingCommand) -> KeptAnswer | None:
        """Return the answer to a reading request; None if the request code is not a reading one."""
        reading = READERS.get(command.code)
        if reading is None:
            return None
        kept = self._kept_of(command.code).get(reading.asked(command))
        if kept is None:
            kept = self.anew(command)
            self.keep(command, kept)
        return kept

    def is_scan(self, command: RemotingCommand) -> bool:
        """Return whether the answer is not kept yet and has to read all topics. If so, `anew` may take a second."""
        if command.code not in SCANS or READERS[command.code].asked(command) in self._kept_of(command.code):
            return False
        fields = command.ext_fields or {}
        return command.code != RequestCode.GET_TOPICS_BY_CLUSTER or fields.get("cluster") in self.tables.clusters

    def anew(self, command: RemotingCommand) -> KeptAnswer:
        """Return a newly encoded answer to a reading request, even if one is kept. Safe in any thread."""
        answer = KeptAnswer(command.code, self._answer_anew(READERS[command.code].read, command))
        if answer.prepared.size_bytes <= MAX_BYTES:
            return answer
        remark = (
            f"the answer has {answer.prepared.size_bytes} bytes: RocketMQ's clients close a connection with an answer "
            f"of over {MAX_BYTES} bytes (com.rocketmq.remoting.frameMaxLength). Request a part: the topics of one "
            "cluster, or the route of one topic. Or use `namesrv-stream topicList` and `clusterList`, or the pages of "
            "the console's /v1/topics and /v1/brokers."
        )
        return KeptAnswer(command.code, command.answer(ResponseCode.SYSTEM_ERROR, remark))

    def keep(self, command: RemotingCommand, answer: KeptAnswer) -> None:
        """Keep the answer for this request and for all requests that ask for the same."""
        self._kept_of(command.code).keep(READERS[command.code].asked(command), answer)

    def learn(self, content: bytes, command: RemotingCommand, answer: KeptAnswer) -> None:
        """Keep the answer for frames that differ from this one only in the opaque, until the next snapshot."""
        split = split_opaque(content)
        if split is None or split[1] != command.opaque or command.flag or content.count(b'"opaque"') != 1:
            return
        self._known_bytes += len(content) + answer.prepared.size_bytes + _BYTES_OF_ANY_ANSWER
        if self._known_bytes > MAX_KEPT_OF_OTHERS_BYTES:
            self.known.clear()
            self._known_bytes = 0
        self.known[split[0]] = answer

    def _kept_of(self, code: int) -> KeptAnswers:
        kept = self._kept.get(code)
        if kept is None:
            is_of_routes = code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            kept = self._kept[code] = KeptAnswers(MAX_KEPT_BYTES if is_of_routes else MAX_KEPT_OF_OTHERS_BYTES)
        return kept

    def is_changed(self, asking: BrokerHeader, version: DataVersion) -> bool:
        """Return whether the broker has to register, so that QUERY_DATA_VERSION is answered `changed` (M8).

        Besides a changed version there are two reasons: its lease has another name, id or cluster than the request; or
        the lease has no token, because other changes may have undone what the broker registered (E10).
        """
        lease = self.live.get(asking.broker_addr)
        if lease is None or not lease.tokens or lookup.is_version_changed(self.tables, asking.broker_addr, version):
            return True
        named = (asking.cluster_name, asking.broker_name, asking.broker_id)
        return any(each not in (None, own) for each, own in zip(named, lease[1:4], strict=True))

    def topic_count(self, broker_name: str) -> int:
        """Return the number of topics that have queues on a broker name. 205 and 327 report it."""
        return self.tables.queues.topic_counts.get(broker_name, 0)

    @cached_property
    def order_table(self) -> bytes:
        """The body of a registration's answer (R13)."""
        table = order_topic_config(self.tables, self.settings)
        return b"" if table is None else bodies.encode_body(bodies.KVTable(dict(table)))

    @cached_property
    def to_master(self) -> KeptAnswer:
        """The answer to a master's registration: it names no master."""
        request = RemotingCommand(code=RequestCode.REGISTER_BROKER)
        return KeptAnswer(request.code, request.answer(ext_fields={}, body=self.order_table))

    def _answer_anew(self, read: Reader, command: RemotingCommand) -> RemotingCommand:
        try:
            return read(Source(self.tables, self.settings), command)
        except BadRequestError as error:
            return command.answer(ResponseCode.SYSTEM_ERROR, error.remark)


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
            async with asyncio.timeout(_PRODUCTION_S):
                addresses = await self._known_addresses()
                for address in addresses:
                    if (body := await _route_from(address, topic, _PRODUCTION_S / (1 + len(addresses)))) is not None:
                        return body
        except TimeoutError:
            log.warning("the production environment did not return the route of topic %s within %g s; the client gets "
                        "no route", topic, _PRODUCTION_S)  # fmt: skip
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
            log.warning("cannot get the production NameServers for clusterTest from %s: %s; retrying after %g s",
                        self._url, error, hold_s)  # fmt: skip
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
        log.warning("cannot get a route from the production NameServer at %s: %r", address, error)
    return None
