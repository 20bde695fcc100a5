"""The streaming job on a real Kafka and real tables: what it publishes, what it keeps quiet about, what it refuses."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import KafkaAdminClient

from namesrv_stream.config import NamesrvSettings
from namesrv_stream.errors import NamesrvError, TermLostError
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.kafka.election import candidates
from namesrv_stream.kafka.topic import end_offsets, ensure_topic
from namesrv_stream.tables.publication import Publisher
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.writer import RustWriter
from namesrv_stream.tools.local.kafka_server import LocalKafka
from tests.system.heartbeats import (
    IMPATIENT,
    LIMIT_S,
    Heartbeats,
    address,
    assert_told_once,
    eventually,
    registration,
    shown,
    until,
)
from tests.system.topics import make_topic


def test_of_two_jobs_that_claim_a_registry_at_once_one_wins_and_the_other_ends_with_an_error(
    heartbeats, spark, tmp_path
):
    own_checkpoint = {"checkpoint.location": str(tmp_path / "other-checkpoint")}
    settings = [heartbeats.settings, NamesrvSettings.model_validate(heartbeats.options | own_checkpoint)]
    rivals = [BackgroundJob(spark.newSession(), each) for each in settings]

    def start(job):
        with contextlib.suppress(TermLostError):
            job.__enter__()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(start, rivals))
    for number in (1, 2):
        heartbeats.say(registration(number))
        view = heartbeats.await_offset(number)
    [loser] = until(lambda: [job for job in rivals if job.has_ended])
    with pytest.raises(TermLostError, match="has taken over"):
        loser.check()
    winner = rivals[1 - rivals.index(loser)]
    assert not winner.has_ended
    winner.__exit__()
    assert shown(view.routes) == heartbeats.states()[-1]
    rows = Registry(heartbeats.root).read(lambda snapshots: snapshots.readable())[::-1]
    assert [row.epoch for row in rows] == list(range(1, len(rows) + 1))
    assert [row.term for row in rows] == sorted(row.term for row in rows)
    assert {row.run_id for row in rows if row.term == rows[-1].term} == {view.snapshot.run_id}
    assert_told_once(heartbeats)


@pytest.mark.full
def test_a_job_that_was_replaced_during_an_outage_of_kafka_does_not_take_it_back(topic, spark, tmp_path):
    with LocalKafka(tmp_path / "kafka") as node:
        heartbeats = Heartbeats(node, topic, tmp_path, **IMPATIENT)
        job = BackgroundJob(spark.newSession(), heartbeats.settings)
        with pytest.raises(TermLostError, match="heir"), job:
            heartbeats.say(registration(1))
            job.process_all()
            node.kill()
            until(lambda: not job.query.isActive)
            heir = Publisher.claim(RustWriter(Root(heartbeats.root)), "heir", 1)
            node.start()
            until(lambda: job.has_ended)
        heartbeats.close()
    assert heartbeats.view().snapshot == heir.last


@pytest.mark.parametrize(
    ("partitions", "timestamp_type", "command"),
    [
        (2, "LogAppendTime", r"has 2 partitions.*kafka-topics.sh .* --create .* --partitions 1 "),
        (1, "CreateTime", r"CreateTime.*kafka-configs.sh .* --add-config message.timestamp.type=LogAppendTime"),
    ],
)
def test_a_topic_without_one_order_is_refused_with_the_command_that_mends_it(
    kafka, topic, spark, tmp_path, partitions, timestamp_type, command
):
    node = {"bootstrap.servers": kafka.bootstrap_servers}
    make_topic(node, topic, partitions, {"message.timestamp.type": timestamp_type})
    heartbeats = Heartbeats(kafka, topic, tmp_path)
    with pytest.raises(match=command), BackgroundJob(spark.newSession(), heartbeats.settings):
        pass
    heartbeats.close()


def test_another_log_than_the_tables_were_made_from_is_refused_until_it_is_accepted(heartbeats, kafka, spark):
    """A topic made anew: its old records would be replayed over the present."""
    heartbeats.say(registration(1))
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
    before = heartbeats.view().snapshot
    remake_topic(heartbeats)
    with pytest.raises(NamesrvError, match="--accept-new-log"), BackgroundJob(spark.newSession(), heartbeats.settings):
        pass
    assert heartbeats.view().snapshot == before
    with BackgroundJob(spark.newSession(), heartbeats.settings, accepts_new_log=True) as job:
        heartbeats.tick()
        heartbeats.say(registration(2))
        heartbeats.tick()
        job.process_all()
        assert heartbeats.live() == [address(1), address(2)]
    after = heartbeats.view().snapshot
    assert after.kafka_topic_id != before.kafka_topic_id
    assert after.log_accepted_at == before.event_time
    with BackgroundJob(spark.newSession(), heartbeats.settings):
        pass


def remake_topic(heartbeats):
    with KafkaAdminClient(bootstrap_servers=heartbeats.kafka["bootstrap.servers"]) as admin:
        admin.delete_topics([heartbeats.topic])
    await_new_topic(heartbeats)
    heartbeats.reopen()


@eventually
def await_new_topic(heartbeats):
    assert ensure_topic(heartbeats.kafka, heartbeats.topic).partition_count == 1
    assert end_offsets(heartbeats.kafka, heartbeats.topic) == {0: 0}


def test_a_standby_takes_the_registry_over_and_goes_on_on_the_same_checkpoint(heartbeats, spark):
    first = BackgroundJob(spark.newSession(), heartbeats.settings).__enter__()
    heartbeats.say(registration(1))
    first.process_all()
    standby = NamesrvSettings.model_validate(heartbeats.options | {"standby": "true"})
    second = BackgroundJob(spark.newSession(), standby)
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(second.__enter__)
        until(lambda: len(candidates(heartbeats.kafka, heartbeats.topic, heartbeats.root)) == 2)
        first.stop()
        started.result(LIMIT_S)
    first.check()
    heartbeats.say(registration(2))
    heartbeats.await_offset(heartbeats.end_offset())
    second.__exit__()
    assert heartbeats.live() == [address(1), address(2)]
    rows = Registry(heartbeats.root).read(lambda snapshots: snapshots.readable())[::-1]
    assert [row.term for row in rows] == sorted(row.term for row in rows)
    assert_told_once(heartbeats)
