"""Every statement of docs/cookbook.md, on some days of a fleet."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from namesrv_stream.analysis.ask import ask
from namesrv_stream.analysis.views import history_queries, register_views
from namesrv_stream.config import NamesrvSettings
from namesrv_stream.rules.rows import RejectedRow
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import PINNED_TABLES
from namesrv_stream.tools.fleet.history import HOUR_MS, Chronicle, chronicle_plan
from tests.answers.by_rules import publish_by_rules
from tests.answers.by_the_hour import LETTERS, play
from tests.answers.seeded import SeededRegistry
from tests.data import data
from tests.tables.rows import NOW

pytestmark = pytest.mark.spark

COOKBOOK = Path(__file__).parent.parent.parent / "docs" / "cookbook.md"
PAGE = COOKBOOK.read_text()
QUESTIONS = re.findall(r"^## (.*?)\n.*?```sql\n(.*?);\n```", PAGE, re.DOTALL | re.MULTILINE)
MEANINGS = dict(
    re.findall(r"^## (.*?)\n(?:(?!^## ).)*```\n\n\*\*What it means\.\*\* (\S[^\n]*)", PAGE, re.DOTALL | re.MULTILINE)
)
OF_SPARK_ALONE = ("date_sub", "percentile_approx", "collect_list", "LEFT SEMI JOIN")
MOVED_HOUSE = "Which brokers have changed their address?"
OF_A_TOPIC = "When was a topic added, changed or removed?"
DAYS = 2.5
START_MS = int(datetime(2026, 8, 14, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = Root(str(tmp_path_factory.mktemp("history") / "registry"))
    story = Chronicle(chronicle_plan(seed=1), START_MS, DAYS)
    rejected = [RejectedRow(START_MS, 0, 1, "k", b"{no", 3, "not a JSON object with a text field `type`")]
    publish_by_rules(story.records(), place, NOW, 6 * HOUR_MS, rejected)
    return place


def in_spark(spark, root, statement):
    known = {*history_queries(), *(spec.name for spec in PINNED_TABLES)}
    register_views(spark, root, only=known.intersection(re.findall(r"\w+", statement)))
    return [row.asDict(recursive=True) for row in spark.sql(statement).collect()]


def answered(spark, root, statement):
    """By DuckDB, which takes a twentieth of the time, but for statements that are Spark's alone, as the page says."""
    is_sparks = any(word in statement for word in OF_SPARK_ALONE)
    return in_spark(spark, root, statement) if is_sparks else ask(root, statement).to_pylist()


@pytest.fixture(scope="module")
def answers(spark, root):
    return {question: answered(spark, root, statement) for question, statement in QUESTIONS}


@pytest.mark.full
@pytest.mark.parametrize(("question", "statement"), QUESTIONS)
def test_spark_answers_each_question_with_as_many_rows_of_the_same_columns(spark, root, answers, question, statement):
    assert [[*row] for row in in_spark(spark, root, statement)] == [[*row] for row in answers[question]]


def test_the_page_names_what_duckdb_does_not_know():
    [named] = re.findall(r"unchanged, except those\s+with\s+(.*?): DuckDB has", PAGE)
    assert tuple(re.findall("`(.*?)`", named)) == OF_SPARK_ALONE


@pytest.mark.parametrize("question", [question for question, _ in QUESTIONS])
def test_each_question_has_an_answer_with_rounded_numbers_and_says_what_it_means(answers, question):
    assert answers[question]
    assert question in MEANINGS
    numbers = [value for row in answers[question] for value in row.values() if isinstance(value, float | Decimal)]
    assert [value for value in numbers if value != round(value, 2)] == []


def test_the_answers_show_the_incidents_of_the_fleet(answers):
    assert answers["Which brokers flap?"][0]["flaps"] >= 14
    assert max(row["brokers"] for row in answers["When did several brokers go offline at once?"]) == 4
    assert [row["to_addr"] for row in answers[MOVED_HOUSE]] == ["10.0.200.1:10911"]
    [expiry] = answers["How long does it take until a dead broker is removed from routes?"]
    assert (expiry["p50_seconds"], expiry["max_seconds"]) == (120.0, 120.0)  # D5: at the next tick
    assert {row["requested_by"] for row in answers["Who sent which command?"]} == {"ann@operations", "bob@desk"}


@pytest.fixture(scope="module")
def small_answers(spark, tmp_path_factory):
    """Return the answers about addresses and topics on a history of a few brokers, by whole hours."""
    place = Root(str(tmp_path_factory.mktemp("small") / "registry"))
    registry = SeededRegistry(place, NOW, NamesrvSettings(delete_topic_with_broker_registration=True))
    play(registry, data(__file__, "cookbook.yaml"))
    registry.publish()
    return {question: in_spark(spark, place, dict(QUESTIONS)[question]) for question in (MOVED_HOUSE, OF_A_TOPIC)}


def test_an_address_has_changed_whether_or_not_the_broker_was_away_but_not_with_the_cluster(small_answers):
    columns = ("cluster_name", "broker_name", "from_addr", "to_addr")
    found = [[LETTERS.get(row[name], row[name]) for name in columns] for row in small_answers[MOVED_HOUSE]]
    assert found == [["c1", "broker-a", "A", "B"], ["c1", "broker-c", "C", "B"], ["c1", "broker-c", "B", "C"]]


def test_t5_a_removal_is_found_in_a_line_that_also_adds_and_other_topics_are_left_out(small_answers):
    queues = [
        (row["type"], *(row[at] and row[at]["write_queue_nums"] for at in ("before", "after")))
        for row in small_answers[OF_A_TOPIC]
    ]
    came, went = ("TOPICS_CHANGED", None, 8), ("TOPICS_CHANGED", 8, None)
    assert queues == [went, came, went, came]
