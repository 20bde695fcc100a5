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

    topic: Annotated[str, "name of the topic"]
    broker_name: Annotated[str, "broker name that has the topic"]
    read_queue_nums: Annotated[int, INT, "number of queues that consumers read"]
    write_queue_nums: Annotated[int, INT, "number of queues that producers write"]
    perm: Annotated[int, INT, "permission bits: 8 priority, 4 read, 2 write, 1 inherit"]
    topic_sys_flag: Annotated[int, INT, "bits: 1 unit, 2 has unit subscription"]


class BrokerRow(NamedTuple):
    """Key (broker_name, broker_id): the id's holder, and cluster, zone and flag of its latest registration (D6)."""

    broker_name: Annotated[str, "name of the group of a master and its slaves"]
    broker_id: Annotated[int, "0 is the master"]
    broker_addr: Annotated[str, "host:port of the address that holds the id"]
    cluster_name: Annotated[str, "cluster as this address registered"]
    zone_name: Annotated[str | None, "zone as this address registered"]
    enable_acting_master: Annotated[bool | None, "NULL: the broker did not send the flag (R9)"]
    registered_at: Annotated[
        LogPosition, "position in the log of the latest registration of this holder that could change a lookup (D6)"
    ]


class ClusterRow(NamedTuple):
    """Key (cluster_name, broker_name): exists while an address registered under the cluster holds an id of the name."""

    cluster_name: Annotated[str, "cluster under which a holder of an id of the broker name registered (D6)"]
    broker_name: Annotated[str, "may be in several clusters: join broker by both columns"]


class FilterRow(NamedTuple):
    """Key broker_addr: the filter servers of an address, in the order in which they were registered."""

    broker_addr: Annotated[str, "host:port"]
    filter_server_list: Annotated[tuple[str, ...], "filter servers in the order in which they were registered"]


class LiveRow(NamedTuple):
    """Key broker_addr: one accepted lease.

    `last_update_timestamp`: the last sign of life; in the tables as of the last publication. `clock_millis`: the log's
    clock at that sign of life (D9), from which alone the lease's end follows. `channels`: connection -> the log's clock
    at the last sign of life over it. `tokens`: see `rules/registration.py`.
    """

    broker_addr: Annotated[str, "host:port"]
    cluster_name: Annotated[str, "cluster of the latest accepted registration"]
    broker_name: Annotated[str, "broker name of the latest accepted registration"]
    broker_id: Annotated[int, "id of the latest accepted registration; another address may hold it now (R8)"]
    last_update_timestamp: Annotated[
        int, TIME, "last sign of life up to the offset of the snapshot; at most 5 minutes behind the log"
    ]
    heartbeat_timeout_millis: Annotated[int, "how long the lease lasts after the last sign of life"]
    data_version: Annotated[DataVersion, "data version of the topic table of the broker"]
    ha_server_addr: Annotated[str, "address for replication; may be empty"]
    lease_began_at: Annotated[int, TIME, "the address has been alive since then without a gap"]
    channels: Annotated[
        Mapping[str, int], "connections that keep the lease, each with the log's clock at its last sign of life"
    ] = {}
    suspect_since: Annotated[
        int | None,
        TIME,
        "tick since which the guard against mass expiry holds the silent lease (D11); NULL for all others",
    ] = None
    clock_millis: Annotated[int | None, "the log's clock (D9) at the last sign of life; 0 before the first tick"] = None
    tokens: Annotated[tuple[str, ...], "registrations whose effect the tables show (E10)"] = ()
    broker_version: Annotated[
        str | None, "release of RocketMQ that the broker runs, such as 5.4.0; NULL if unknown"
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

    namespace: Annotated[str, "namespace of the key"]
    key: Annotated[str, "empty: the row stands for the namespace itself (K3, K4)"]
    value: Annotated[str | None, "NULL in the row of a namespace"]


class NamesrvConfigRow(NamedTuple):
    """Key `key`: a setting that UPDATE_NAMESRV_CONFIG changed at run time (A5)."""

    key: Annotated[str, "name of the setting"]
    value: Annotated[str, "takes precedence over the settings file of every process"]


class TopicMappingRow(NamedTuple):
    """Key (topic, broker_name): a static topic's TopicQueueMappingInfo as JSON text (T7)."""

    topic: Annotated[str, "name of the static topic"]
    broker_name: Annotated[str, "broker name that the mapping names"]
    mapping: Annotated[str, "TopicQueueMappingInfo as JSON"]


class BrokerEventRow(NamedTuple):
    """One line of history. The table is append-only and ordered by (epoch, seq).

    `partition` and `offset` are None for an event that no record caused (an expiry). `lease_millis`: how long a lease
    that ended had lasted. `changes` is no column: the table `row_change` has these rows.
    """

    epoch: Annotated[int, "snapshot that published the line"]
    seq: Annotated[int, "number of the line in its epoch, from 0"]
    event_time: Annotated[int, TIME, "event time of the record (E9); for EXPIRED that of the tick that ended the lease"]
    partition: Annotated[int | None, INT, "Kafka partition of the record that caused it; NULL for an expiry"]
    offset: Annotated[int | None, "Kafka offset of the record that caused it; NULL for an expiry"]
    type: Annotated[str, "what happened, such as REGISTERED or EXPIRED; docs/tables.md lists all"]
    cluster_name: Annotated[str | None, "cluster of the broker concerned; NULL if it is no single one"]
    zone_name: Annotated[str | None, "zone of the broker concerned: as it registered, or with which it lost its id"]
    broker_name: Annotated[str | None, "broker name concerned; NULL if it is no single one"]
    broker_id: Annotated[int | None, "id of the broker concerned; NULL if it is no single one"]
    broker_addr: Annotated[str | None, "address concerned; NULL if it is no single one"]
    data_version: Annotated[DataVersion | None, "data version of the topic table of the broker at this event"]
    cause: Annotated[str, "type of the record, or SILENCE"]
    requested_by: Annotated[
        str | None,
        "who asked for a command or sent the registration: user@peer if the gateway knows the user, only the peer for "
        "other commands",
    ]
    reason: Annotated[str | None, "why an operator sent the command, if the command says so"] = None
    command: Annotated[
        str | None,
        "a command as JSON, in the first of its lines; RESTORE and REPAIR with the number of rows of each table",
    ] = None
    last_heard_at: Annotated[int | None, TIME, "last sign of life of a lease that ended"] = None
    lease_millis: Annotated[int | None, "duration of a lease that ended"] = None
    gap_millis: Annotated[int | None, "of a LOG_GAP: the time without a tick (E11)"] = None
    held_id: Annotated[
        bool | None,
        "true if the address held the id until this line; of a RETIRE_BROKER: if it holds it still",
    ] = None
    is_version_only: Annotated[bool | None, "true if the line changed nothing that a route lookup returns"] = None
    topics_added: Annotated[int | None, INT, "rows of `topic` that came with this line"] = None
    topics_changed: Annotated[int | None, INT, "rows of `topic` with other values since this line"] = None
    topics_removed: Annotated[int | None, INT, "rows of `topic` that went with this line"] = None
    deleted_topic: Annotated[str | None, "topic that the command deleted in all clusters"] = None
    changes: tuple[RowChange, ...] = ()


class RowChangeRow(NamedTuple):
    """A row of a keyed table before and after a line of history, without its structs (tables/schemas.py)."""

    epoch: Annotated[int, "snapshot that published the change"]
    seq: Annotated[int, "number of the line of `broker_event` in its epoch that caused it"]
    event_time: Annotated[int, TIME, "event time of that line"]
    table_name: Annotated[str, "table of the row"]
    topic: Annotated[str | None, "key of the row; NULL where the table's key has no such column"]
    broker_name: Annotated[str | None, "as topic"]
    broker_id: Annotated[int | None, "as topic"]
    broker_addr: Annotated[str | None, "as topic"]
    cluster_name: Annotated[str | None, "as topic"]
    namespace: Annotated[str | None, "as topic"]
    key: Annotated[str | None, "as topic"]


class RejectedRow(NamedTuple):
    """A record that violates the contract; `value` is its first 64 KiB, `length` its whole length in bytes."""

    event_time: Annotated[int, TIME, "event time of the record"]
    partition: Annotated[int, INT, "Kafka partition of the record"]
    offset: Annotated[int, "Kafka offset of the record"]
    key: Annotated[str | None, "first 1,024 bytes of the key"]
    value: Annotated[bytes | None, "first 64 KiB of the value"]
    length: Annotated[int, "length of the whole value in bytes"]
    reason: Annotated[str, "first error that was found in the record"]


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

    epoch: Annotated[int, "number of the snapshot, one higher than that of the row before"]
    term: Annotated[int, "number of the claim under which it was published; each start of the job claims one"]
    run_id: Annotated[str, "process of the job that published it"]
    query_id: Annotated[str | None, "streaming query of the micro-batch"]
    batch_id: Annotated[int | None, "number of the micro-batch in its query"]
    published_at: Annotated[int, TIME, "wall clock of the job when the publication began"]
    event_time: Annotated[int | None, TIME, "highest event time that was applied; NULL before the first record"]
    offsets: Annotated[dict[int, int], "Kafka partition -> the next offset to read"]
    versions: Annotated[dict[str, int], "table -> Delta version"]
    changes: Annotated[dict[str, int], "table -> number of rows changed"]
    kind: Annotated[str | None, "PUBLICATION; CLAIM: a run took the registry; STOP: it ended in order"] = None
    last_tick: Annotated[int | None, TIME, "event time of the newest tick that was applied"] = None
    kafka_cluster_id: Annotated[str | None, "Kafka that the tables were made from"] = None
    kafka_topic_id: Annotated[str | None, "topic that the tables were made from"] = None
    log_accepted_at: Annotated[
        int | None, TIME, "set for a log that replaced another one: its records from before this time have no effect"
    ] = None
    last_tick_append: Annotated[int | None, TIME, "append time of the newest tick that was applied"] = None
    clock_millis: Annotated[int | None, "the log's clock (D9) at the newest tick"] = None
    last_append: Annotated[int | None, TIME, "append time of the last record that was applied"] = None
    holes: Annotated[
        tuple[Hole, ...], "lost rows of the history: their table, epochs and event times, and when it was repaired"
    ] = ()
    repaired_at: Annotated[int | None, TIME, "wall clock of the last repair of the tables; NULL if there was none"] = (
        None
    )
