"""Topics of Kafka as people make them."""

import pytest
from kafka import KafkaAdminClient


@pytest.fixture
def kafka(node):
    return {"bootstrap.servers": node.bootstrap_servers}


def make_topic(kafka, name, partitions, configs):
    with KafkaAdminClient(bootstrap_servers=kafka["bootstrap.servers"]) as admin:
        admin.create_topics({name: {"num_partitions": partitions, "configs": configs}}, wait_for_metadata=True)
