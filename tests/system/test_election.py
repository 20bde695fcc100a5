"""The election of the active job on a real Kafka: one holds the lock until it leaves or steps back."""

from contextlib import ExitStack

import pytest

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError
from namesrv_stream.kafka.election import JobLock, JobReport, candidates, report_of_holder
from namesrv_stream.kafka.topic import ensure_topic
from namesrv_stream.tables.root import Root
from namesrv_stream.tools.restore import require_no_active_job
from tests.waiting import eventually, until

pytestmark = pytest.mark.system
TOPIC = "election"


@pytest.fixture(scope="module")
def kafka(kafka_node):
    options = {"bootstrap.servers": kafka_node.bootstrap_servers}
    ensure_topic(options, TOPIC)
    return options


@pytest.fixture
def root(request):
    """A registry of the test's own, and so an election of its own."""
    return f"file:/{request.node.name}"


def lock(kafka, root, run_id, report=None):
    return JobLock(kafka, TOPIC, root, run_id, report or (lambda: (0, JobReport(run_id, "active"))))


@eventually
def has_lock(holder, *others):
    assert holder.held.is_set()
    assert not any(other.held.is_set() for other in others)


@eventually
def waits_beside(kafka, root):
    found = [(each.run_id, each.is_active) for each in candidates(kafka, TOPIC, root)]
    assert found == [("first", True), ("second", False)]


def test_one_of_two_candidates_holds_the_lock_until_it_steps_back_or_leaves_and_may_get_it_again(kafka, root):
    assert candidates(kafka, TOPIC, root) == []
    with lock(kafka, root, "first") as first, ExitStack() as second_part:
        has_lock(first)
        second = second_part.enter_context(lock(kafka, root, "second"))
        waits_beside(kafka, root)
        has_lock(first, second)
        assert not first.is_lost
        first.step_back(pause_s=10)  # on a busy machine it would be back before the second one has the lock
        has_lock(second, first)
        assert first.is_lost
        second_part.close()
        has_lock(first, second)
        until(lambda: not first.is_lost)
    until(lambda: candidates(kafka, TOPIC, root) == [])


def test_a_repair_goes_by_the_lock_alone(kafka, tmp_path):
    root = Root(str(tmp_path))
    settings = NamesrvSettings.model_validate(
        {"kafka.bootstrap.servers": kafka["bootstrap.servers"], "kafka.topic": TOPIC, "delta.root": root.url}
    )
    with lock(kafka, root.hadoop_url, "first") as first:
        has_lock(first)
        until(lambda: [each.is_active for each in candidates(kafka, TOPIC, root.hadoop_url)] == [True])
        with pytest.raises(NamesrvError, match=r"run first on .* is active.*--take-over"):
            require_no_active_job(root, settings)
    require_no_active_job(root, settings)


def test_the_holder_reports_each_change_of_its_state_and_who_waits_reports_nothing(kafka, root):
    said = {"first": (7, JobReport("first", "active")), "second": (9, JobReport("second", "standby"))}

    @eventually
    def is_reported(*report):
        assert report_of_holder(kafka, TOPIC, root) == JobReport(*report)

    assert report_of_holder(kafka, TOPIC, root) is None
    with lock(kafka, root, "first", lambda: said["first"]) as first, ExitStack() as second_part:
        is_reported("first", "active")
        second_part.enter_context(lock(kafka, root, "second", lambda: said["second"]))
        waits_beside(kafka, root)
        said["first"] = 7, JobReport("first", "waiting", "no room " * 1_000)
        is_reported("first", "waiting", ("no room " * 1_000)[:1_000])
        first.give_up()
        is_reported("second", "standby")
