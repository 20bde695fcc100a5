"""An error of Kafka that passes is never told as a refusal."""

import pytest
from confluent_kafka import KafkaError

from namesrv_stream.errors import KafkaRefusedError, KafkaUnreachableError
from namesrv_stream.kafka.librdkafka import named_kafka_error


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
