"""Tables of release 0.1.0 under this release: what is kept, what is added, what time has passed. Without Spark."""

import json

import pytest

from namesrv_stream import __version__
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.lease import LogClock
from namesrv_stream.rules.record_types import Scan, UnregisterBroker
from namesrv_stream.rules.registry import RouteRegistry
from namesrv_stream.rules.rows import LogPosition
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.pinned import open_tables
from namesrv_stream.tables.publication import Batch, KafkaLog, Publisher
from namesrv_stream.tables.root import FORMAT_PROPERTY, RELEASE_PROPERTY, RETENTION_PROPERTY, Root
from namesrv_stream.tables.schemas import BROKER_EVENT, LIVE, ROUTE_TABLES, SNAPSHOT, TOPIC
from namesrv_stream.tables.snapshot_reader import RouteReader
from namesrv_stream.tables.writer import RowChanges, RustWriter, changes_to_write
from tests.upgrade import BROKERS, LEASE_MS, RETENTION_MS, WITH_COUNTS, WITH_GRACE, extract, unpack

HERE = KafkaLog("cluster-here", "topic-here")


@pytest.fixture
def root(tmp_path):
    unpack(tmp_path)
    return str(tmp_path / "registry")


def claim(root, retention_ms=RETENTION_MS):
    return Publisher.claim(RustWriter(Root(root)), "new", 1, retention_ms, log_of=lambda _: HERE)


def in_order(lines):
    return lines.sort_by([("epoch", "ascending"), ("seq", "ascending")])


def tables(view):
    return {spec.name: sorted(view.rows(spec.name)) for spec in ROUTE_TABLES}


def test_a_claim_adds_the_new_columns_and_keeps_routes_and_history(root):
    before = RouteReader(root)
    kept, told = tables(before.open()), open_tables(root)[BROKER_EVENT.name]
    last = claim(root).last
    after = RouteReader(root)
    assert sorted(after.open().routes.live) == sorted(BROKERS)
    assert tables(after.open()) == kept
    assert in_order(open_tables(root)[BROKER_EVENT.name]).equals(in_order(told))
    assert (last.kind, last.kafka_cluster_id, last.kafka_topic_id) == ("CLAIM", "cluster-here", "topic-here")
    assert Root(root).open(LIVE).metadata().configuration[RELEASE_PROPERTY] == __version__, "it added columns"


def test_tables_keep_the_format_that_gateways_of_the_former_release_read_and_no_start_sets_anything_twice(root):
    for retention_ms in (RETENTION_MS, RETENTION_MS - 1000):
        claim(root, retention_ms)
        properties = Root(root).open(TOPIC).metadata().configuration
        assert (properties[FORMAT_PROPERTY], properties[RETENTION_PROPERTY]) == ("1", str(retention_ms))
        assert properties["delta.deletedFileRetentionDuration"] == "interval 4200 seconds"
    before = {spec: Root(root).open(spec).version() for spec in (SNAPSHOT, TOPIC)}
    claim(root, retention_ms)
    for spec, version in before.items():
        later = [each["operation"] for each in Root(root).open(spec).history() if each["version"] > version]
        assert "SET TBLPROPERTIES" not in later


def test_snapshots_of_the_former_release_have_null_in_the_later_columns(root):
    newest = RouteReader(root).open().snapshot
    publisher = claim(root)
    heard = [
        lease._replace(channels={"g": 1}, clock_millis=2) for lease in rows_from_arrow(LIVE, publisher.table("live"))
    ]
    publisher.publish(Batch(None, None, newest.event_time, newest.offsets, {"live": RowChanges(heard)}), 2)
    reader = RouteReader(root)
    old, new = reader.open(epoch=newest.epoch), reader.open()
    assert old.snapshot == newest
    assert {(lease.clock_millis, *lease.channels) for lease in old.rows("live")} == {(None,)}
    assert {(lease.clock_millis, *lease.channels) for lease in new.rows("live")} == {(2, "g")}


def test_the_time_that_an_upgrade_took_is_an_outage_and_no_silence(root):
    last = claim(root).last
    registry = RouteRegistry(NamesrvSettings())
    registry.load(tables(RouteReader(root).open()), LogClock.of(last))
    back_ms, silent_ms = last.event_time + 2 * LEASE_MS, last.event_time - min(last_signs(root)) + 3_000
    for at_ms in range(back_ms, back_ms + LEASE_MS, 1_000):
        registry.apply(Scan(), LogPosition(at_ms, 0, at_ms))
        assert (len(registry.view().live) == len(BROKERS)) == (silent_ms + at_ms - back_ms <= LEASE_MS)
    assert not registry.view().live


def last_signs(root):
    return [lease.last_update_timestamp for lease in RouteReader(root).open().rows("live")]


@pytest.fixture
def in_grace(tmp_path):
    """The rules as they start on tables of the last commit before the log's clock, and the newest tick's time."""
    extract(WITH_GRACE, tmp_path)
    last = claim(str(tmp_path / "registry")).last
    registry = RouteRegistry(NamesrvSettings())
    registry.load(tables(RouteReader(str(tmp_path / "registry")).open()), LogClock.of(last))
    return registry, last.last_tick


def test_a_lease_in_grace_starts_with_what_its_grace_had_left(in_grace):
    registry, tick_ms = in_grace
    outage_ms = tick_ms - 2_000  # the tick that gave a grace of 60 s
    readings = {address: lease.clock_millis for address, lease in registry.view().live.items()}
    assert readings == {
        "10.0.0.1:10911": tick_ms - 23_000,  # its lease of 120 s is longer than the grace
        "10.0.0.2:10911": outage_ms + 60_000 - 10_000,
        "10.0.0.3:10911": tick_ms - 1_000,  # its heartbeat has ended the grace
    }


def test_leases_of_tables_with_grace_end_when_they_would_have_ended(in_grace):
    registry, tick_ms = in_grace
    ended_after_s = {}
    for second in range(1, 101):
        registry.apply(Scan(), LogPosition(tick_ms + 1_000 * second, 0, second))
        ended_after_s |= {line.broker_addr: second for line in registry.take_changes().events if line.type == "EXPIRED"}
    assert ended_after_s == {"10.0.0.3:10911": 10, "10.0.0.2:10911": 59, "10.0.0.1:10911": 98}


@pytest.fixture
def counted(tmp_path):
    """Tables whose history counts the topics of broker-1 (300) in epochs 2, 4 and 6, and the true topics by epoch."""
    extract(WITH_COUNTS, tmp_path)
    true = json.loads((tmp_path / "topics.json").read_text())
    return str(tmp_path / "registry"), {int(epoch): rows for epoch, rows in true.items()}


def topics_at(root, epoch):
    """The rows of `topic` and what the answer says that it lacks."""
    made = RouteReader(root).open(epoch=epoch)
    return sorted(map(list, made.rows("topic"))), dict(made.unlisted)


@pytest.mark.parametrize(
    ("gone", "lacking"),
    [
        ([], {}),
        ([2, 4, 6], {}),  # the lines up to the next epoch name all that they change
        ([2, 3, 4, 5, 6], {2: 300, 3: 300, 4: 300, 5: 300}),
    ],
)
def test_what_lines_of_the_former_release_lack_comes_from_kept_snapshots_or_is_said(counted, gone, lacking):
    root, true = counted
    claim(root)
    for epoch in gone:
        Root(root).open(SNAPSHOT).delete(f"epoch = {epoch}")
    for epoch, rows in true.items():
        found, unlisted = topics_at(root, epoch)
        assert unlisted == ({"broker-1": lacking[epoch]} if epoch in lacking else {})
        if not unlisted:
            assert found == rows
        assert [row for row in found if row[1] != "broker-1"] == [row for row in rows if row[1] != "broker-1"]


def test_lines_of_both_releases_give_the_past(counted):
    root, true = counted
    publisher, registry = claim(root), RouteRegistry(NamesrvSettings())
    registry.load(tables(RouteReader(root).open()), LogClock.of(publisher.last))
    at_ms = publisher.last.event_time + 60_000
    registry.apply(UnregisterBroker(broker_addr="10.0.0.1:10911"), LogPosition(at_ms, 0, 6))
    came = registry.take_changes()
    last = publisher.publish(Batch(None, None, at_ms, {0: 7}, changes_to_write(came.changes), came.events), at_ms)
    Root(root).open(SNAPSHOT).delete(f"epoch IN (7, {last.epoch - 1})")
    assert topics_at(root, 7) == (true[7], {})
    assert topics_at(root, last.epoch)[0] == [row for row in true[7] if row[1] != "broker-1"]
