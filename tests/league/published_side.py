"""A gateway on real tables, into which the rules publish the requests of brokers and operators. No Kafka, no Spark.

Lookups go over the wire. What would become a record is read from its frame and handled by the rules at once, and is
published before the next lookup.
"""

import time
from contextlib import ExitStack

from benchmarks.peers import Peer
from league.fence import becomes
from league.sides import Side
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import BadRequestError
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.rules.record_types import ChannelClosed
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.tables.root import Root
from namesrv_stream.wire.codes import RequestCode, ResponseCode
from namesrv_stream.wire.write_requests import operator_command
from replay.rules_engine import OneByOne
from tests.clock import now_ms
from tests.published import Published
from tests.wire.golden import broker_request

OF_BROKERS = {RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER, RequestCode.BROKER_HEARTBEAT}
OF_OPERATORS = {
    RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER,
    RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.PUT_KV_CONFIG,
}
SERVED_WITHIN_S = 30


class PublishedSide(Side):
    name = "gateway on published tables"

    def __init__(self, folder, kafka_that_nobody_runs):
        self._settings = NamesrvSettings.model_validate(
            {
                "delta.root": str(folder / "registry"),
                "kafka.bootstrap.servers": kafka_that_nobody_runs,
                "kvConfigPath": str(folder / "kvConfig.json"),
                "listenPort": 0,
                "notifyMinBrokerIdChanged": "true",
            }
        )
        self._started_ms = now_ms()
        self._rules = OneByOne(RouteRegistry(self._settings))
        self._published = Published.claim(Root(self._settings.delta_root), self._started_ms)
        self._is_published = True
        self._open_things = ExitStack()

    def __enter__(self):
        self._gateway = self._open_things.enter_context(BackgroundGateway(self._settings)).gateway
        return self

    def __exit__(self, *error):
        self._open_things.__exit__(*error)

    def connect(self, server=0):
        return PublishedLine(self, Peer(self._gateway.port), f"channel-{time.monotonic_ns()}")

    def restart(self):
        raise NotImplementedError("the tests play nothing here that restarts")

    away_without_memory = restart

    def settle(self, server=0):
        """Publish what has come, and return once the gateway serves it."""
        if self._is_published:
            return
        at_ms = now_ms()
        epoch = self._published.publish(self._rules.routes, at_ms, self._rules.next_offset, at_ms).epoch
        self._is_published = True
        assert becomes(lambda: self._gateway.epoch >= epoch, SERVED_WITHIN_S)

    def handle(self, request):
        self._rules.append(request, self._started_ms)
        self._is_published = False


class PublishedLine:
    def __init__(self, side, peer, channel_id):
        self._side = side
        self._peer = peer
        self._channel_id = channel_id
        self._speaks_for = set()
        self.send_raw = peer.send_raw
        self.is_closed_by_server = peer.is_closed_by_server

    def ask(self, command):
        try:
            if command.code in OF_BROKERS:
                request = broker_request(command, self._channel_id)
                self._speaks_for.add(request.broker_addr)
            elif command.code in OF_OPERATORS:
                request = operator_command(command)
            else:
                self._side.settle()
                return self._peer.ask(command)
        except BadRequestError as error:
            return command.answer(ResponseCode.SYSTEM_ERROR, error.remark)
        self._side.handle(request)
        return command.answer()

    def close(self):
        self._peer.close()
        for address in self._speaks_for:
            self._side.handle(ChannelClosed(broker_addr=address, channel_id=self._channel_id))
        self._speaks_for = set()
