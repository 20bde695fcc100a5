"""The rows of the registry's tables, one class for each table; fields are the Delta columns, in their order.

Each field has the comment of its column. A column is NOT NULL in Delta if its field is neither optional nor has a
default. A default marks a column that tables of a former release lack; it reads as NULL there. Times are epoch
milliseconds here and TIMESTAMP in Delta. A row is a plain tuple: equal rows are equal tables.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import itemgetter
from typing import Annotated, NamedTuple

from namesrv_stream.rules.record_types import DataVersion

TIME, INT = "timestamp", "int"
"""Marks of columns that Delta stores as TIMESTAMP and as a 32-bit number; other numbers are 64-bit ones."""


Key = tuple[Hashable, ...]
"""Key of a row, its columns in the order of the table's key."""


class RowChange(NamedTuple):
    """One row of one table before and after a step; None if there was or is no row."""

    table: str
    key: Key
    before: tuple[object, ...] | None
    after: tuple[object, ...] | None


class LogPosition(NamedTuple):
    """Event time and place of a record. The later one holds an id (D6). Records are applied by offset (E1)."""

    event_time: int
    partition: int
    offset: int


class TopicRow(NamedTuple):
    """Key (topic, broker_name): the queues of a topic on one broker name."""

    topic: Annotated[str, "Name of the topic."]
    broker_name: Annotated[str, "Broker name that has the topic."]
    read_queue_nums: Annotated[int, INT, "Number of read queues."]
    write_queue_nums: Annotated[int, INT, "Number of write queues."]
    perm: Annotated[int, INT, "Permission bits: 8 priority, 4 read, 2 write, 1 inherit."]
    topic_sys_flag: Annotated[int, INT, "Bits: 1 unit, 2 unit subscription."]


class BrokerRow(NamedTuple):
    """Key (broker_name, broker_id): the id's holder, and cluster, zone and flag of its latest registration (D6)."""

    broker_name: Annotated[str, "Name of the broker group: a master and its slaves."]
    broker_id: Annotated[int, "Broker ID; 0 is the master."]
    broker_addr: Annotated[str, "Address (host:port) that is registered as this broker."]
    cluster_name: Annotated[str, "Cluster that this address registered."]
    zone_name: Annotated[str | None, "Zone that this address registered; NULL if it sent none."]
    enable_acting_master: Annotated[
        bool | None, "Flag of the broker that a slave may act as master; NULL if it was not sent (R9)."
    ]
    registered_at: Annotated[
        LogPosition, "Position in the log of this broker's latest registration that could change a lookup (D6)."
    ]


class ClusterRow(NamedTuple):
    """Key (cluster_name, broker_name): exists while an address registered under the cluster holds an id of the name."""

    cluster_name: Annotated[str, "Cluster that a broker of this name registered (D6)."]
    broker_name: Annotated[str, "Broker name. It may be in several clusters, so join `broker` by both columns."]


class FilterRow(NamedTuple):
    """Key broker_addr: the filter servers of an address, in the order in which they were registered."""

    broker_addr: Annotated[str, "Address of the broker, host:port."]
    filter_server_list: Annotated[tuple[str, ...], "Filter servers in the order of registration."]


class LiveRow(NamedTuple):
    """Key broker_addr: one accepted lease.

    `last_update_timestamp`: the last sign of life; in the tables as of the last publication. `clock_millis`: the log's
    clock at that sign of life (D9), from which alone the lease's end follows. `channels`: connection -> the log's clock
    at the last sign of life over it. `tokens`: see `rules/registration.py`.
    """

    broker_addr: Annotated[str, "Address of the broker, host:port."]
    cluster_name: Annotated[str, "Cluster of the latest accepted registration."]
    broker_name: Annotated[str, "Broker name of the latest accepted registration."]
    broker_id: Annotated[
        int, "Broker ID of the latest accepted registration. Another address may be registered as it now (R8)."
    ]
    last_update_timestamp: Annotated[
        int, TIME, "Last heartbeat before the offset of the snapshot; at most 5 minutes behind the log."
    ]
    heartbeat_timeout_millis: Annotated[
        int, "Heartbeat timeout: time from the last heartbeat to the end of the lease, in milliseconds."
    ]
    data_version: Annotated[DataVersion, "Data version of the broker's topic table."]
    ha_server_addr: Annotated[str, "Address for replication; may be empty."]
    lease_began_at: Annotated[int, TIME, "Time since which the address has been up without a gap."]
    channels: Annotated[
        Mapping[str, int], "Connections that keep the lease, each with the log's clock at its last heartbeat."
    ] = {}
    suspect_since: Annotated[
        int | None,
        TIME,
        "Time since which the mass-expiry guard keeps the silent broker (D11); NULL for all others.",
    ] = None
    clock_millis: Annotated[
        int | None, "The log's clock (D9) at the last heartbeat; 0 before the first clock tick."
    ] = None
    tokens: Annotated[tuple[str, ...], "Tokens of the registrations whose effect the tables show (E10)."] = ()
    broker_version: Annotated[
        str | None, "Release of RocketMQ that the broker runs, such as 5.4.0; NULL if unknown."
    ] = None


SIGN_OF_LIFE_COLUMNS = frozenset({"last_update_timestamp", "clock_millis", "channels"})
"""Columns of `live` that a mere sign of life changes. A change of these columns alone is no change of the registry."""

UNRECORDED_COLUMNS = frozenset({"clock_millis", "channels", "tokens"})
"""Columns of `live` that `row_change` leaves out, because they do not describe the broker."""

QUIET_COLUMNS: Mapping[str, frozenset[str]] = {
    "broker": frozenset({"registered_at"}),
    "live": SIGN_OF_LIFE_COLUMNS | {"data_version", "tokens"},
}
"""Table -> columns that no route lookup returns. Comparisons, the history without `--versions`, and the log's lines
about brokers leave out a change in these columns alone."""

_OTHER_THAN_LIFE = itemgetter(
    *(LiveRow._fields.index(name) for name in LiveRow._fields if name not in SIGN_OF_LIFE_COLUMNS)
)


def is_same_but_for_life(before: LiveRow, after: LiveRow) -> bool:
    """Return whether two rows of one lease are equal or differ only in signs of life."""
    return bool(_OTHER_THAN_LIFE(before) == _OTHER_THAN_LIFE(after))


class KvConfigRow(NamedTuple):
    """Key (namespace, key). The namespace itself is a row with empty key and value None (K3, K4)."""

    namespace: Annotated[str, "Namespace of the key."]
    key: Annotated[str, "Key. Empty in the row that stands for the namespace itself (K3, K4)."]
    value: Annotated[str | None, "Value; NULL in the row of a namespace."]


class NamesrvConfigRow(NamedTuple):
    """Key `key`: a setting that UPDATE_NAMESRV_CONFIG changed at run time (A5)."""

    key: Annotated[str, "Name of the setting."]
    value: Annotated[str, "Value. It takes precedence over the settings file of every process."]


class TopicMappingRow(NamedTuple):
    """Key (topic, broker_name): a static topic's TopicQueueMappingInfo as JSON text (T7)."""

    topic: Annotated[str, "Name of the static topic."]
    broker_name: Annotated[str, "Broker name that the mapping is for."]
    mapping: Annotated[str, "Mapping (TopicQueueMappingInfo) as JSON."]


class BrokerEventRow(NamedTuple):
    """One line of history. The table is append-only and ordered by (epoch, seq).

    `partition` and `offset` are None for an event that no record caused (an expiry). `lease_millis`: how long a lease
    that ended had lasted. `changes` is no column: the table `row_change` has these rows.
    """

    epoch: Annotated[int, "Snapshot that published the event."]
    seq: Annotated[int, "Number of the event in its snapshot, from 0."]
    event_time: Annotated[
        int, TIME, "Event time of the record (E9). For EXPIRED, that of the clock tick that ended the lease."
    ]
    partition: Annotated[int | None, INT, "Kafka partition of the record that caused it; NULL for an expiry."]
    offset: Annotated[int | None, "Kafka offset of the record that caused it; NULL for an expiry."]
    type: Annotated[str, "Type of the event, such as REGISTERED or EXPIRED; docs/tables.md lists all."]
    cluster_name: Annotated[
        str | None, "Cluster of the broker; NULL if the event is about more than one broker or about none."
    ]
    zone_name: Annotated[
        str | None, "Zone of the broker: the one that it registered, or that it had when it went offline."
    ]
    broker_name: Annotated[
        str | None, "Name of the broker; NULL if the event is about more than one broker name or about none."
    ]
    broker_id: Annotated[int | None, "ID of the broker; NULL if the event is about more than one broker or about none."]
    broker_addr: Annotated[
        str | None, "Address of the broker; NULL if the event is about more than one broker or about none."
    ]
    data_version: Annotated[DataVersion | None, "Data version of the broker's topic table at this event."]
    cause: Annotated[str, "Type of the record that caused it, or SILENCE."]
    requested_by: Annotated[
        str | None,
        "Sender of the command or registration: user@peer if the gateway knows the user, only the peer for "
        "other commands.",
    ]
    reason: Annotated[str | None, "Reason that the operator gave with the command; NULL if none."] = None
    command: Annotated[
        str | None,
        "Command as JSON, in the first of its events. RESTORE and REPAIR have the number of rows of each table.",
    ] = None
    last_heard_at: Annotated[int | None, TIME, "Last heartbeat of a lease that ended."] = None
    lease_millis: Annotated[int | None, "Duration of a lease that ended, in milliseconds."] = None
    gap_millis: Annotated[int | None, "For LOG_GAP: time without a clock tick, in milliseconds (E11)."] = None
    held_id: Annotated[
        bool | None,
        "Whether the address was registered as this broker until this event. For RETIRE_BROKER: whether it still is.",
    ] = None
    is_version_only: Annotated[bool | None, "Whether the event changed nothing that a route lookup returns."] = None
    topics_added: Annotated[int | None, INT, "Number of rows that the event added to `topic`."] = None
    topics_changed: Annotated[int | None, INT, "Number of rows that the event changed in `topic`."] = None
    topics_removed: Annotated[int | None, INT, "Number of rows that the event removed from `topic`."] = None
    deleted_topic: Annotated[str | None, "Topic that the command deleted in all clusters."] = None
    changes: tuple[RowChange, ...] = ()


class RowChangeRow(NamedTuple):
    """A row of a keyed table before and after a line of history, without its structs (tables/schemas.py)."""

    epoch: Annotated[int, "Snapshot that published the change."]
    seq: Annotated[int, "Number, in that snapshot, of the event of `broker_event` that caused it."]
    event_time: Annotated[int, TIME, "Event time of that event."]
    table_name: Annotated[str, "Table of the row."]
    topic: Annotated[str | None, "Key of the row; NULL if the table's key has no such column."]
    broker_name: Annotated[str | None, "As `topic`."]
    broker_id: Annotated[int | None, "As `topic`."]
    broker_addr: Annotated[str | None, "As `topic`."]
    cluster_name: Annotated[str | None, "As `topic`."]
    namespace: Annotated[str | None, "As `topic`."]
    key: Annotated[str | None, "As `topic`."]


class RejectedRow(NamedTuple):
    """A record that violates the contract; `value` is its first 64 KiB, `length` its whole length in bytes."""

    event_time: Annotated[int, TIME, "Event time of the record."]
    partition: Annotated[int, INT, "Kafka partition of the record."]
    offset: Annotated[int, "Kafka offset of the record."]
    key: Annotated[str | None, "First 1,024 bytes of the key."]
    value: Annotated[bytes | None, "First 64 KiB of the value."]
    length: Annotated[int, "Length of the whole value, in bytes."]
    reason: Annotated[str, "First error that was found in the record."]


class Hole(NamedTuple):
    """Rows of a table of the history that a repair could not keep. They were of epochs `from_epoch` to `to_epoch`.

    The tables of these epochs but for the last are not known. If the repair made a keyed table from the rest, the last
    one is the first epoch after the repair. `from_millis`: no lost row has an earlier event time, None if that is not
    known. `until_millis`: none has a later one. `repaired_millis`: the wall clock of the repair.
    """

    table_name: str
    from_epoch: int
    to_epoch: int
    from_millis: int | None
    until_millis: int
    repaired_millis: int


NO_TOPIC_ID = "00000000-0000-0000-0000-000000000000"
"""The id of each topic on a Kafka without topic ids. Such a Kafka gives ids to its topics once it is upgraded."""


def known_id(kafka_id: str | None) -> str | None:
    """Return Kafka's id of a topic or cluster, None if it is unknown."""
    return None if kafka_id in (None, "", NO_TOPIC_ID) else kafka_id


def is_other_id(one: str | None, other: str | None) -> bool:
    """Return whether both ids of Kafka are known and differ."""
    return None not in (known_id(one), known_id(other)) and one != other


class SnapshotRow(NamedTuple):
    """Key epoch: all tables at one moment. Each epoch is one row; `kind` names what the run did."""

    epoch: Annotated[int, "Number of the snapshot, one higher than that of the row before."]
    term: Annotated[int, "Number of the claim under which it was published. Each start of the job claims one."]
    run_id: Annotated[str, "Run (process) of the job that published it."]
    query_id: Annotated[str | None, "Streaming query of the micro-batch."]
    batch_id: Annotated[int | None, "Number of the micro-batch in its query."]
    published_at: Annotated[int, TIME, "Wall clock of the job at the beginning of the publication."]
    event_time: Annotated[int | None, TIME, "Highest event time that was applied; NULL before the first record."]
    offsets: Annotated[dict[int, int], "Next offset to read, by Kafka partition."]
    versions: Annotated[dict[str, int], "Delta version, by table."]
    changes: Annotated[dict[str, int], "Number of changed rows, by table."]
    kind: Annotated[str | None, "PUBLICATION; CLAIM: a run became active; STOP: it stopped cleanly."] = None
    last_tick: Annotated[int | None, TIME, "Event time of the newest clock tick that was applied."] = None
    kafka_cluster_id: Annotated[str | None, "ID of the Kafka cluster that the tables were made from."] = None
    kafka_topic_id: Annotated[str | None, "ID of the Kafka topic that the tables were made from."] = None
    log_accepted_at: Annotated[
        int | None,
        TIME,
        "Time before which the log's records have no effect. NULL unless the log replaced another one.",
    ] = None
    last_tick_append: Annotated[int | None, TIME, "Append time of the newest clock tick that was applied."] = None
    clock_millis: Annotated[int | None, "The log's clock (D9) at the newest clock tick."] = None
    last_append: Annotated[int | None, TIME, "Append time of the last record that was applied."] = None
    holes: Annotated[
        tuple[Hole, ...], "Lost rows of the history: their table, epochs and event times, and the time of the repair."
    ] = ()
    repaired_at: Annotated[int | None, TIME, "Wall clock of the last repair of the tables; NULL if there was none."] = (
        None
    )
