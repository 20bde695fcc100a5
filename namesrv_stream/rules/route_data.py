"""The answers to route lookups, with the names and, in camelCase, the fields of RocketMQ's classes.

A field that is None is left out of the JSON.
"""

from __future__ import annotations

import msgspec

from namesrv_stream.rules.record_types import QueueData


class BrokerData(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A broker group: its addresses by id, and cluster, zone and flag of its latest registration (D6, R4).

    `enable_acting_master`: None in the answer of a 4.x name server.
    """

    broker_name: str
    cluster: str
    broker_addrs: dict[int, str]
    enable_acting_master: bool | None = None
    zone_name: str | None = None


class TopicRouteData(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The route of a topic (M1).

    `filter_server_table` holds only addresses of the route that have filter servers. `topic_queue_mapping_by_broker`:
    broker name -> TopicQueueMappingInfo (T7), None if the topic has no mapping.
    """

    queue_datas: list[QueueData]
    broker_datas: list[BrokerData]
    filter_server_table: dict[str, list[str]]
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, object] | None = None


class ClusterInfo(msgspec.Struct, frozen=True, rename="camel"):
    """All broker groups by name, and the broker names of each cluster (M6)."""

    broker_addr_table: dict[str, BrokerData]
    cluster_addr_table: dict[str, list[str]]
