"""The log that the tables were made from, and another one."""

import pytest

from namesrv_stream.errors import NamesrvError
from namesrv_stream.job.claim import claimant, log_to_go_on_with, require_same_log
from namesrv_stream.kafka.topic import TopicFacts
from namesrv_stream.rules.rows import NO_TOPIC_ID, SnapshotRow
from namesrv_stream.tables.publication import Batch, KafkaLog, Publisher
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RustWriter

HERE = KafkaLog("cluster-1", "topic-1")


def never(offset):
    raise AssertionError(f"the record at {offset} need not be read")


def former(cluster_id, topic_id, offset, last_append=None):
    return SnapshotRow(
        epoch=1, term=1, run_id="run", query_id=None, batch_id=None, published_at=0, event_time=0,
        offsets={0: offset}, versions={}, changes={}, kafka_cluster_id=cluster_id, kafka_topic_id=topic_id,
        last_append=last_append,
    )  # fmt: skip


ONE, NONE = ("cluster-1", "topic-1"), (None, None)
WITHOUT = ("cluster-1", NO_TOPIC_ID)
"""Of a Kafka without topic ids."""


@pytest.mark.parametrize(
    ("known", "here", "goes_on_with"),
    [
        (ONE, ONE, ONE),
        (NONE, ONE, ONE),
        (WITHOUT, ONE, ONE),
        (("cluster-1", ""), ONE, ONE),
        (ONE, ("cluster-1", None), ONE),
        (WITHOUT, ("cluster-1", None), ("cluster-1", None)),
        (ONE, NONE, ONE),
    ],
)
def test_the_same_log_is_gone_on_with_also_if_kafka_learns_or_loses_its_ids(known, here, goes_on_with):
    gone_on = log_to_go_on_with(former(*known, 9), KafkaLog(*here), "t", 9, never, accepts_new=False, silent_ms=90_000)
    assert gone_on == KafkaLog(*goes_on_with)


@pytest.mark.parametrize(
    ("known", "problem"),
    [
        (former("cluster-2", "topic-1", 9), "on the Kafka cluster cluster-1, .* made from cluster-2"),
        (former("cluster-1", "topic-2", 9), "created again with ID topic-1, .* made from topic-2"),
        (former("cluster-1", "topic-1", 10), "ends at offset 9, .* read it up to 10"),
        (former(None, None, 10), "ends at offset 9, .* read it up to 10"),
        (former("cluster-1", NO_TOPIC_ID, 10), "ends at offset 9, .* read it up to 10"),
        (former("cluster-2", NO_TOPIC_ID, 9), "on the Kafka cluster cluster-1, .* made from cluster-2"),
    ],
    ids=[
        *("another Kafka", "another topic", "a log that ends before the snapshot", "the same, of 0.1.0"),
        *("the same, before Kafka had topic ids", "another Kafka, without topic ids"),
    ],
)
def test_another_log_is_refused_with_both_names_and_gone_on_with_when_it_is_accepted(known, problem):
    with pytest.raises(NamesrvError, match=rf"{problem}.*--accept-new-log"):
        log_to_go_on_with(known, HERE, "t", 9, never, accepts_new=False, silent_ms=90_000)
    assert log_to_go_on_with(known, HERE, "t", 9, never, accepts_new=True, silent_ms=0) == KafkaLog(
        "cluster-1", "topic-1", is_new=True
    )


def test_tables_that_a_job_of_another_log_serves_name_that_job_and_no_way_to_take_them_from_it():
    served = former("cluster-2", "topic-1", 9)
    with pytest.raises(NamesrvError, match=r"run run, .* 8 s ago .*stop it first") as raised:
        log_to_go_on_with(served, HERE, "t", 9, never, accepts_new=False, silent_ms=8_000)
    assert "--accept-new-log" not in str(raised.value)
    with pytest.raises(NamesrvError, match="--accept-new-log"):
        log_to_go_on_with(served._replace(kind="STOP"), HERE, "t", 9, never, accepts_new=False, silent_ms=8_000)


@pytest.mark.parametrize("found_ms", [1_000, None], ids=["the same record", "one that Kafka has deleted"])
def test_a_log_whose_last_record_read_is_still_there_or_deleted_is_gone_on_with(found_ms):
    known = former("cluster-1", "topic-1", 9, last_append=1_000)
    assert log_to_go_on_with(known, HERE, "t", 20, {8: found_ms}.get, accepts_new=False, silent_ms=90_000) == HERE


@pytest.mark.parametrize("topic_id", ["topic-1", NO_TOPIC_ID])
def test_a_log_that_was_cut_and_has_grown_again_is_another_one(topic_id):
    known = former("cluster-1", topic_id, 9, last_append=1_000)
    with pytest.raises(NamesrvError, match=r"offset 8 was appended at 1970-01-01T00:00:05.000Z, .*00:00:01.000Z.*cut"):
        log_to_go_on_with(known, HERE, "t", 20, {8: 5_000}.get, accepts_new=False, silent_ms=90_000)
    assert log_to_go_on_with(known, HERE, "t", 20, {8: 5_000}.get, accepts_new=True, silent_ms=0).is_new


@pytest.mark.parametrize(
    ("kind", "run_id", "age_ms", "others", "is_left_to"),
    [
        ("PUBLICATION", "other", 60_000, {"other"}, True),
        ("PUBLICATION", "other", 1_000, {"third"}, False),
        ("CLAIM", "other", 9_999, set(), True),
        ("CLAIM", "other", -9_999, set(), True),
        ("CLAIM", "other", 10_000, set(), False),
        ("CLAIM", "other", 60_000, {"other"}, True),
        ("STOP", "other", 1_000, {"other"}, False),
        ("CLAIM", "own", 1_000, {"own"}, False),
    ],
)
def test_a_standby_leaves_the_registry_to_a_run_in_the_election_or_one_that_has_just_claimed_it(
    kind, run_id, age_ms, others, is_left_to
):
    newest = former(None, None, 0)._replace(kind=kind, run_id=run_id, published_at=100_000)
    assert claimant(newest, "own", lambda: others, 100_000 + age_ms) == (run_id if is_left_to else None)


def facts(topic_id):
    return TopicFacts("t", "cluster-1", topic_id, 1, 1, 1, {})


def test_a_topic_made_anew_under_a_running_job_is_named_with_what_is_lost():
    with pytest.raises(NamesrvError, match=r"created again \(ID topic-2, before topic-1\).* are lost"):
        require_same_log(HERE, facts("topic-2"))
    require_same_log(HERE, facts("topic-1"))
    require_same_log(KafkaLog(), facts("topic-1"))
    require_same_log(HERE, facts(None))
    require_same_log(HERE, None)


def test_a_record_stamped_ahead_does_not_put_an_accepted_log_off(tmp_path):
    writer = RustWriter(Root(str(tmp_path / "registry")))
    publisher = Publisher.claim(writer, "first", 5_000)
    publisher.publish(Batch(None, None, 3_600_000, {0: 9}, {}), published_at_ms=6_000)
    accepted = Publisher.claim(writer, "next", 7_000, log_of=lambda _former: KafkaLog("c", "t", is_new=True)).last
    assert (accepted.log_accepted_at, accepted.last_append, accepted.last_tick_append) == (6_000, None, None)


def test_a_new_log_counts_whole_if_nothing_of_the_former_one_has_been_read(tmp_path):
    writer = RustWriter(Root(str(tmp_path / "registry")))
    Publisher.claim(writer, "first", 5_000).publish(Batch(None, None, 4_000, {}, {}), published_at_ms=6_000)
    accepted = Publisher.claim(writer, "next", 7_000, log_of=lambda _former: KafkaLog("c", "t", is_new=True)).last
    assert (accepted.event_time, accepted.log_accepted_at) == (4_000, None)
