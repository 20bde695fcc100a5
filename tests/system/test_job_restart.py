"""The job through what ends it or keeps it from its work; kills under churn are in tests/system/test_chaos.py."""

import logging
import threading
from itertools import pairwise
from pathlib import Path

from kafka import KafkaAdminClient, TopicPartition

from namesrv_stream.job import registry_job as job_module
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.job.checkpoint import Checkpoint
from namesrv_stream.job.micro_batch import MicroBatches
from namesrv_stream.job.query import QUERY_NAME
from tests.system.heartbeats import IMPATIENT, address, eventually, registration, shown


def test_tables_are_loaded_while_the_query_starts_and_its_first_batch_waits_for_them(heartbeats, spark, monkeypatch):
    """The first attempt cannot load them: it ends its query, and the next one goes on."""
    heartbeats.say(registration(1))
    session, attempts, published = spark.newSession(), [], []

    @eventually
    def await_query():
        assert any(query.name == QUERY_NAME and query.isActive for query in session.streams.active)

    def slowly(settings, publisher, *rest):
        await_query()
        published.append(publisher.last.kind)
        attempts.append(threading.current_thread().name)
        if len(attempts) == 1:
            raise OSError("the storage is away")
        return MicroBatches(settings, publisher, *rest)

    monkeypatch.setattr(job_module, "MicroBatches", slowly)
    with BackgroundJob(session, heartbeats.settings) as job:
        job.process_all()
        assert heartbeats.live() == [address(1)]
    assert published == ["CLAIM", "CLAIM"]
    assert all(name.startswith("load-tables") for name in attempts)


def test_a_job_that_was_killed_while_it_wrote_its_first_offsets_starts_again(heartbeats, spark):
    """Spark writes them to a hidden file, which it then renames, and refuses a new query beside such a file."""
    checkpoint = Checkpoint(spark, heartbeats.settings.checkpoint_location, heartbeats.topic_id)
    half_written = Path(checkpoint.location) / "offsets" / ".0.7d5e.tmp"
    half_written.parent.mkdir(parents=True)
    half_written.write_text("v1\n")
    heartbeats.say(registration(1))
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
    assert heartbeats.live() == [address(1)]


def test_records_that_kafka_no_longer_has_are_named_and_the_job_goes_on_behind_them(heartbeats, spark, caplog):
    """The checkpoint is from before the oldest record, so a new one is begun."""
    heartbeats.say(registration(1))
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
    heartbeats.say(registration(2), registration(3))
    delete_records(heartbeats, before=2)
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
    assert heartbeats.live() == [address(1), address(3)]
    assert "are lost: Kafka deleted them before the job read them" in caplog.text
    assert "it continues before offset 2, the oldest in Kafka" in caplog.text


def delete_records(heartbeats, before):
    """Takes the oldest records from partition 0, as Kafka's retention does."""
    admin = KafkaAdminClient(bootstrap_servers=heartbeats.kafka["bootstrap.servers"])
    admin.delete_records({TopicPartition(heartbeats.topic, 0): before})
    admin.close()


def test_an_outage_of_kafka_is_waited_out_and_loses_nothing(node, heartbeats, spark, caplog):
    caplog.set_level(logging.WARNING, "namesrv_stream")
    heartbeats.options |= IMPATIENT
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        heartbeats.say(registration(1))
        job.process_all()
        heartbeats.say(registration(2))
        node.kill()
        pauses = await_attempts(caplog, node.bootstrap_servers, 2)
        assert all(shorter < longer for shorter, longer in pairwise(pauses))
        node.start()
        heartbeats.say(registration(3))
        view = heartbeats.await_offset(3)
        assert shown(view.routes) == heartbeats.states()[-1]
        job.check()


@eventually
def await_attempts(caplog, kafka_address, number):
    """The pauses in seconds before the first `number` new attempts, each of which has named Kafka's address."""
    of_job = [each.getMessage() for each in caplog.records if each.name.startswith("namesrv_stream.job")]
    lines = [line for line in of_job if "Retrying in" in line]
    assert len(lines) >= number
    assert all(kafka_address in line for line in lines)
    return [float(line.split("Retrying in ")[1].split(" s")[0]) for line in lines[:number]]
