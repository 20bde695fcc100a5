"""A history of some days with each kind of event that the views show, at known times; one epoch a step."""

from __future__ import annotations

import shutil

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import BrokerHeartbeat, Command, DataVersion, RegisterBroker, Scan, TopicConfig
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition, RejectedRow
from namesrv_stream.tables.root import Root
from tests.published import Published

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class SeededRegistry:
    """Applies requests of brokers and operators at the event times that the caller names."""

    def __init__(
        self, root: Root, now_ms: int, settings: NamesrvSettings | None = None, published: Published | None = None
    ) -> None:
        self.rules = RouteRegistry(settings or NamesrvSettings())
        self._root = root
        self._now_ms = now_ms
        self._published = published or Published.claim(root, now_ms)
        self._at_ms = 0
        self._offset = 0

    def copied_to(self, root: Root) -> SeededRegistry:
        """Return a registry with a copy of these empty tables, which takes a tenth of the time of making them."""
        shutil.copytree(self._root.url, root.url)
        return SeededRegistry(root, self._now_ms, published=self._published.copied_to(root))

    def register(
        self,
        at_ms: int,
        address: str,
        name: str,
        broker_id: int = 0,
        cluster: str = "c1",
        topics: tuple[str, ...] = (),
        state_version: int = 0,
        zone: str | None = None,
        is_acting: bool | None = None,  # as the flag of the request
        release: str | None = None,
    ) -> None:
        request = RegisterBroker(
            cluster_name=cluster,
            broker_name=name,
            broker_id=broker_id,
            broker_addr=address,
            zone_name=zone,
            enable_acting_master=is_acting,
            broker_version=release,
            data_version=DataVersion(state_version, at_ms, 1),
            topic_config_table=dict.fromkeys(topics, TopicConfig(4, 8, 6)),
        )
        self.rules.apply(request, self._place(at_ms))

    def tick(self, at_ms: int) -> None:
        self.rules.apply(Scan(), self._place(at_ms))

    def expire(self, at_ms: int, address: str, silent_ms: int = 2 * MINUTE_MS) -> None:
        """End a lease whose last sign of life was `silent_ms` before."""
        lease = self.rules.view().live[address]
        heard_ms = max(at_ms - silent_ms, lease.last_update_timestamp)
        self.rules.apply(BrokerHeartbeat(broker_addr=address), self._place(heard_ms))
        self.rules.expire(address, at_ms)
        self._at_ms = at_ms

    def unregister(self, at_ms: int, address: str) -> None:
        self.rules.end(address, "UNREGISTERED", at_ms, self._place(at_ms))

    def close_channel(self, at_ms: int, address: str) -> None:
        self.rules.end(address, "CHANNEL_CLOSED", at_ms, self._place(at_ms))

    def command(self, at_ms: int, command: Command) -> None:
        self.rules.apply(command, self._place(at_ms))

    def publish(self, at_ms: int | None = None, rejected: tuple[RejectedRow, ...] = ()) -> int:
        """All since the last one as a micro-batch, read up to `at_ms`; the epoch."""
        event_ms = at_ms or self._at_ms
        return self._published.publish(self.rules, event_ms, self._offset, self._now_ms, rejected).epoch

    def _place(self, at_ms: int) -> LogPosition:
        self._offset += 1
        self._at_ms = at_ms
        return LogPosition(at_ms, 0, self._offset)
