"""Maintenance bounds the files and never takes what a retained snapshot names, the job running beside it or not."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tenacity import retry, retry_if_result, stop_after_delay, wait_fixed

from namesrv_stream.tables.maintenance import FILES_BORNE, maintain
from namesrv_stream.tables.publication import Publisher, Writers
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.root import DAY_MS
from namesrv_stream.tables.rust_writer import RustWriter
from namesrv_stream.tables.schemas import ROUTE_TABLES, SNAPSHOT, TOPIC
from tests.tables.rows import NOW
from tests.tables.test_publication import WRITTEN, assert_shows_exactly, batch, batches_shown, claim

pytestmark = pytest.mark.spark


def views_of_all(root):
    reader = RouteReader(root)
    rows = reader.snapshots.readable()
    return {row.epoch: batches_shown(reader.open(epoch=row.epoch), root) for row in rows}


def test_it_bounds_the_files_and_every_retained_snapshot_reads_as_before(spark, root):
    publisher = claim(root)
    for number in range(12):
        publisher.publish(batch(number), NOW)
    before = views_of_all(root)
    care = {each.table: each for each in maintain(spark, root)}
    assert views_of_all(root) == before
    assert care["broker_event"].files_before == 12
    assert all(each.files_after <= FILES_BORNE for each in care.values())
    assert [each.table for each in care.values() if each.is_put_off] == []


@pytest.mark.full
def test_the_job_goes_on_where_it_was_after_a_maintenance(spark, root):
    publisher = claim(root)
    for number in range(6):
        publisher.publish(batch(number), NOW)
    maintain(spark, root)
    publisher.publish(batch(6), NOW)
    assert publisher.restored == []
    assert_shows_exactly(root, *range(7))


@pytest.mark.full
def test_running_beside_the_job_breaks_neither(spark, root):
    publisher = claim(root)
    for number in range(6):
        publisher.publish(batch(number), NOW)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(maintain, spark, root)
        number = 6
        while not running.done():
            publisher.publish(batch(number), NOW)
            number += 1
        running.result()
    assert number > 7
    assert publisher.restored == []
    assert_shows_exactly(root, *range(number))
    reader = RouteReader(root)
    for epoch in range(2, number + 2, max(1, number // 5)):  # each batch is an epoch; the claim was the first
        shown = batches_shown(reader.open(epoch=epoch), root)
        assert shown == {table: {f"batch-{each}" for each in range(epoch - 1)} for table in WRITTEN}


def test_a_month_that_is_in_order_is_not_written_again(spark, root):
    publisher = claim(root)
    for number in range(6):
        publisher.publish(batch(number), NOW)
    maintain(spark, root, vacuum=False)
    writer = RustWriter(root)
    heads = {spec.name: writer.head(spec) for spec in ROUTE_TABLES}
    maintain(spark, root, vacuum=False)
    assert {spec.name: writer.head(spec) for spec in ROUTE_TABLES} == heads


def test_rows_of_snapshots_past_retention_go_and_their_history_stays(spark, root):
    publisher = claim(root, at_ms=NOW - 40 * DAY_MS)
    publisher.publish(batch(0), NOW - 40 * DAY_MS)
    publisher.publish(batch(1), NOW)
    maintain(spark, root)
    rows = RouteReader(root).table(
        SNAPSHOT, publisher.last._replace(versions={"snapshot": RustWriter(root).head(SNAPSHOT)})
    )
    assert rows["epoch"].to_pylist() == [3]
    assert_shows_exactly(root, 0, 1)
    publisher.publish(batch(2), NOW)
    assert_shows_exactly(root, 0, 1, 2)


@pytest.mark.full
def test_files_go_when_no_retained_snapshot_needs_them(spark, root):
    """With a retention of a second, so that it passes while the test runs."""
    publisher = Publisher.claim(Writers.only(RustWriter(root)), "run", NOW, retention_ms=1_000)
    for number in range(3):
        publisher.publish(batch(number), NOW)
    folder, writer = Path(root.uri(TOPIC)), RustWriter(root)

    def files_too_many():
        return len(list(folder.glob("*.parquet"))) - writer.file_count(TOPIC, writer.head(TOPIC))

    @retry(retry=retry_if_result(bool), stop=stop_after_delay(60), wait=wait_fixed(0.5))
    def left_after_maintenance():
        maintain(spark, root)
        return files_too_many()

    assert files_too_many() > 0
    assert left_after_maintenance() == 0
    assert_shows_exactly(root, 0, 1, 2)
    publisher.publish(batch(3), NOW)
    assert_shows_exactly(root, *range(4))
