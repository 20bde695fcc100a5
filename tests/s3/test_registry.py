"""A whole registry on one bucket, whose credentials are given once, as `delta.storage.*`."""

import json
import re
import sys

import pytest
from click.testing import CliRunner

from namesrv_stream.analysis.ask import ask
from namesrv_stream.analysis.views import open_snapshot, register_views
from namesrv_stream.cli.entry import main
from namesrv_stream.config import as_options
from namesrv_stream.errors import NamesrvError
from namesrv_stream.gateway.launch import BackgroundGateway
from namesrv_stream.job.background_job import BackgroundJob
from namesrv_stream.tables.maintenance import MAX_FILES, maintain
from namesrv_stream.tables.object_store import give_spark_access
from namesrv_stream.tables.registry import Registry
from namesrv_stream.tables.root import Root
from namesrv_stream.tables.schemas import BROKER_EVENT
from namesrv_stream.tools.local.jars import CHECKOUT, retrieved_jars
from tests.gateway.peer import Peer
from tests.system.clusters import environment, running_job, spark_submit, submitted
from tests.system.heartbeats import Heartbeats, address, eventually, registration
from tests.tables.batches import assert_shows_exactly, batch, claim
from tests.tables.rows import NOW

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(1800)]

GET_ROUTEINFO_BY_TOPIC = 105
LIMIT_S = 1200
"""Spark reads each table's log and files by requests of milliseconds each."""


@pytest.fixture(scope="session", autouse=True)
def jars():
    """Before Spark starts, which takes those that are there."""
    return retrieved_jars("s3")


@pytest.fixture
def heartbeats(kafka, topic, tmp_path, root):
    """Its tables lie on the bucket, its checkpoint in a folder of the test."""
    storage = {f"delta.storage.{key}": text for key, text in root.storage_options.items()}
    place = {"delta.root": root.url, "checkpoint.location": str(tmp_path / "checkpoint"), "listenPort": "0"}
    log = Heartbeats(kafka, topic, tmp_path, **place, **storage)
    log.root = root
    yield log
    log.close()


def asked_of_command_line(heartbeats, *command):
    done = CliRunner().invoke(main, [*as_options(heartbeats.options), *command])
    assert done.exit_code == 0, done.output
    return done.stdout


@eventually
def route_addresses(gateway, topic):
    with Peer(gateway.gateway.port) as peer:
        answer = peer.ask(GET_ROUTEINFO_BY_TOPIC, topic=topic, acceptStandardJsonOnly="true")
    assert answer.code == 0, answer
    return {text for each in json.loads(answer.body)["brokerDatas"] for text in each["brokerAddrs"].values()}


def test_job_gateway_and_command_line_share_a_bucket(heartbeats, spark, root):
    with BackgroundJob(spark.newSession(), heartbeats.settings), BackgroundGateway(heartbeats.settings) as gateway:
        heartbeats.say(registration(1), registration(2))
        heartbeats.await_offset(2)
        assert route_addresses(gateway, "TopicA") == {address(1), address(2)}
    assert address(1) in asked_of_command_line(heartbeats, "topicRoute", "-t", "TopicA")
    assert "REGISTERED" in asked_of_command_line(heartbeats, "history")
    heir = BackgroundJob(spark.newSession(), heartbeats.settings)
    with heir:
        heartbeats.say(registration(3))
        heartbeats.await_offset(heartbeats.end_offset())
    assert heartbeats.live() == [address(1), address(2), address(3)]
    rows = Registry(root).read(lambda snapshots: snapshots.readable())
    assert {row.term for row in rows} == {1, 2}


def test_a_checkpoint_on_the_bucket_is_gone_on_with(heartbeats, spark, root, s3):
    heartbeats.options["checkpoint.location"] = f"{root.url}-checkpoint"
    for number in (1, 2):
        with BackgroundJob(spark.newSession(), heartbeats.settings):
            heartbeats.say(registration(number))
            heartbeats.await_offset(heartbeats.end_offset())
    assert heartbeats.live() == [address(1), address(2)]
    checkpoint = Root(f"{root.url}-checkpoint")
    assert any("/commits/1" in name for name in s3.objects(checkpoint))


def test_views_maintenance_and_reader_agree_on_a_bucket(spark, root):
    publisher = claim(root)
    for number in range(6):
        publisher.publish(batch(number), NOW)
    snapshot = open_snapshot(spark.newSession(), root.url, storage_options=root.storage_options)
    assert snapshot == publisher.last
    session = spark.newSession()
    register_views(session, root.url, epoch=4, storage_options=root.storage_options)
    assert {row.topic for row in session.table("topic").collect()} == {"shared", "batch-0", "batch-1", "batch-2"}
    assert session.table("broker_event").count() == 3
    in_duckdb = ask(root.url, "SELECT topic FROM topic_placement", epoch=4, storage_options=root.storage_options)
    assert {row["topic"] for row in in_duckdb.to_pylist()} == {"shared", "batch-0", "batch-1", "batch-2"}
    care = {each.table: each for each in maintain(root)}
    assert [each.skipped_because for each in care.values() if each.skipped_because] == []
    assert all(each.files_after <= MAX_FILES for each in care.values())
    assert care[BROKER_EVENT.name].files_before == 6
    engines = {entry["engineInfo"].partition(":")[0] for entry in root.open(BROKER_EVENT).history()}
    assert engines == {"delta-rs"}
    assert_shows_exactly(root, *range(6))
    publisher.publish(batch(6), NOW)
    assert publisher.restored == []
    assert_shows_exactly(root, *range(7))


def test_spark_without_the_jars_of_a_store_is_an_error_that_names_how_to_get_them(spark):
    with pytest.raises(NamesrvError, match=r"gs://bucket/registry: .*`namesrv-stream jars s3`.*--jars"):
        give_spark_access(spark, Root("gs://bucket/registry"))


def test_spark_submit_publishes_to_a_bucket_and_sigterm_ends_it_in_order(heartbeats, tmp_path, monkeypatch):
    monkeypatch.chdir(CHECKOUT)
    log = tmp_path / "job.log"
    heartbeats.say(registration(1))
    command = spark_submit("--master", "local[2]", settings=heartbeats.options)
    with running_job(command, log, environment(sys.executable)):
        heartbeats.await_offset(1)
        heartbeats.say(registration(2))
        heartbeats.await_offset(2)
    assert heartbeats.live() == [address(1), address(2)]
    assert re.findall(r".*(?:Exception|StackOverflow|DEBUG).*", log.read_text()) == []


@pytest.fixture
def root_of_environment(root, monkeypatch):
    """A root without tables, with the credentials where AWS's own tools look for them."""
    for key, text in root.storage_options.items():
        monkeypatch.setenv(key.upper(), text)
    return root


def test_a_maintenance_takes_its_credentials_from_the_environment(root_of_environment):
    publisher = claim(root_of_environment)
    for number in range(6):
        publisher.publish(batch(number), NOW)
    job = CHECKOUT / "jobs" / "maintain_tables.py"
    done = submitted(job, "--root", root_of_environment.url, limit_s=LIMIT_S)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "broker_event: 6 files before, 1 now" in done.stdout.splitlines()
