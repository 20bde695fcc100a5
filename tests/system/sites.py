"""A gateway, Kafka and a job as one site."""

from contextlib import ExitStack

import pytest

from namesrv_stream.gateway import heartbeats
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.rules.record_types import Scan
from tests.gateway.peer import Peer
from tests.log_records import requests
from tests.registry import PublishedRegistry
from tests.system.gateway_stack import until
from tests.system.heartbeats import Heartbeats

T0 = 1_700_000_000_000


class Site(Heartbeats):
    """Gateways on one topic and one folder of tables, and what has come into the log.

    Every sign of life gets to the log, as if it came a quarter of a lease after the one before.
    """

    def __init__(self, node, topic, folder):
        super().__init__(node, topic, folder, kvConfigPath=str(folder / "none.json"), listenPort=0)
        self.registry = PublishedRegistry(self.root, T0)
        self._open_things = ExitStack()
        self._open_things.callback(self.close)
        patch = self._open_things.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(heartbeats, "interval_ms", lambda _timeout_ms: 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._open_things.close()

    def start_gateway(self, **unchecked):
        """Returns when it has its way to Kafka. Settings by their names in code may be outside of their bounds."""
        settings = self.settings.model_copy(update=unchecked)
        running = self._open_things.enter_context(BackgroundGateway(settings))
        with Peer(running.gateway.port) as peer:
            until(lambda: peer.ask(102, namespace="start", key="start").code == 0)
        return running

    def records(self, *types):
        """Return the records without ticks and without those of `start_gateway`."""
        found = requests(self.kafka, self.topic)
        own = [each for each in found if not isinstance(each, Scan) and getattr(each, "namespace", "") != "start"]
        return [each for each in own if not types or isinstance(each, types)]

    def await_records(self, *expected):
        """Wait until the log has exactly these types; return its records."""
        until(lambda: [type(each) for each in self.records()] == list(expected))
        return self.records()
