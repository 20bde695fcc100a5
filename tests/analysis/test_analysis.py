"""DuckDB and Spark give the same views, and topics have the sessions and the availability of their history."""

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from namesrv_stream.analysis.ask import ask
from namesrv_stream.analysis.ask import register_views as register_in_duckdb
from namesrv_stream.analysis.views import history_queries, register_views
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.record_types import RegisterBroker
from namesrv_stream.rules.rows import LogPosition, RejectedRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT, TOPIC
from tests.answers.fleet import RandomHistory
from tests.answers.seeded import DAY_MS, HOUR_MS, MINUTE_MS, SeededRegistry
from tests.tables.rows import NOW

START_MS = (NOW // DAY_MS - 40) * DAY_MS
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
VIEWS = [*history_queries(), "publication"]


@pytest.mark.parametrize("folder", ["registry*", "event_month=x", "it's", "a\u00a0blank ü"])
def test_files_are_read_whatever_the_folders_above_them_are_called(tmp_path, folder):
    root = Root(str(tmp_path / folder / "registry"))
    registry = SeededRegistry(root, NOW)
    registry.register(START_MS, A, "broker-a", topics=("T",))
    registry.publish()
    assert ask(root, "SELECT topic, bucket FROM topic").num_rows == 1
    assert ask(root, "FROM topic_session")["from_time"].null_count == 0
    assert ask(root, "SELECT type, event_month FROM broker_event").to_pylist()[0]["type"] == "REGISTERED"
    assert ask(root, "FROM topic").column_names == [field.name for field in TOPIC.stored_schema]


@pytest.mark.parametrize("months", [1, 2])
def test_files_may_have_the_partition_column_as_spark_writes_them(root, registry, months):
    """OPTIMIZE ZORDER of Spark writes the column into the files that it makes, delta-rs does not."""
    for number in range(2):
        at_ms = NOW - (2 - number) * (months - 1) * 31 * DAY_MS - HOUR_MS
        registry.register(at_ms, f"10.0.0.{number}:1", f"b-{number}")
        registry.publish()
    lines = "SELECT event_month, count(*) AS n FROM broker_event GROUP BY ALL ORDER BY ALL"
    before = ask(root, lines).to_pylist()
    first, *_ = sorted(Path(root.uri(BROKER_EVENT)).rglob("*.parquet"))
    rows = pq.ParquetFile(first).read()
    month = first.parent.name.partition("=")[2]
    pq.write_table(rows.append_column("event_month", pa.array([month] * len(rows))), first)
    assert ask(root, lines).to_pylist() == before
    assert len(ask(root, "FROM broker_session")) == 2


def compared(spark, db, name):
    """Compare a view in Spark and in DuckDB; return its number of rows."""
    in_spark, in_duckdb = spark.table(name).toArrow(), db.sql(f"FROM {name}").to_arrow_table()
    assert in_duckdb.column_names == in_spark.column_names
    assert texts_of_rows(in_duckdb) == texts_of_rows(in_spark)
    return len(in_duckdb)


def texts_of_rows(table):
    """The rows in an order of their own. A number of another type has another text."""
    return sorted(json.dumps(row, default=str) for row in table.to_pylist())


EMPTY = {0: {"topic_down", "topic_deletion", "broker_retirement"}, 3: {"shared_outage"}}
"""Views without a row by seed: each view has rows with one of the two."""


@pytest.mark.full  # a minute each: Spark plans 40 views; test_definitions compares DuckDB's with rows in memory
@pytest.mark.parametrize("seed", range(6))
def test_a_random_history_has_the_same_views_in_spark_and_in_duckdb(spark, root, seed):
    history = RandomHistory(root, seed, START_MS, NOW)
    for at_ms, release in ((START_MS, "5.3.1"), (START_MS + 1, "5.4.0")):
        odd = {"cluster_name": "c-1_.", "broker_name": "broker a/b*~ü", "broker_version": release}
        history.rules.apply(RegisterBroker(**odd, broker_id=0, broker_addr=A), LogPosition(at_ms, 0, 0))
    values = (b"{no", b"\xff\xfe", "ü".encode() * 150, None)
    rejected = [RejectedRow(START_MS, 0, i, "k", value, 9, "why") for i, value in enumerate(values)]
    for steps, rejected_with_them in ((50, []), (40, rejected)):
        for _ in range(steps):
            history.step(history.rng.choice([7 * 37 * MINUTE_MS, 20_000]))
        history.publish(rejected_with_them)
    register_views(spark, root)
    with duckdb.connect() as db:
        register_in_duckdb(db, root)
        empty = {name for name in VIEWS if compared(spark, db, name) == 0}
    assert empty == EMPTY.get(seed, empty)
    keys = ask(root, "SELECT broker_key FROM broker_dim WHERE cluster_name = 'c-1_.'")["broker_key"].to_pylist()
    assert keys == ["c-1_./broker+a%2Fb*%7E%C3%BC/0"]


def test_an_empty_registry_has_empty_views_in_duckdb(root, registry):
    with duckdb.connect() as db:
        register_in_duckdb(db, root)
        found = {name: len(db.sql(f"FROM {name}").fetchall()) for name in VIEWS}
    assert {name for name, rows in found.items() if rows} == {"known_from", "known_until", "publication"}


def test_a_moment_is_asked_for_by_epoch_or_time_and_an_unknown_view_is_refused(root, registry):
    registry.register(START_MS, A, "broker-a")
    first = registry.publish()
    registry.register(START_MS + HOUR_MS, B, "broker-b")
    registry.publish()
    names = "SELECT broker_name FROM broker_session ORDER BY ALL"
    assert ask(root, names)["broker_name"].to_pylist() == ["broker-a", "broker-b"]
    assert ask(root, names, epoch=first)["broker_name"].to_pylist() == ["broker-a"]
    assert ask(root, names, at=START_MS + 1)["broker_name"].to_pylist() == ["broker-a"]
    with duckdb.connect() as db, pytest.raises(NamesrvError, match="named broker_sesion or topic_sesion"):
        register_in_duckdb(db, root, only=["broker_sesion", "topic_sesion"])
