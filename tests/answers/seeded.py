"""A history of some days with each kind of event that the views show, at known times; one epoch a step."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import BrokerHeartbeat, Command, DataVersion, Scan, TopicConfig
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.root import Root
from tests.registry import PublishedRegistry

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
QUEUES = TopicConfig(4, 8, 6)


class SeededRegistry:
    """Applies requests of brokers and operators at the event times that the caller names; all is published at one."""

    def __init__(self, root: Root, now_ms: int, settings: NamesrvSettings | None = None) -> None:
        self.registry = PublishedRegistry(root, now_ms, settings)
        self._now_ms = now_ms

    def copied_to(self, root: Root) -> SeededRegistry:
        """Return a registry with a copy of these tables."""
        other = copy(self)
        other.registry = self.registry.copied_to(root)
        return other

    def register(
        self,
        at_ms: int,
        address: str,
        name: str,
        broker_id: int = 0,
        cluster: str = "c1",
        topics: Iterable[str] = (),
        state_version: int = 0,
        **fields: object,
    ) -> None:
        fields |= {"data_version": DataVersion(state_version, at_ms, 1), "topics": dict.fromkeys(topics, QUEUES)}
        self._at(at_ms).register(address, cluster, name, broker_id, publish=False, **fields)

    def tick(self, at_ms: int) -> None:
        self._at(at_ms).command(Scan(), publish=False)

    def expire(self, at_ms: int, address: str, silent_ms: int = 2 * MINUTE_MS) -> None:
        """End a lease whose last sign of life was `silent_ms` before."""
        lease = self.registry.rules.view().live[address]
        heard_ms = max(at_ms - silent_ms, lease.last_update_timestamp)
        self._at(heard_ms).command(BrokerHeartbeat(broker_addr=address), publish=False)
        self._at(at_ms).rules.expire(address, at_ms)

    def unregister(self, at_ms: int, address: str) -> None:
        self._at(at_ms).end(address, "UNREGISTERED")

    def close_channel(self, at_ms: int, address: str) -> None:
        self._at(at_ms).end(address, "CHANNEL_CLOSED")

    def command(self, at_ms: int, command: Command) -> None:
        self._at(at_ms).command(command, publish=False)

    def publish(self, at_ms: int | None = None, rejected: Iterable[RejectedRow] = ()) -> int:
        """All since the last one as a micro-batch, read up to `at_ms`; the epoch."""
        return self._at(at_ms or self.registry.now_ms).publish(rejected, self._now_ms).epoch

    def _at(self, at_ms: int) -> PublishedRegistry:
        self.registry.now_ms = at_ms
        return self.registry
