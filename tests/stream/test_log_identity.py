"""The log that the tables were made from, and another one."""

import pytest

from namesrv_stream.kafka.topic import TopicFacts
from namesrv_stream.rules.rows import SnapshotRow
from namesrv_stream.stream.log_identity import OtherLogError, log_to_go_on_with, require_same_log
from namesrv_stream.tables.publication import KafkaLog

HERE = KafkaLog("cluster-1", "topic-1")


def former(cluster_id, topic_id, offset):
    return SnapshotRow(
        epoch=1, term=1, run_id="run", query_id=None, batch_id=None, published_at=0, event_time=0,
        offsets={0: offset}, versions={}, changes={}, kafka_cluster_id=cluster_id, kafka_topic_id=topic_id,
    )  # fmt: skip


@pytest.mark.parametrize("known", [former("cluster-1", "topic-1", 9), former(None, None, 9)], ids=["same", "of 0.1.0"])
def test_the_same_log_is_gone_on_with(known):
    assert log_to_go_on_with(known, HERE, "t", 9, accepts_new=False) == HERE


@pytest.mark.parametrize(
    ("known", "problem"),
    [
        (former("cluster-2", "topic-1", 9), "on the Kafka cluster cluster-1, .* made from cluster-2"),
        (former("cluster-1", "topic-2", 9), "made anew with the id topic-1, .* made from topic-2"),
        (former("cluster-1", "topic-1", 10), "ends at offset 9, .* read it up to 10"),
        (former(None, None, 10), "ends at offset 9, .* read it up to 10"),
    ],
    ids=["another Kafka", "another topic", "a log that ends before the snapshot", "the same, of 0.1.0"],
)
def test_another_log_is_refused_with_both_names_and_gone_on_with_when_it_is_accepted(known, problem):
    with pytest.raises(OtherLogError, match=rf"{problem}.*--accept-new-log"):
        log_to_go_on_with(known, HERE, "t", 9, accepts_new=False)
    assert log_to_go_on_with(known, HERE, "t", 9, accepts_new=True) == KafkaLog("cluster-1", "topic-1", is_new=True)


def facts(topic_id):
    return TopicFacts("t", "cluster-1", topic_id, 1, 1, 1, {})


def test_a_topic_made_anew_under_a_running_job_is_named_with_what_is_lost():
    with pytest.raises(OtherLogError, match=r"made anew, with the id topic-2 in place of topic-1.* are lost"):
        require_same_log(HERE, facts("topic-2"))
    require_same_log(HERE, facts("topic-1"))
    require_same_log(KafkaLog(), facts("topic-1"))
    require_same_log(HERE, None)
