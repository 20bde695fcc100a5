"""Topics of Kafka as people make them."""

from kafka import KafkaAdminClient


def make_topic(kafka, name, partitions, configs):
    with KafkaAdminClient(bootstrap_servers=kafka["bootstrap.servers"]) as admin:
        admin.create_topics({name: {"num_partitions": partitions, "configs": configs}}, wait_for_metadata=True)
