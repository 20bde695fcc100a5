"""An error of Kafka that passes is never told as a refusal, and a client that met one is gone."""

import gc

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.kafka.librdkafka import named_kafka_error
from namesrv_stream.kafka.topic import answers
from tests.waiting import until


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaUnreachableError),
        (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaUnreachableError),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaUnreachableError),
        (KafkaError.NOT_ENOUGH_REPLICAS, KafkaUnreachableError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaRefusedError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaRefusedError),
    ],
)
def test_what_clients_try_again_by_contract_is_no_refusal(code, kind):
    assert type(named_kafka_error(KafkaError(code), "127.0.0.1:9092")) is kind


def test_a_client_that_got_no_answer_is_gone(nobody):
    def clients():
        return {id(each) for each in gc.get_objects() if isinstance(each, AdminClient)}

    before = clients()
    assert not answers({"bootstrap.servers": nobody, "socket.timeout.ms": 1_000})
    until(lambda: clients() <= before)
