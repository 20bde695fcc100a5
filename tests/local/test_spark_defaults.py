"""conf/spark-defaults.conf and the jars of conf/ivy.xml, in a real session."""

import signal
from contextlib import closing

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic


def test_ctrl_c_is_not_pysparks_to_hear(spark):
    """Its handler would cancel the jobs of a streaming query in the middle of a batch."""
    assert not getattr(signal.getsignal(signal.SIGINT), "__module__", "").startswith("pyspark")


def test_delta_tables_are_written_read_and_travelled(spark, tmp_path):
    path = str(tmp_path / "table")
    spark.sql(f"CREATE TABLE delta.`{path}` (broker_addr STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES ('10.0.0.1:10911')")
    assert spark.sql(f"SELECT * FROM delta.`{path}`").count() == 1
    assert spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 0").count() == 0


def test_kafka_is_read_as_a_table(spark, kafka, topic):
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)) as producer:
        producer.send(topic, key=b"10.0.0.1:10911", value=b"{}").get(30)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    [row] = spark.read.format("kafka").options(**options).load().collect()
    assert (row.key, row.value, row.offset) == (b"10.0.0.1:10911", b"{}", 0)
