"""A command over HTTP is one record on a real Kafka, with who asked and why."""

from concurrent.futures import ThreadPoolExecutor

from namesrv_stream.kafka.topic import end_offsets
from tests.console.background import BackgroundConsole
from tests.console.conftest import A, Client
from tests.console.orders import WIPE
from tests.log_records import first_records
from tests.waiting import until

RETIRE = {"type": "RETIRE_BROKER", "clusterName": "c1", "brokerName": "broker-a", "brokerId": 0, "reason": "sold"}


def test_a_command_is_one_record_that_history_keeps_with_its_reason(kafka, topic, registry, on_topic):
    with BackgroundConsole(on_topic()) as console:
        client = Client(console.url)
        answer = client.post(WIPE, "/v1/commands?wait=10ms")
        assert (answer.status, answer.json["offset"]) == (202, 0)
        [(_, record)] = first_records(kafka, topic, 1)
        assert (record.broker_name, record.reason) == ("broker-a", "disk full")
        assert record.requested_by.startswith("127.0.0.1:")
        up = client.post(RETIRE, "/v1/commands?unknown=true")
        assert up.status == 409
        assert "broker-a master in c1 is up (10.0.0.1:10911)" in up.json["detail"]
        unknown = client.post(RETIRE | {"brokerName": "nobody"})
        assert (unknown.status, "no down broker 'nobody master" in unknown.json["detail"]) == (409, True)
        registry.command(record)
        assert client.get("/v1/watch?epoch=3&wait=30s").json["epoch"] == 4
        assert "reason: disk full)" in client.get("/v1/why/TopicA?topic=true").json["sentences"][-1]["text"]


def test_a_command_that_the_job_refuses_is_a_conflict(kafka, topic, registry, on_topic):
    registry.expire(A)
    registry.register(A, "c1", "broker-a", publish=False)
    offset = registry.next_offset
    with BackgroundConsole(on_topic()) as console, ThreadPoolExecutor() as pool:
        client = Client(console.url)
        for _ in range(offset):
            client.post({"type": "LIFT_EXPIRY_GUARD", "reason": "r"})
        answer = pool.submit(client.post, RETIRE, "/v1/commands?wait=60s")
        until(lambda: end_offsets({"bootstrap.servers": kafka.bootstrap_servers}, topic) == {0: offset + 1})
        registry.command(first_records(kafka, topic, offset + 1)[-1][1])
        assert answer.result().status == 409
        assert f"rejected by the job in snapshot 5: broker-a master in c1 is up ({A})" in answer.result().json["detail"]
