"""Maintenance bounds the files and never takes what a retained snapshot names, the job running beside it or not."""

from dataclasses import replace
from itertools import groupby

import pyarrow.parquet as pq

from benchmarks.history import scans
from namesrv_stream.analysis.views import register_views
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.maintenance import MAX_FILES, maintain
from namesrv_stream.tables.registry import open_tables
from namesrv_stream.tables.root import DAY_MS
from namesrv_stream.tables.schemas import BROKER_EVENT, REJECTED, TABLES
from namesrv_stream.tables.writer import RustWriter
from tests.tables.ages import pass_time, views_of_all
from tests.tables.batches import assert_shows_exactly, batch, claim
from tests.tables.rows import NOW, T0, event


def test_it_bounds_the_files_puts_the_history_in_order_once_and_every_snapshot_reads_as_before(root):
    publisher = claim(root)
    for number, name in enumerate("bababa"):
        kinds = ("REGISTERED", "EXPIRED", "ID_TAKEN")
        events = [event(f"batch-{number}")._replace(type=kind, broker_name=name) for kind in kinds]
        publisher.publish(replace(batch(number), events=events), NOW)
    before = views_of_all(root)
    care = {each.table: each for each in maintain(root)}
    assert views_of_all(root) == before
    assert care["broker_event"].files_before == 6
    assert all(each.files_after <= MAX_FILES for each in care.values())
    assert [each.table for each in care.values() if each.skipped_because] == []
    [file] = root.open(BROKER_EVENT).file_uris()
    rows = pq.read_table(file).to_pylist()
    groups = [kind for kind, _ in groupby(rows, lambda row: (row["type"], row["broker_name"]))]
    assert len(groups) == len(set(groups)), "lines of one type and broker name lie together"
    writer = RustWriter(root)
    heads = {name: writer.head(spec) for name, spec in TABLES.items()}
    maintain(root, vacuum=False)
    assert {name: writer.head(spec) for name, spec in TABLES.items()} == heads
    publisher.publish(batch(6), NOW)
    assert publisher.restored == []
    assert_shows_exactly(root, *range(7))


def test_the_newest_snapshot_of_a_registry_at_rest_stays_readable_for_ever(root):
    """Its job was stopped just after it had put files together: the snapshot names versions that Delta would let go."""
    publisher = claim(root, at_ms=NOW - 61 * DAY_MS)
    for number in range(6):
        publisher.publish(batch(number), NOW - 61 * DAY_MS)
    assert "broker_event" in publisher.compact(max_files=1)
    pass_time(root, days=61)
    maintain(root)
    assert_shows_exactly(root, *range(6))
    heir = claim(root)
    maintain(root)
    assert_shows_exactly(root, *range(6))
    heir.publish(batch(6), NOW)
    assert_shows_exactly(root, *range(7))


def test_rejected_records_go_after_their_retention_and_the_job_goes_on(root):
    publisher = claim(root)
    ages = (91, 89, 0)
    for number, days in enumerate(ages):
        rejected = [RejectedRow(NOW - days * DAY_MS, 0, number, None, b"x", 1, f"{days} days old")]
        publisher.publish(replace(batch(number), event_time_ms=NOW, rejected=rejected), NOW)
    maintain(root)
    publisher.publish(batch(3), NOW)
    assert publisher.restored == []
    publisher.publish(replace(batch(4), event_time_ms=NOW, rejected=rejected), NOW)
    rows = open_tables(root)["rejected"]
    assert sorted(rows["reason"].to_pylist()) == ["0 days old", "0 days old", "89 days old"]
    heads = RustWriter(root).head(REJECTED)
    maintain(root)
    assert RustWriter(root).head(REJECTED) == heads


def test_a_condition_on_time_or_month_leaves_the_rows_of_other_months_unread(spark, root):
    publisher = claim(root)
    for number in range(3):
        at_ms = T0 + number * 40 * DAY_MS
        publisher.publish(replace(batch(number), event_time_ms=at_ms, events=[event("x", at_ms)]), NOW)
    session = spark.newSession()
    register_views(session, root, only=["broker_event"])
    of_time = f"event_time >= timestamp_millis({T0 + 70 * DAY_MS})"
    for condition, files in ((of_time, 3), ("event_month = '2024-02'", 1)):
        asked = session.sql(f"SELECT * FROM broker_event WHERE {condition}")
        assert len(asked.collect()) == 1
        assert [found[1:] for found in scans(asked._jdf.queryExecution().executedPlan())] == [(1, files)]
