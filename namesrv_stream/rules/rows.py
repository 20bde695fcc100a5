"""The rows of the registry's tables, one class for each table; fields are the Delta columns, in their order.

Times are epoch milliseconds here and TIMESTAMP in Delta. A row is a plain tuple: equal rows are equal tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

from namesrv_stream.rules.record_types import DataVersion


class LogPosition(NamedTuple):
    """The position of a record in the total order of the log: event time first, then the offset."""

    event_time: int
    partition: int
    offset: int


class TopicRow(NamedTuple):
    """Key (topic, broker_name): the queues of a topic on one broker name."""

    topic: str
    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int


class BrokerRow(NamedTuple):
    """Key (broker_name, broker_id): the id's holder, and cluster, zone and flag of its latest registration (D6)."""

    broker_name: str
    broker_id: int
    broker_addr: str
    cluster_name: str
    zone_name: str | None
    enable_acting_master: bool | None
    registered_at: LogPosition


class ClusterRow(NamedTuple):
    """Key (cluster_name, broker_name): there while an address registered under that cluster holds an id of the name."""

    cluster_name: str
    broker_name: str


class FilterRow(NamedTuple):
    """Key broker_addr: its filter servers, in the order in which they were registered."""

    broker_addr: str
    filter_server_list: tuple[str, ...]


class LiveRow(NamedTuple):
    """Key broker_addr: one accepted lease, alive since `lease_began_at` (epoch ms, TIMESTAMP in Delta).

    `last_update_timestamp` is the last sign of life; in the tables that of the last publication. `clock_millis` is the
    log's clock at that moment (D9), from which alone the lease's end follows; None in a row of an earlier release.
    `channels`: connection -> the log's clock at the last sign of life over it. `suspect_since`: the tick since which
    the guard against mass expiry holds the silent lease (D11). `grace_until` is read in rows of earlier releases.
    `tokens`: the registrations whose effect the tables show (`rules/registration.py`).
    """

    broker_addr: str
    cluster_name: str
    broker_name: str
    broker_id: int
    last_update_timestamp: int
    heartbeat_timeout_millis: int
    data_version: DataVersion
    ha_server_addr: str
    lease_began_at: int
    grace_until: int | None = None
    channels: Mapping[str, int] = {}
    suspect_since: int | None = None
    clock_millis: int | None = None
    tokens: tuple[str, ...] = ()
    broker_version: str | None = None


SIGN_OF_LIFE_COLUMNS = frozenset({"last_update_timestamp", "clock_millis", "grace_until", "channels"})
"""Columns of `live` that a mere sign of life changes. Such a change is no change of the registry."""

UNRECORDED_COLUMNS = frozenset({"clock_millis", "grace_until", "channels", "tokens"})
"""Columns of `live` that the history's `before` and `after` leave out: they tell nothing about the broker."""

QUIET_COLUMNS: Mapping[str, frozenset[str]] = {
    "broker": frozenset({"registered_at"}),
    "live": SIGN_OF_LIFE_COLUMNS | {"data_version", "tokens"},
}
"""Table -> columns that no lookup of routes shows. A change in these columns alone is shown to nobody who asks what
changed: comparisons, the history without `--versions`, and the log's lines about brokers leave it out."""

_OTHER_THAN_LIFE = itemgetter(
    *(LiveRow._fields.index(name) for name in LiveRow._fields if name not in SIGN_OF_LIFE_COLUMNS)
)


def is_same_but_for_life(before: LiveRow, after: LiveRow) -> bool:
    """Return whether two rows of one lease differ at most in its signs of life."""
    return bool(_OTHER_THAN_LIFE(before) == _OTHER_THAN_LIFE(after))


class KvConfigRow(NamedTuple):
    """Key (namespace, key). The namespace itself is a row with empty key and value None (K3, K4)."""

    namespace: str
    key: str
    value: str | None


class NamesrvConfigRow(NamedTuple):
    """Key `key`: a setting that UPDATE_NAMESRV_CONFIG changed at run time (A5)."""

    key: str
    value: str


class TopicMappingRow(NamedTuple):
    """Key (topic, broker_name): a static topic's TopicQueueMappingInfo as JSON text (T7)."""

    topic: str
    broker_name: str
    mapping: str


class BrokerEventRow(NamedTuple):
    """One line of history, append only, ordered by (epoch, seq).

    `partition` and `offset` are None for an event that no record caused (an expiry). `before` and `after` are JSON
    objects of the changed rows, None if there was or is no row. `lease_millis`: how long a lease that ended had lasted.
    """

    epoch: int
    seq: int
    event_time: int
    partition: int | None
    offset: int | None
    type: str
    cluster_name: str | None
    broker_name: str | None
    broker_id: int | None
    broker_addr: str | None
    data_version: DataVersion | None
    cause: str
    requested_by: str | None
    before: str | None
    after: str | None
    last_heard_at: int | None
    lease_millis: int | None
    reason: str | None = None


class RejectedRow(NamedTuple):
    """A record that violates the contract; `value` is its first 64 KiB, `length` its whole length in bytes."""

    event_time: int
    partition: int
    offset: int
    key: str | None
    value: bytes | None
    length: int
    reason: str


class SnapshotRow(NamedTuple):
    """Key epoch: all tables at one moment. Each epoch is one row; `kind` names what the run did.

    `event_time`: the highest applied, None before the first record. `offsets`: partition -> next offset to read.
    `versions`: table -> Delta version. `changes`: table -> rows changed since the row before. `last_tick`: event time
    of the newest tick applied; `last_tick_append` and `clock_millis`: its append time, and the log's clock at it (D9).
    `last_append`: append time of the last record applied. `kafka_cluster_id` and `kafka_topic_id` name the log.
    `log_accepted_at`: records of the log from before that time do not count (a new log that was accepted on old
    tables).
    """

    epoch: int
    term: int
    run_id: str
    query_id: str | None
    batch_id: int | None
    published_at: int
    event_time: int | None
    offsets: dict[int, int]
    versions: dict[str, int]
    changes: dict[str, int]
    kind: str | None = None
    last_tick: int | None = None
    kafka_cluster_id: str | None = None
    kafka_topic_id: str | None = None
    log_accepted_at: int | None = None
    last_tick_append: int | None = None
    clock_millis: int | None = None
    last_append: int | None = None


class PastSessionRow(NamedTuple):
    """A stretch of time in which a broker was in the routes, as maintenance has found it in the history.

    `back_at` is None in the latest session of each broker alone, and `to_time` too if that one lasts.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    first_addr: str
    last_addr: str | None
    from_time: int
    to_time: int | None
    ended_by: str | None
    last_heard_at: int | None
    back_at: int | None
    was_handed_over: bool
    as_of_epoch: int


class PastSnapshotRow(NamedTuple):
    """Key epoch: what stays of a snapshot that can no longer be read, so that the epochs of the history have a run."""

    epoch: int
    term: int
    run_id: str
    query_id: str | None
    batch_id: int | None
    published_at: int
    event_time: int | None
    kind: str | None
