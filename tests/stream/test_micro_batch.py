"""One micro-batch on the driver: rows of the stateful step in, published tables out. Real Delta, no Spark job."""

import pyarrow as pa
import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.records import encode_record
from namesrv_stream.rules.requests import DataVersion, PutKvConfig, RegisterBroker, TopicConfig, WipeWritePerm
from namesrv_stream.stream.micro_batch import MicroBatches
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.schemas import PINNED_TABLES, TABLES

T0 = 1_700_000_000_000
QUERY = "query-1"
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
COLUMNS = pa.schema(
    {
        "kind": pa.string(),
        "broker_addr": pa.string(),
        "event_time_ms": pa.int64(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "last_heard_ms": pa.int64(),
        "value": pa.binary(),
        "rejected_key": pa.binary(),
        "length": pa.int64(),
        "reason": pa.string(),
    }
)


def event(kind, address, at_ms, offset, *, last_heard_ms=None, value=None, **rest):
    partition = rest.pop("partition", -1 if offset < 0 else 0)
    return {
        "kind": kind,
        "broker_addr": address,
        "event_time_ms": T0 + at_ms,
        "partition": partition,
        "offset": offset,
        "last_heard_ms": T0 + (at_ms if last_heard_ms is None else last_heard_ms),
        "value": value,
        "length": None if value is None else len(value),
        **rest,
    }


def registered(address, at_ms, offset, *, broker_id=0, topics=("TopicA",), **fields):
    request = RegisterBroker(
        cluster_name="c",
        broker_name="broker-a",
        broker_id=broker_id,
        broker_addr=address,
        topic_config_table={topic: TopicConfig(8, 8, 6) for topic in topics},
        **fields,
    )
    return event("REGISTERED", address, at_ms, offset, value=encode_record(request))


def expired(address, at_ms, last_heard_ms):
    return event("EXPIRED", address, at_ms, -1, last_heard_ms=last_heard_ms)


def tick(at_ms, offset, partition=0):
    return event("MARK", "", at_ms, offset, partition=partition)


class Registry:
    """A run's micro-batches on the tables under `root`; batches are numbered from 0."""

    def __init__(self, root, run_id="run-1", offsets=None, **settings):
        self._root = Root(str(root))
        self._writer = RustWriter(self._root)
        self.publisher = Publisher.claim(self._writer, run_id, T0)
        self.batches = MicroBatches(NamesrvSettings.model_validate(settings), self.publisher, offsets)
        self.batch_id = -1

    def handle(self, *events, batch_id=None, query_id=QUERY):
        self.batch_id = self.batch_id + 1 if batch_id is None else batch_id
        self.batches.handle(pa.Table.from_pylist(list(events), COLUMNS), query_id, self.batch_id)
        return self.publisher.last

    def rows(self, name):
        return rows_from_arrow(TABLES[name], self.publisher.table(name))

    def heads(self):
        """The newest version of each table, whatever a snapshot names."""
        return {name: Root.open(self._root, spec).version() for name, spec in TABLES.items()}

    def addresses(self, table="live"):
        return sorted(row.broker_addr for row in self.rows(table))


@pytest.fixture
def registry(tmp_path):
    return Registry(tmp_path / "registry")


def test_a_batch_that_changes_nothing_commits_nothing(registry):
    registry.handle(registered(A, 0, 0))
    before = registry.heads()
    registry.handle(event("SEEN", A, 10_000, 1), tick(10_000, 2))
    registry.handle(registered(A, 20_000, 3), tick(20_001, 4))
    assert registry.heads() == before


@pytest.mark.parametrize(("waited_ms", "published_ms"), [(29_999, 0), (30_000, 30_000)])
def test_signs_of_life_are_published_when_the_refresh_time_has_passed(registry, waited_ms, published_ms):
    registry.handle(registered(A, 0, 0))
    before = registry.heads()
    registry.handle(event("SEEN", A, waited_ms, 1))
    assert [row.last_update_timestamp - T0 for row in registry.rows("live")] == [published_ms]
    changed = {name for name, version in registry.heads().items() if version != before[name]}
    assert changed == ({"live", "snapshot"} if published_ms else set())


def test_signs_of_life_go_out_with_the_next_change(registry):
    registry.handle(registered(A, 0, 0))
    registry.handle(event("SEEN", A, 5_000, 1))
    registry.handle(registered(B, 6_000, 2, broker_id=1))
    assert {row.broker_addr: row.last_update_timestamp - T0 for row in registry.rows("live")} == {A: 5_000, B: 6_000}


def test_signs_of_life_are_published_before_the_job_stops(registry):
    registry.handle(registered(A, 0, 0))
    registry.handle(event("SEEN", A, 5_000, 1))
    registry.batches.close()
    assert [row.last_update_timestamp - T0 for row in registry.rows("live")] == [5_000]
    done = registry.heads()
    registry.batches.close()
    assert registry.heads() == done


def test_a_batch_that_comes_again_changes_nothing(registry):
    put = encode_record(PutKvConfig(namespace="n", key="k", value="v"))
    batch = (registered(A, 0, 0), event("PUT_KV_CONFIG", "", 1, 1, value=put))
    registry.handle(*batch)
    before = registry.heads()
    registry.handle(*batch, batch_id=0)
    assert registry.heads() == before


def test_a_batch_that_comes_again_after_a_restart_changes_nothing(registry, tmp_path):
    registry.handle(registered(A, 0, 0))
    again = Registry(tmp_path / "registry", "run-2")
    before = again.heads()
    again.handle(registered(A, 0, 0), batch_id=0)
    assert again.heads() == before
    again.handle(registered(B, 1, 1, broker_id=1), batch_id=1)
    assert again.addresses() == [A, B]


def test_of_records_read_again_with_later_ones_only_the_later_count(registry, tmp_path):
    """A checkpoint older than the tables: batches are cut anew, under numbers that were used before."""
    command = encode_record(PutKvConfig(namespace="n", key="k", value="v"))
    registry.handle(registered(A, 0, 0))
    registry.handle(event("UNREGISTERED", A, 1, 1, last_heard_ms=0), event("PUT_KV_CONFIG", "", 2, 2, value=command))
    told = registry.rows("broker_event")
    again = Registry(tmp_path / "registry", "run-2")
    again.handle(
        registered(A, 0, 0),
        event("UNREGISTERED", A, 1, 1, last_heard_ms=0),
        event("PUT_KV_CONFIG", "", 2, 2, value=command),
        registered(B, 3, 3),
        batch_id=0,
    )
    assert again.addresses() == [B]
    assert [line for line in again.rows("broker_event") if line.offset < 3] == told


def test_an_expiry_that_comes_again_is_told_once(registry, tmp_path):
    registry.handle(registered(A, 0, 0))
    registry.handle(expired(A, 120_001, last_heard_ms=0))
    told = registry.rows("broker_event")
    again = Registry(tmp_path / "registry", "run-2")
    again.handle(expired(A, 120_001, last_heard_ms=0), batch_id=1)
    assert again.rows("broker_event") == told


def test_records_of_a_topic_made_anew_count_from_its_start(registry, tmp_path):
    """The old topic ended at 10; the first batch is published so that the tables know the new one from then on."""
    registry.handle(registered(A, 0, 9))
    again = Registry(tmp_path / "registry", "run-2", offsets={})
    assert again.handle(tick(5, 3)).offsets == {0: 4}
    again.handle(registered(B, 6, 4, broker_id=1))
    assert again.addresses() == [A, B]
    epoch = again.publisher.last.epoch
    assert again.handle(tick(7, 5)).epoch == epoch


def test_nothing_of_a_failed_batch_is_published_when_the_job_stops(registry):
    registry.handle(registered(A, 0, 0))
    registry.handle(event("SEEN", A, 5_000, 1))
    before = registry.heads()
    with pytest.raises(TypeError):
        registry.handle(registered(B, 6_000, 2), event("REGISTERED", A, 6_001, 3, value=None))
    registry.batches.close()
    assert registry.heads() == before


def test_rows_of_a_batch_are_applied_in_the_order_of_the_log_however_they_come(registry):
    registry.handle(registered(A, 2, 2, topics=["TopicC"]), registered(A, 1, 1, topics=["TopicB"]), registered(B, 0, 0))
    assert registry.addresses("broker") == [A]
    assert [event.offset for event in registry.rows("broker_event") if event.type == "REGISTERED"] == [0, 1]
    assert [event.type for event in registry.rows("broker_event") if event.broker_addr == B][-1] == "ID_LOST"


def test_a_lease_ends_before_a_record_of_the_same_millisecond(registry):
    """The silent broker's topics are gone before the newcomer takes its id, so they do not live on with it."""
    registry.handle(registered(A, 0, 0))
    registry.handle(registered(B, 120_001, 1, topics=["TopicB"]), expired(A, 120_001, last_heard_ms=0))
    assert registry.addresses() == registry.addresses("broker") == [B]
    assert [row.topic for row in registry.rows("topic")] == ["TopicB"]


def test_an_end_of_a_lease_that_began_anew_is_ignored(registry):
    registry.handle(registered(A, 0, 0))
    registry.handle(registered(A, 130_000, 1))
    registry.handle(expired(A, 120_001, last_heard_ms=0))
    assert registry.addresses() == [A]


def test_what_is_said_of_an_address_without_a_lease_changes_nothing(registry):
    before = registry.heads()
    registry.handle(event("SEEN", A, 40_000, 1), event("UNREGISTERED", A, 40_001, 2))
    assert registry.heads() == before


def test_a_command_without_effect_leaves_a_line_of_history(registry):
    command = WipeWritePerm(broker_name="nobody", requested_by="ops")
    registry.handle(event("WIPE_WRITE_PERM_OF_BROKER", "", 0, 7, value=encode_record(command)))
    [line] = registry.rows("broker_event")
    assert (line.type, line.offset, line.requested_by) == ("WIPE_WRITE_PERM_OF_BROKER", 7, "ops")
    assert registry.publisher.last.offsets == {0: 8}


def test_an_unreadable_command_is_rejected_with_its_reason(registry):
    value = b'{"type": "PUT_KV_CONFIG", "namespace": "n", "key": 1, "value": "v"}'
    registry.handle(event("PUT_KV_CONFIG", "", 0, 3, value=value))
    [row] = registry.rows("rejected")
    assert (row.partition, row.offset, row.key, row.value, row.length) == (0, 3, "", value, len(value))
    assert "key" in row.reason
    assert registry.rows("broker_event") == []


def test_a_record_that_the_source_rejected_is_kept(registry):
    kept = event("REJECTED", "", 5, 3, value=b"x" * 65_536, rejected_key=b"\xff", reason="not UTF-8")
    registry.handle(kept | {"length": 5 * 1024 * 1024}, event("REJECTED", "", 6, 4, reason="no value"))
    first, tombstone = sorted(registry.rows("rejected"))
    assert (first.event_time, first.offset, first.key, first.length) == (T0 + 5, 3, "\ufffd", 5 * 1024 * 1024)
    assert (first.value, first.reason) == (b"x" * 65_536, "not UTF-8")
    assert (tombstone.value, tombstone.length, tombstone.reason) == (None, 0, "no value")


def test_topics_that_could_not_be_read_are_taken_when_they_can_though_the_version_is_the_same(registry):
    good = registered(A, 10_000, 1, topics=["TopicA", "TopicB"], data_version=DataVersion(0, 1, 1))
    bad = registered(A, 0, 0, topics=["TopicA", "TopicB"], data_version=DataVersion(0, 1, 1))
    bad["value"] = bad["value"].replace(b'"readQueueNums":8', b'"readQueueNums":"8"', 1)
    registry.handle(bad)
    assert registry.rows("live")[0].data_version == DataVersion()
    assert registry.rows("topic") == []
    registry.handle(good)
    assert [row.topic for row in registry.rows("topic")] == ["TopicA", "TopicB"]


def test_topics_that_could_not_be_read_delete_none(tmp_path):
    """T5: with deleteTopicWithBrokerRegistration a registration removes the topics that it does not name."""
    registry = Registry(tmp_path / "registry", deleteTopicWithBrokerRegistration="true")
    registry.handle(registered(A, 0, 0, data_version=DataVersion(0, 1, 1)))
    bad = registered(A, 10_000, 1, topics=["TopicB"], data_version=DataVersion(0, 1, 2))
    bad["value"] = bad["value"].replace(b'"readQueueNums":8', b'"readQueueNums":"8"', 1)
    registry.handle(bad)
    assert [row.topic for row in registry.rows("topic")] == ["TopicA"]


def test_topics_that_could_not_be_read_are_taken_anew_by_a_slave_that_has_become_master(registry):
    """U4 wiped the name's write permissions when its master went; the slave's version is the same as before."""
    version = DataVersion(0, 1, 1)
    registry.handle(registered(A, 0, 0, enable_acting_master=True, data_version=version))
    registry.handle(registered(B, 1, 1, broker_id=1, enable_acting_master=True, data_version=version))
    registry.handle(event("UNREGISTERED", A, 2, 2, last_heard_ms=0))
    assert [row.perm for row in registry.rows("topic")] == [4]
    bad = registered(B, 3, 3, data_version=version)
    bad["value"] = bad["value"].replace(b'"readQueueNums":8', b'"readQueueNums":"8"', 1)
    registry.handle(bad)
    registry.handle(registered(B, 4, 4, data_version=version))
    assert [row.perm for row in registry.rows("topic")] == [6]


def test_a_stale_master_stays_refused_by_one_whose_topics_could_not_be_read(registry):
    """R6."""
    registry.handle(registered(A, 0, 0, data_version=DataVersion(4, 1, 1)))
    bad = registered(B, 1, 1, data_version=DataVersion(5, 1, 1))
    bad["value"] = bad["value"].replace(b'"readQueueNums":8', b'"readQueueNums":"8"', 1)
    registry.handle(bad)
    registry.handle(registered(A, 2, 2, data_version=DataVersion(4, 1, 1)))
    assert registry.addresses("broker") == [B]


def test_a_registration_with_one_bad_topic_keeps_its_lease_topics_and_filter_servers(registry):
    registry.handle(registered(A, 0, 0, filter_server_list=["f:1"]))
    bad = registered(A, 10_000, 1, topics=["TopicA", "TopicB"], data_version=DataVersion(0, 1, 1))
    bad["value"] = bad["value"].replace(b'"readQueueNums":8', b'"readQueueNums":"8"', 1)
    registry.handle(bad)
    assert [(row.broker_addr, row.last_update_timestamp - T0) for row in registry.rows("live")] == [(A, 10_000)]
    assert [row.topic for row in registry.rows("topic")] == ["TopicA"]
    assert [row.filter_server_list for row in registry.rows("filter")] == [("f:1",)]
    [row] = registry.rows("rejected")
    assert (row.offset, row.key, row.value) == (1, A, bad["value"])
    assert "readQueueNums" in row.reason


@pytest.mark.parametrize("value", [b'{"type": "REGISTER_BROKER"', b'{"type": "REGISTER_BROKER", "brokerName": 1}'])
def test_a_registration_of_which_not_even_the_lease_can_be_read_changes_nothing_else(registry, value):
    snapshot = registry.handle(event("REGISTERED", A, 0, 0, value=value))
    assert registry.addresses() == []
    assert snapshot.changes == {"rejected": 1}


def test_a_snapshot_tells_how_far_the_log_has_been_read(registry):
    registry.handle(registered(A, 0, 0), tick(3, 9), tick(8, 41, partition=1))
    assert registry.publisher.last.offsets == {0: 10, 1: 42}
    assert registry.publisher.last.event_time == T0 + 8


def test_a_snapshot_covers_the_quiet_batches_before_it(registry):
    registry.handle(registered(A, 0, 0))
    registry.handle(tick(1_000, 5))
    assert registry.publisher.last.offsets == {0: 1}
    registry.handle(event("UNREGISTERED", A, 900, 6, last_heard_ms=0))
    assert registry.publisher.last.offsets == {0: 7}
    assert registry.publisher.last.event_time == T0 + 1_000


def test_every_table_is_at_the_version_that_the_snapshot_names(registry):
    registry.handle(registered(A, 0, 0, filter_server_list=["f:1"]))
    heads = registry.heads()
    assert registry.publisher.last.versions == {spec.name: heads[spec.name] for spec in PINNED_TABLES}
