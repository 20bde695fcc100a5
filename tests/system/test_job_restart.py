"""The job through what ends it: SIGKILL in the middle of a publication, a lost checkpoint, an outage of Kafka."""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition

from namesrv_stream.job import registry_job as job_module
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.job.checkpoint import Checkpoint
from namesrv_stream.job.micro_batch import MicroBatches
from namesrv_stream.job.query import QUERY_NAME
from namesrv_stream.rules.record_types import BrokerHeartbeat, PutKvConfig, UnregisterBroker
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import PINNED_TABLES
from tests.system.heartbeats import (
    BY_PRODUCERS_CLOCK,
    LIMIT_S,
    Heartbeats,
    Onlooker,
    address,
    assert_told_once,
    eventually,
    registration,
    shown,
)

TABLES_IN_TURN = ["topic", "broker", "cluster", "filter", "live", "kv_config", "broker_event"]


@contextlib.contextmanager
def dying_job(heartbeats, folder, at_commit):
    """A job in a process of its own, which is dead when the `with` is left: killed by itself, its JVM by us."""
    settings = folder / "namesrv.properties"
    settings.write_text("".join(f"{key}={text}\n" for key, text in heartbeats.options.items()))
    command = [sys.executable, "-m", "tests.system.dying_job", settings, str(at_commit)]
    with (folder / "dying-job.log").open("wb") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
        assert job.wait(LIMIT_S) == -signal.SIGKILL, (folder / "dying-job.log").read_text()[-3000:]
    finally:
        os.killpg(job.pid, signal.SIGKILL)


def heads_beyond(view, root):
    """Tables whose newest version is above the one that the snapshot names."""
    versions = view.snapshot.versions
    return {spec.name for spec in PINNED_TABLES if Root(root).open(spec).version() > versions[spec.name]}


@pytest.mark.full  # in every run tests/job/test_micro_batch_properties.py dies at such points, in one process
@pytest.mark.parametrize("at_commit", [1, len(TABLES_IN_TURN)], ids=["between two tables", "after the last table"])
def test_readers_never_see_half_a_batch_of_a_job_that_was_killed(heartbeats, spark, tmp_path, at_commit):
    with Onlooker(heartbeats.root) as onlooker:
        with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
            heartbeats.say(registration(1, filter_server_list=["f:1"]), registration(2))
            job.process_all()
        heartbeats.say(
            UnregisterBroker(broker_addr=address(1)),
            registration(3, topics=("TopicA", "TopicB"), filter_server_list=["f:3"]),
            registration(2, topics=("TopicC",), counter=2),
            PutKvConfig(namespace="n", key="k", value="v"),
        )
        with dying_job(heartbeats, tmp_path, at_commit):
            pass
        left = heads_beyond(heartbeats.view(), heartbeats.root)
        assert left == set(TABLES_IN_TURN) if at_commit == len(TABLES_IN_TURN) else left
        heartbeats.say(registration(4))
        with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
            job.process_all()
            last = heartbeats.await_offset(heartbeats.end_offset())
    states = heartbeats.states()
    onlooker.views[last.snapshot.epoch] = last
    for view in onlooker.views.values():
        assert shown(view.routes) == states[view.snapshot.offsets.get(0, 0)], view.snapshot
    assert_told_once(heartbeats)


def test_a_new_checkpoint_on_old_tables_goes_on_where_the_last_snapshot_stood(kafka, topic, spark, tmp_path):
    """A silent broker's lease ends at its exact deadline, for the snapshot is exact as of its offset."""
    heartbeats = Heartbeats(kafka, topic, tmp_path, BY_PRODUCERS_CLOCK, tickGapMillis="0")
    heartbeats.tick(0)
    heartbeats.say(registration(1), registration(2), PutKvConfig(namespace="n", key="k", value="v"))
    with BackgroundJob(spark.newSession(), heartbeats.settings, is_replay=True) as job:
        job.process_all()
        heartbeats.say(BrokerHeartbeat(broker_addr=address(1)), BrokerHeartbeat(broker_addr=address(2)), at_ms=29_000)
        job.process_all()
    told, offsets = heartbeats.rows("broker_event"), heartbeats.view().snapshot.offsets
    assert offsets == {0: heartbeats.end_offset()}
    shutil.rmtree(heartbeats.settings.checkpoint_location)
    with BackgroundJob(spark.newSession(), heartbeats.settings, is_replay=True) as job:
        heartbeats.say(BrokerHeartbeat(broker_addr=address(1)), at_ms=100_000)
        for at_ms in range(134_000, 149_001, 15_000):
            heartbeats.tick(at_ms)
        job.process_all()
        assert heartbeats.live() == [address(1), address(2)]
        assert heartbeats.rows("broker_event") == told
        heartbeats.tick(149_001)
        job.process_all()
        assert heartbeats.live() == [address(1)]
    heartbeats.close()


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


def test_a_checkpoint_without_its_tables_is_put_aside_and_the_tables_are_built_anew(heartbeats, spark, caplog):
    heartbeats.say(registration(1))
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
    shutil.rmtree(heartbeats.root)
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
    assert "is delta.root right?" in caplog.text
    assert heartbeats.live() == [address(1)]


def test_a_checkpoint_that_is_removed_under_the_running_job_is_put_aside_at_the_next_start(heartbeats, spark, caplog):
    """Spark goes on writing batches there, without the file `metadata` that it asks for at a start."""
    heartbeats.say(registration(1))
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
        shutil.rmtree(heartbeats.settings.checkpoint_location)
        heartbeats.say(registration(2))
        job.process_all()
    heartbeats.say(registration(3))
    with BackgroundJob(spark.newSession(), heartbeats.settings) as job:
        job.process_all()
    assert "its file `metadata` is missing" in caplog.text
    assert heartbeats.live() == [address(1), address(2), address(3)]


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
    assert "what was in between is lost" in caplog.text
    assert "goes on before offset 2, the oldest that Kafka has" in caplog.text


def delete_records(heartbeats, before):
    """Takes the oldest records from partition 0, as Kafka's retention does."""
    admin = KafkaAdminClient(bootstrap_servers=heartbeats.kafka["bootstrap.servers"])
    admin.delete_records({TopicPartition(heartbeats.topic, 0): before})
    admin.close()


def test_an_outage_of_kafka_is_waited_out_and_loses_nothing(node, topic, spark, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "namesrv_stream")
    impatient = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "2000"}
    heartbeats = Heartbeats(node, topic, tmp_path, **impatient)
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
    heartbeats.close()


@eventually
def await_attempts(caplog, kafka_address, number):
    """The pauses in seconds before the first `number` new attempts, each of which has named Kafka's address."""
    of_job = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(("namesrv_stream.job", "namesrv_stream.job"))
    ]
    lines = [line for line in of_job if "Next attempt in" in line]
    assert len(lines) >= number
    assert all(kafka_address in line for line in lines)
    return [float(line.split("Next attempt in ")[1].split(" s")[0]) for line in lines[:number]]
