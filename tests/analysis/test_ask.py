"""ask and its like refuse what would have a wrong answer: two moments, no statement or two, an unknown view."""

from functools import partial

import duckdb
import pytest

from namesrv_stream.analysis.ask import ask, register_views
from namesrv_stream.errors import NamesrvError
from namesrv_stream.rules.record_types import DeleteTopic, PutKvConfig
from namesrv_stream.tables.registry import Registry, open_tables
from tests.registry import PublishedRegistry
from tests.tables.rows import NOW


@pytest.fixture
def root(tmp_path):
    registry = PublishedRegistry(str(tmp_path / "registry"), NOW)
    registry.register("10.0.0.1:10911", "c1", "broker-a", topics=("T",))
    registry.command(PutKvConfig(namespace="N", key="k;'\"", value="v", requested_by="ann"))
    registry.command(DeleteTopic(topic="T", requested_by="bob"))
    return registry.root


def test_an_epoch_and_a_time_together_are_refused_everywhere(root):
    both = {"epoch": 2, "at": NOW}
    for asked in (
        partial(ask, root, "FROM snapshot", **both),
        partial(open_tables, root, **both),
        partial(register_views, duckdb.connect(), root, **both),
        partial(Registry(root).at, 2, NOW),
    ):
        with pytest.raises(NamesrvError, match="exclude each other"):
            asked()


REFUSED = {
    "": "expected one SQL statement, not none",
    "-- nothing": "expected one SQL statement, not none",
    "SELECT 1; SELECT 2": "expected one SQL statement, not 2",
    "FROM broker_avail": "no view or table 'broker_avail'. Similar: broker_availability",
    "FROM zzzz": "no view or table 'zzzz'. There are publication",
}


@pytest.mark.parametrize(("statement", "told"), REFUSED.items())
def test_a_statement_that_is_none_or_names_no_view_is_told(root, statement, told):
    with pytest.raises(NamesrvError) as caught:
        ask(root, statement)
    assert str(caught.value).startswith(told)
    assert "pg_" not in str(caught.value)


@pytest.mark.parametrize("statement", ["SELECT 1 AS one", "SELECT 1 AS one;", "-- a word\nSELECT 1 AS one; -- more"])
def test_one_statement_is_answered_with_a_comment_and_a_semicolon_too(root, statement):
    assert ask(root, statement).to_pylist() == [{"one": 1}]


def test_a_command_has_the_topic_the_namespace_and_the_key_that_it_names(root):
    columns = "requested_by, topic, namespace, key"
    assert ask(root, f"SELECT {columns} FROM operator_command ORDER BY epoch, seq").to_pylist() == [
        {"requested_by": "ann", "topic": None, "namespace": "N", "key": "k;'\""},
        {"requested_by": "bob", "topic": "T", "namespace": None, "key": None},
    ]
