"""A command over HTTP is one record on a real Kafka, with who asked and why."""

from namesrv_stream.kafka.topic import ensure_topic
from tests.console.background import BackgroundConsole
from tests.console.conftest import Client
from tests.log_records import first_records
from tests.system.heartbeats import PATIENT

WIPE = {"type": "WIPE_WRITE_PERM_OF_BROKER", "brokerName": "broker-a", "reason": "disk full"}


def test_a_command_is_one_record_that_history_keeps_with_its_reason(kafka, topic, registry, settings):
    ensure_topic(PATIENT | {"bootstrap.servers": kafka.bootstrap_servers}, topic)
    given = {"kafka__bootstrap__servers": kafka.bootstrap_servers, "kafka__topic": topic}
    with BackgroundConsole(settings(**given)) as console:
        client = Client(console.url)
        answer = client.post(WIPE, "/v1/commands?wait=10ms")
        assert (answer.status, answer.json["offset"]) == (202, 0)
        [(_, record)] = first_records(kafka, topic, 1)
        assert (record.broker_name, record.reason) == ("broker-a", "disk full")
        assert record.requested_by.startswith("127.0.0.1:")
        gone = {"type": "RETIRE_BROKER", "clusterName": "c1", "brokerName": "broker-a", "brokerId": 0, "reason": "sold"}
        assert "10.0.0.1:10911 is up as broker-a 0 of cluster c1" in client.post(gone).json["detail"]
        assert "not among the brokers that are down" in client.post(gone | {"brokerName": "nobody"}).json["detail"]
        registry.command(record)
        assert client.get("/v1/watch?epoch=3&wait=30s").json["epoch"] == 4
        assert "(reason: disk full)" in client.get("/v1/why/TopicA?topic=true").json["sentences"][-1]["text"]
