import getpass
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from namesrv_stream.answers import absences, job_status
from namesrv_stream.answers.acknowledgements import NAMESPACE
from namesrv_stream.answers.verdict import verdict_of
from namesrv_stream.kafka.topic import end_offsets, ensure_topic
from namesrv_stream.records import decode_record
from namesrv_stream.rules.record_types import DeleteKvConfig, PutKvConfig
from namesrv_stream.tables.registry import Registry
from tests.clock import now_ms
from tests.data import data
from tests.log_records import first_records
from tests.system.heartbeats import PATIENT
from tests.waiting import until

ME = f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture
def on_kafka(kafka, topic, run, monkeypatch):
    """Runs the command line against a topic of its own in a real Kafka, for whose answers it waits."""
    monkeypatch.setattr(job_status, "_KAFKA_LIMIT_MS", 60_000)
    ensure_topic(PATIENT | {"bootstrap.servers": kafka.bootstrap_servers}, topic)
    return lambda line: run(line, **{"kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.topic": topic})


@pytest.fixture
def away(run, closed_port):
    """Runs the command line where Kafka does not answer."""
    return lambda line: run(line, **{"kafka.bootstrap.servers": f"127.0.0.1:{closed_port}"})


@pytest.fixture
def published(registry, kafka, topic):
    """Publishes as the job once Kafka has so many records, for a command that waits."""
    with ThreadPoolExecutor() as pool:

        def publish(records, act):
            def wait():
                until(lambda: end_offsets({"bootstrap.servers": kafka.bootstrap_servers}, topic) == {0: records})
                act()

            return pool.submit(wait)

        yield publish


COMMANDS = data(__file__, "commands.yaml")
EFFECTS = {
    "wipeWritePerm": "namesrv-stream: broker-a read-only: TopicA loses writes.\n",
    "deleteTopic": "namesrv-stream: TopicA is removed from 1 broker group (8 write queues) and loses its route.\n",
}
"""Command -> what it says that it takes, before it is sent."""


def test_a_change_is_one_record_without_a_brokers_key_and_a_name_that_is_there_needs_no_word(
    registry, kafka, topic, on_kafka
):
    registry.register("10.0.0.1:10911", "c1", "broker-a", publish=False)
    registry.command(PutKvConfig(namespace="NS", key="k", value="v"))
    for line in COMMANDS:
        result = on_kafka(line)
        assert (result.exit_code, result.stdout.split(";")[0]) == (0, "sent"), result.output
        assert result.stderr == EFFECTS.get(line.split()[0], "")
    wanted = [decode_record(json.dumps({"requestedBy": ME} | command).encode()) for command in COMMANDS.values()]
    assert first_records(kafka, topic, len(COMMANDS)) == [(b"", command) for command in wanted]


def test_wait_returns_once_a_snapshot_has_passed_the_record(registry, published, on_kafka):
    published(1, lambda: registry.register("10.0.0.1:10911", "c1", "broker-a"))  # in the place of the record: offset 0
    result = on_kafka("updateKvConfig -s NS -k k -v v --wait 60")
    assert (result.exit_code, "visible in snapshot 2" in result.stdout) == (0, True), result.output


def test_wait_for_tables_of_another_log_is_refused(registry, on_kafka):
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    result = on_kafka("wipeWritePerm -b broker-x --wait 60 --yes")
    assert result.exit_code == 1
    assert "another Kafka" in result.stderr


def test_a_sender_whom_the_machine_has_no_name_for_is_the_number(kafka, topic, on_kafka, unnamed):
    on_kafka("deleteTopic -t T --yes")
    assert first_records(kafka, topic, 1)[0][1].requested_by == f"{unnamed}@{socket.gethostname()}"


def test_status_counts_the_records_that_no_snapshot_has(registry, on_kafka):
    assert json.loads(on_kafka("status --json").stdout)["recordsBehind"] == 0
    on_kafka("deleteTopic -t T --yes")
    on_kafka("deleteTopic -t T --yes")
    assert json.loads(on_kafka("status --json").stdout)["recordsBehind"] == 2
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    assert json.loads(on_kafka("status --json").stdout)["recordsBehind"] == 1


def test_wait_ends_with_a_message_that_the_record_is_on_kafka(on_kafka):
    result = on_kafka("updateKvConfig -s NS -k k -v v --wait 0")
    assert result.exit_code == 1
    assert "reads offset 0" in result.stderr


def test_where_no_tables_can_be_read_a_command_says_that_it_checked_no_name(on_kafka, tmp_path):
    result = on_kafka(f"wipeWritePerm -b broker-x --root {tmp_path}/none")
    assert result.exit_code == 0
    assert f"cannot read the tables at {tmp_path}/none, so" in result.stderr
    assert "not checked: broker group broker-x." in result.stderr
    assert (
        "not checked: down broker b slave 1 in c"
        in on_kafka(f"retireBroker -c c -b b -i 1 --reason r --root {tmp_path}/none").stderr
    )
    assert on_kafka(f"updateKvConfig -s NS -k k -v v --root {tmp_path}/none").stderr == ""


def test_a_problem_is_acknowledged_by_its_name_until_a_time_and_that_is_ended(registry, kafka, topic, on_kafka):
    registry.register("10.0.0.1:10911", "c1", "broker-a", zone_name="z1")
    registry.expire("10.0.0.1:10911")
    [cause] = verdict_of(Registry(registry.root).newest()).causes
    before_ms = now_ms()
    early = on_kafka(f"endAcknowledgement {cause.id}")
    assert early.stderr.startswith(f"namesrv-stream: not sent: no acknowledged problem '{cause.id}' now.")
    assert on_kafka(f"acknowledge '{cause.name}' --for 3h --reason drill").exit_code == 0
    [(_, put)] = first_records(kafka, topic, 1)
    registry.command(put)
    assert on_kafka(f"endAcknowledgement '{cause.name}'").exit_code == 0
    _, (_, end) = first_records(kafka, topic, 2)
    assert (put.key, put.namespace, put.reason, put.requested_by) == (cause.id, NAMESPACE, "drill", ME)
    until_ms = json.loads(put.value)["until"]
    assert before_ms <= until_ms - 3 * 3_600_000 <= now_ms()
    assert end == DeleteKvConfig(namespace=NAMESPACE, key=cause.id, requested_by=ME)
    refused = on_kafka("acknowledge 'zone nowhere' --reason drill")
    assert refused.exit_code != 0
    assert f"'{cause.name}' ({cause.id})" in refused.stderr


def test_an_absence_is_planned_extended_and_ended_for_what_is_named(registry, kafka, topic, on_kafka):
    registry.now_ms = now_ms()
    registry.register("10.0.0.1:10911", "c1", "broker-a", zone_name="z 1")
    assert on_kafka("expectAbsence broker-a --zone 'z 1' --for 2h --reason 'kernel update' --as ann").exit_code == 0
    first, of_zone = (record for _, record in first_records(kafka, topic, 2))
    assert (first.namespace, first.key.rpartition("@")[0], first.reason, first.requested_by) == (
        absences.NAMESPACE,
        "group/broker-a",
        "kernel update",
        "ann",
    )
    assert of_zone.key.startswith("zone/z+1@")
    begin_ms, value = int(first.key.rpartition("@")[2]), json.loads(first.value)
    assert (value["name"], value["until"] - begin_ms, value["by"]) == ("broker-a", 2 * 3_600_000, "ann")
    registry.command(first)
    registry.now_ms = now_ms()
    registry.end("10.0.0.1:10911", "UNREGISTERED")
    registry.publish()
    listed = on_kafka("brokerList").stdout
    assert "1 in planned absence" in listed
    assert "(kernel update, ann)" in listed
    assert on_kafka("expectAbsence broker-a --for 5h --reason 'takes longer'").exit_code == 0
    extended = first_records(kafka, topic, 3)[2][1]
    assert extended.key == first.key
    assert json.loads(extended.value)["until"] > value["until"]
    assert on_kafka("endAbsence 10.0.0.1:10911").exit_code != 0
    assert on_kafka("endAbsence broker-a").exit_code == 0
    registry.command(first_records(kafka, topic, 4)[3][1])
    registry.now_ms = now_ms() + 1_000
    registry.publish()
    assert ": 1 down" in on_kafka("brokerList").stdout


RETIRE = "retireBroker -c c1 -b broker-a -i 0 --reason sold"


@pytest.mark.parametrize("is_back", [True, False])
def test_wait_says_what_came_of_a_command_also_that_the_job_refused_it(
    registry, kafka, topic, published, on_kafka, is_back
):
    registry.register("10.0.0.1:10911", "c1", "broker-a")
    registry.expire("10.0.0.1:10911")
    if is_back:
        registry.register("10.0.0.1:10911", "c1", "broker-a", publish=False)
    offset = registry.next_offset
    for _ in range(offset):
        on_kafka("liftExpiryGuard")

    published(offset + 1, lambda: registry.command(first_records(kafka, topic, offset + 1)[-1][1]))
    result = on_kafka(f"{RETIRE} --wait 60")
    assert result.exit_code == is_back, result.output
    refused = "rejected by the job in snapshot 4: broker-a master in c1 is up (10.0.0.1:10911)"
    done = f"{ME} retired broker-a master in c1 (reason: sold)."
    assert (refused if is_back else done) in result.output


def test_what_is_down_is_named_and_its_topic_is_there_without_a_route(registry, away):
    registry.register("10.0.0.2:10911", "c1", "broker-c", topics=("TopicC",))
    registry.expire("10.0.0.2:10911")
    assert "cannot reach Kafka" in away("deleteTopic -t TopicC").stderr, "it has no route, and is there"
    assert "not sent: no topic 'TopicC'" in away("deleteTopic -t TopicC -c c1").stderr, "no name is up"
    assert "not sent: broker-c is down, so the routes do not have it." in away("wipeWritePerm -b broker-c").stderr
    similar = away("retireBroker -c c1 -b broker-d -i 0 --reason sold").stderr
    assert ("not sent: no down broker 'broker-d" in similar, "Similar: " in similar) == (True, True)


def test_missing_topic_is_one_message(kafka, run):
    address = kafka.bootstrap_servers
    result = run("deleteTopic -t T --yes", **{"kafka.bootstrap.servers": address, "kafka.topic": "no-such"})
    assert (result.exit_code, address in result.stderr, "Traceback" in result.output) == (1, True, False)


@pytest.mark.parametrize(
    "line", ["wipeWritePerm -b x", "addWritePerm -b x", "deleteTopic -t TopicX", "deleteTopic -t T -c c1", RETIRE]
)
def test_a_name_that_is_not_there_is_sent_with_yes_and_kafka_that_is_away_is_named(away, closed_port, line):
    result = away(f"{line} --yes")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"cannot reach Kafka at 127.0.0.1:{closed_port}" in result.stderr
