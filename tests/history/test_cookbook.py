"""Every statement of docs/cookbook.md, on some days of a fleet."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from namesrv_stream.fleet.chronicle import HOUR_MS, Chronicle, chronicle_plan
from namesrv_stream.history.views import history_sql, register_views
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.reader import RouteReader
from namesrv_stream.tables.root import Root
from tests.history.by_rules import publish_by_rules
from tests.tables.rows import NOW

pytestmark = pytest.mark.spark

COOKBOOK = Path(__file__).parent.parent.parent / "docs" / "cookbook.md"
QUESTIONS = re.findall(r"^## (.*?)\n.*?```sql\n(.*?);\n```", COOKBOOK.read_text(), re.DOTALL | re.MULTILINE)
DAYS = 2.5
START_MS = int(datetime(2026, 11, 14, tzinfo=UTC).timestamp() * 1000)
"""The cookbook names this month."""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = Root(str(tmp_path_factory.mktemp("history") / "registry"))
    story = Chronicle(chronicle_plan(seed=1), START_MS, DAYS)
    rejected = [RejectedRow(START_MS, 0, 1, "k", b"{no", 3, "not a JSON object with a text field `type`")]
    publish_by_rules(story.records(), place, NOW, 6 * HOUR_MS, rejected)
    return place


@pytest.fixture(scope="module")
def answers(spark, root):
    register_views(spark, root)
    return {question: spark.sql(statement).collect() for question, statement in QUESTIONS}


@pytest.mark.parametrize("question", [question for question, _ in QUESTIONS])
def test_each_question_has_an_answer(answers, question):
    assert answers[question]


def test_there_are_a_dozen_questions_at_least():
    assert len(QUESTIONS) >= 12
    assert len({question for question, _ in QUESTIONS}) == len(QUESTIONS)


def test_the_answers_tell_the_incidents_of_the_fleet(answers):
    assert answers["Which brokers flap?"][0].flaps >= 14
    assert max(row.brokers for row in answers["When did several brokers go at once?"]) == 4
    assert [row.to_addr for row in answers["Which brokers have changed their address?"]] == ["10.0.200.1:10911"]
    [expiry] = answers["How long does it take until a dead broker has left the routes?"]
    assert (expiry.p50_millis, expiry.max_millis) == (120_001, 120_001)
    assert {row.requested_by for row in answers["Who asked for what?"]} == {"ann@operations", "bob@desk"}


def test_the_statements_for_spark_sql_make_the_same_views(spark, root):
    register_views(spark, root)
    wanted = spark.sql("SELECT * FROM broker_session ORDER BY ALL").collect()
    session = spark.newSession()
    for statement in history_sql(root, RouteReader(root).snapshots.newest()):
        session.sql(statement)
    assert session.sql("SELECT * FROM broker_session ORDER BY ALL").collect() == wanted
