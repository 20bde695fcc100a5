"""Publications of numbered batches: each table has a row of the batch, so that a reader shows which it has."""

from threading import Thread

from namesrv_stream.rules.rows import ClusterRow, RowChange
from namesrv_stream.tables.arrow import rows_from_arrow
from namesrv_stream.tables.publication import Batch, Publisher
from namesrv_stream.tables.registry import Registry, open_tables
from namesrv_stream.tables.schemas import BROKER_EVENT, TABLES, TOPIC
from namesrv_stream.tables.writer import RowChanges, RustWriter
from tests.tables.rows import NOW, T0, event, line_of, live, topic

WRITTEN = ("topic", "cluster", "live", "broker_event")
"""Tables that `batch` changes."""


def claim(root, run_id="run", on_point=lambda point: None, at_ms=NOW):
    return Publisher.claim(RustWriter(root), run_id, at_ms, on_point=on_point)


def batch(batch_id, query_id="query"):
    """Rows that name their batch, in four tables."""
    name = f"batch-{batch_id}"
    changes = {
        "topic": RowChanges([topic("shared", perm=batch_id), topic(name)]),
        "cluster": RowChanges([ClusterRow(name, "broker-a")]),
        "live": RowChanges([live(name)]),
    }
    former = topic("shared", perm=batch_id - 1) if batch_id else None
    changed = [RowChange(TOPIC.name, ("shared", "broker-a"), former, topic("shared", perm=batch_id))]
    new = {TOPIC: topic(name), TABLES["cluster"]: ClusterRow(name, "broker-a"), TABLES["live"]: live(name)}
    changed += [RowChange(spec.name, row[: len(spec.key)], None, row) for spec, row in new.items()]
    line = event(name, T0 + batch_id)._replace(changes=tuple(changed))
    return Batch(query_id, batch_id, T0 + batch_id, {0: batch_id}, changes, events=[line])


def batches_shown(view, root):
    """By table, the batches whose rows a snapshot shows."""
    events = rows_from_arrow(BROKER_EVENT, open_tables(root, view.snapshot.epoch)[BROKER_EVENT.name])
    return {
        "topic": {row.topic for row in view.rows("topic")} - {"shared"},
        "cluster": {row.cluster_name for row in view.rows("cluster")},
        "live": {row.broker_addr for row in view.rows("live")},
        "broker_event": {row.broker_addr for row in events},
    }


def assert_shows_exactly(root, *batch_ids):
    shown = batches_shown(Registry(root).newest(), root)
    assert shown == {table: {f"batch-{number}" for number in batch_ids} for table in WRITTEN}


def run_together(*bodies):
    threads = [Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)


class Died(BaseException):
    """The run ends here."""


def dies_at(point):
    def on_point(reached):
        if reached == point:
            raise Died

    return on_point


def publish(publisher, batch_id, published_at_ms=NOW, **changes):
    """`changes`: upserted rows by table."""
    rows = {name: RowChanges(upserts) for name, upserts in changes.items()}
    line = line_of(topic={row[:2]: row for row in changes.get("topic", ())})._replace(event_time=T0 + batch_id)
    batch = Batch("query", batch_id, T0 + batch_id, {0: batch_id}, rows, [line])
    return publisher.publish(batch, published_at_ms)
