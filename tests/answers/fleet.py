"""Random histories: any requests of brokers and operators, through the rules, and into Delta by delta-rs."""

from __future__ import annotations

import random
from collections.abc import Iterable

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.record_types import (
    AddWritePerm,
    Command,
    DataVersion,
    DeleteKvConfig,
    DeleteTopic,
    PutKvConfig,
    QueueData,
    RegisterBroker,
    RegisterTopic,
    RetireBroker,
    TopicConfig,
    UpdateNamesrvConfig,
    WipeWritePerm,
)
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition, RejectedRow
from namesrv_stream.tables.root import Root
from tests.published import Published

_ADDRESSES = [f"10.0.0.{number}:10911" for number in range(6)]
_CLUSTERS = ["c1", "c2"]
_NAMES = ["broker-a", "broker-b", "broker-c"]
_TOPICS = ["T", "U", "V"]


class RandomLife:
    """Brokers that come, go, move and take ids from one another, and operators who change their commands."""

    def __init__(self, seed: int, start_ms: int) -> None:
        self.rules = RouteRegistry(NamesrvSettings())
        self.event_ms = start_ms
        self.rng = random.Random(seed)
        self._offset = 0

    def step(self, gap_ms: int = 60_000, late_ms: int = 0) -> None:
        """One random record or end of a lease, `gap_ms` after the one before.

        An expiry may come up to `late_ms` after its time, as where it crosses the end of a micro-batch.
        """
        self.event_ms += gap_ms
        self._offset += 1
        at = LogPosition(self.event_ms, 0, self._offset)
        drawn = self.rng.random()
        if drawn < 0.15:
            self._expire(late_ms)
        elif drawn < 0.3:
            kind = self.rng.choice(["UNREGISTERED", "CHANNEL_CLOSED"])
            self.rules.end(self.rng.choice(_ADDRESSES), kind, at.event_time, at)
        elif drawn < 0.5:
            self.rules.apply(self._command(), at)
        else:
            self.rules.apply(self._registration(), at, lease_only=self.rng.random() < 0.05)

    def apply(self, command: Command) -> None:
        """A command, at the same time as the last step."""
        self._offset += 1
        self.rules.apply(command, LogPosition(self.event_ms, 0, self._offset))

    def _expire(self, late_ms: int) -> None:
        leases = self.rules.view().live.values()
        if leases:
            lease = self.rng.choice(list(leases))
            ended_ms = max(lease.last_update_timestamp, self.event_ms - self.rng.randint(0, late_ms))
            self.rules.expire(lease.broker_addr, ended_ms)

    def _command(self) -> Command:
        rng, name, topic = self.rng, self.rng.choice([*_NAMES, "nobody"]), self.rng.choice([*_TOPICS, "W"])
        key = {"namespace": rng.choice("MN"), "key": rng.choice("kl")}
        return rng.choice(
            [
                PutKvConfig(**key, value=rng.choice("vw"), requested_by="ann@desk"),
                DeleteKvConfig(**key),
                WipeWritePerm(broker_name=name),
                AddWritePerm(broker_name=name),
                RetireBroker(
                    cluster_name=rng.choice(_CLUSTERS), broker_name=name, broker_id=rng.randrange(3), reason="gone"
                ),
                DeleteTopic(topic=topic, cluster_name=rng.choice([None, *_CLUSTERS])),
                RegisterTopic(topic=topic, queue_datas=[QueueData(each, 2, 2, 6) for each in (_NAMES[0], name)]),
                UpdateNamesrvConfig(properties={"deleteTopicWithBrokerRegistration": rng.choice(["true", "false"])}),
            ]
        )

    def _registration(self) -> RegisterBroker:
        rng, name = self.rng, self.rng.choice(_NAMES)
        mapping = {rng.choice(_TOPICS): {"bname": name, "epoch": rng.randrange(3)}} if rng.random() < 0.2 else {}
        return RegisterBroker(
            cluster_name=rng.choice(_CLUSTERS),
            broker_name=name,
            broker_id=rng.randrange(3),
            broker_addr=rng.choice(_ADDRESSES),
            zone_name=rng.choice([None, "z"]),
            enable_acting_master=rng.choice([None, True]),
            filter_server_list=rng.choice([[], ["f:1"], ["f:1", "f:2"]]),
            ha_server_addr=rng.choice(["", "10.0.0.9:10912"]),
            data_version=DataVersion(rng.randrange(2), 0, rng.randrange(3)),
            topic_config_table={topic: TopicConfig(rng.choice([4, 8]), 4, 6) for topic in rng.sample(_TOPICS, 2)},
            topic_queue_mapping_info_map=mapping,
        )


class RandomHistory(RandomLife):
    """A registry of a random life; each `publish` is one epoch."""

    def __init__(self, root: Root, seed: int, start_ms: int, now_ms: int) -> None:
        super().__init__(seed, start_ms)
        self._now_ms = now_ms
        self._published = Published.claim(root, now_ms)

    def publish(self, rejected: Iterable[RejectedRow] = ()) -> int:
        """Publish what has happened as one micro-batch; return its epoch."""
        return self._published.publish(self.rules, self.event_ms, self._offset + 1, self._now_ms, rejected).epoch
